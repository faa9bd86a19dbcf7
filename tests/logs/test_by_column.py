"""Odds in columns side by side go to the arms that the columns are named for; a column
that is not ours is left out."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import oddsmith as od

FRAME = pd.DataFrame(
    {
        "time": ["01.09.2026 00:00", "01.09.2026 00:01", "01.09.2026 00:02"],
        "shown": ["b", "a", "b"],
        "click": [1, 0, 1],
        "p_b": [0.5, 0.6, 0.7],
        "p_a": [0.3, 0.2, 0.1],
        "p_ab": [0.2, 0.2, 0.2],
    }
)
NAMES = {"arm": "shown", "reward": "click", "time": ""}


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet", "memory"])
@pytest.mark.parametrize("arms", [None, ["a", "ab", "b"], ["b", "ab", "a"]])
@pytest.mark.parametrize("order", [["p_b", "p_a", "p_ab"], ["p_ab", "p_a", "p_b"]])
def test_odds_are_of_the_arm_in_the_columns_name(
    tmp_path: Path, suffix: str, arms: Any, order: list[str]
) -> None:
    source: Any = tmp_path / f"log{suffix}"
    if suffix == ".csv":
        FRAME.to_csv(source, index=False)
    elif suffix == ".jsonl":
        FRAME.to_json(source, orient="records", lines=True)
    elif suffix == ".parquet":
        FRAME.to_parquet(source)
    else:
        source = FRAME
    log: Any = od.read_log(source, columns=NAMES | {"propensities": order}, arms=arms)
    assert log.arms == tuple(one[2:] for one in order) if arms is None else tuple(arms)
    for name in ("a", "b", "ab"):
        np.testing.assert_array_equal(
            log.propensities[:, log.arms.index(name)], FRAME[f"p_{name}"]
        )
    assert [log.arms[arm] for arm in log.arm] == list(FRAME["shown"])
    assert log.time is None


def test_columns_that_do_not_name_the_arms_need_their_order() -> None:
    plain = FRAME.rename(columns={"p_a": "q1", "p_b": "q2", "p_ab": "q3"})
    columns = NAMES | {"propensities": ["q1", "q2", "q3"]}
    with pytest.raises(
        od.BadFile,
        match=r"q1, q2, q3; 'a' is in none: name the arms in the order of the columns",
    ):
        od.read_log(plain, columns=columns)
    log: Any = od.read_log(plain, columns=columns, arms=["a", "b", "ab"])
    np.testing.assert_array_equal(log.propensities[:, 0], FRAME["p_a"])
    crossed: Any = od.read_log(plain, columns=columns, arms=["b", "a", "ab"])
    # the order is the caller's
    np.testing.assert_array_equal(crossed.propensities[:, 0], FRAME["p_a"])


def test_a_column_of_another_meaning_is_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    FRAME.to_csv(tmp_path / "log.csv", index=False)
    with pytest.raises(
        od.errors.BrokenLog,
        match=r"got '01.09.2026 00:00': write it so, or leave the column out: columns=",
    ):
        od.read_log(tmp_path / "log.csv", columns={"arm": "shown", "reward": "click"})
    with pytest.raises(od.BadFile, match="must have the column '' for arm"):
        od.read_log(tmp_path / "log.csv", columns={"arm": "", "reward": "click"})
    from oddsmith.cli.main import main

    how = [
        "--columns",
        "arm=shown",
        "reward=click",
        "time=",
        "propensities=p_b,p_a,p_ab",
    ]
    # three rows are too few
    assert (
        main(["evaluate", str(tmp_path / "log.csv"), "--target", "uniform", *how]) == 3
    )
    assert "3 rows over 3 arms" in capsys.readouterr().out
