"""`oddsmith evaluate --control`: the library's scorecard as text and JSON."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oddsmith as od
from oddsmith.cli.main import main
from oddsmith.contexts.metrics import REWARD, Metric
from oddsmith.evaluation import policy_odds, score_metrics, unit_log
from oddsmith.logs import Log

METRICS = """
control = "arm:old"
[metrics.revenue]
role = "primary"
display_unit = "EUR"
cap = 50
[metrics.refunds]
role = "guardrail"
better = "lower"
high = 1
limit = 0.1
[segments]
device = ["mobile", "desktop"]
"""


def shop(rows: int = 4000) -> Log:
    rng = np.random.default_rng(0)
    arm = rng.integers(2, size=rows)
    sale = (rng.random(rows) < 0.1 + 0.1 * arm).astype(float)
    revenue = sale * rng.exponential(20.0, size=rows)
    refund = sale * (rng.random(rows) < 0.1)
    devices = rng.choice(["mobile", "desktop"], size=rows)
    return Log(
        arm=arm,
        reward=sale,
        propensities=np.full((rows, 2), 0.5),
        context=[{"device": str(device)} for device in devices],
        metric=np.column_stack([revenue, refund]),
        arms=["old", "new"],
        metrics=["revenue", "refunds"],
    )


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: Any) -> Path:
    monkeypatch.chdir(tmp_path)
    od.write_log(shop(), "log.parquet")
    Path("m.toml").write_text(METRICS)
    return tmp_path


def asked(capsys: Any, *arguments: str) -> Any:
    assert main(["evaluate", "log.parquet", *arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("interval", ["anytime", "one_look"])
def test_the_scorecard_is_the_librarys(
    folder: Path, capsys: Any, interval: str
) -> None:
    options = ["--interval", "anytime"] if interval == "anytime" else []
    found = asked(
        capsys,
        "--target=arm:new",
        "--metrics=m.toml",
        "--model=none",
        "--lift=linear",
        *options,
    )
    metrics = [
        Metric("revenue", role="primary", display_unit="EUR", cap=50.0),
        Metric("refunds", role="guardrail", better="lower", high=1.0, limit=0.1),
    ]
    expected = score_metrics(
        shop(),
        {"arm:new": [0, 1]},
        [1, 0],
        metrics,
        interval=interval,  # type: ignore[arg-type]
        lift="linear",
    )
    assert found["control"] == "arm:old"
    for one, other in zip(found["results"], expected, strict=True):
        assert one["difference"]["low"] == pytest.approx(other.difference.low)
        assert one["lift"]["high"] == pytest.approx(other.lift.high)
        assert one["outcome"] == other.outcome
    segments = found["segments"]["arm:new"]["segments"]
    assert set(segments) == {"device=mobile", "device=desktop"}
    assert found["segments"]["arm:new"]["cochran_q"]["degrees"] == 1


def test_text_begins_with_the_lift(folder: Path, capsys: Any) -> None:
    assert (
        main(["evaluate", "log.parquet", "--target=arm:new", "--metrics=m.toml"]) == 0
    )
    text = capsys.readouterr().out
    first = text.splitlines()[0]
    assert first.startswith("arm:new: revenue +")
    assert "against arm:old, 95 % interval" in first
    assert "revenue is kept in [0, 50]" in text
    assert "Cochran's Q" in text


def test_doubling_high_changes_no_number(folder: Path, capsys: Any) -> None:
    """The upper end of rewards is for learning; a cap is declared."""
    Path("cap.toml").write_text("[metrics.reward]\nrole = 'primary'\ncap = 2\n")
    amounts = shop()
    lines = [
        {"arm": int(arm), "reward": 3 * reward, "propensity": 0.5}
        for arm, reward in zip(amounts.arm, amounts.reward, strict=True)
    ]
    text = "\n".join(json.dumps(line) for line in lines)
    Path("log.jsonl").write_text(text)
    found = []
    for high in ("10", "20"):
        command = ["evaluate", "log.jsonl", "--target=arm:1", "--control=arm:0"]
        command += ["--metrics=cap.toml", "--interval=anytime", "--floor=0.5"]
        assert main([*command, "--reward", "0", high, "--json"]) == 0
        found.append(json.loads(capsys.readouterr().out))
    first, second = (one["results"][0] for one in found)
    assert first["cap"] == 2
    for name in ("difference", "lift"):
        for end in ("value", "low", "high"):
            assert first[name][end] == pytest.approx(second[name][end], rel=1e-9)


def test_a_holdout_by_decision_and_by_unit(folder: Path, capsys: Any) -> None:
    rng = np.random.default_rng(1)
    rows = 3000
    policy = np.tile([0.2, 0.8], (rows, 1))
    control = np.tile([1.0, 0.0], (rows, 1))
    odds = 0.7 * policy + 0.3 * control
    arm = (rng.random(rows) < odds[:, 1]).astype(np.int64)
    reward = (rng.random(rows) < 0.1 + 0.2 * arm).astype(float)
    columns: dict[str, Any] = {
        "reward": reward,
        "control": control,
        "holdout": np.full(rows, 0.3),
        "unit": [f"v{number // 2}" for number in range(rows)],
        "arms": ["old", "new"],
    }
    log = Log(arm=arm, propensities=odds, **columns)
    od.write_log(log, "log.parquet")
    found = asked(capsys, "--target=policy", "--control=incumbent")
    (expected,) = score_metrics(
        log, {"policy": policy_odds(log)}, control, interval="one_look"
    )
    difference = found["results"][0]["difference"]
    assert difference["low"] == pytest.approx(expected.difference.low)
    group = np.where(rng.random(rows // 2) < 0.3, "control", "policy").repeat(2)
    own = np.where(group[:, None] == "control", control, policy)
    arm = (rng.random(rows) < own[:, 1]).astype(np.int64)
    by_unit = Log(arm=arm, propensities=own, group=group.astype(object), **columns)
    od.write_log(by_unit, "log.parquet")
    found = asked(capsys, "--target=policy", "--control=incumbent")
    metric = Metric(REWARD, role="primary", high=1.0)
    (expected,) = score_metrics(
        unit_log(by_unit), {"policy": [1, 0]}, [0, 1], [metric], interval="one_look"
    )
    assert found["results"][0]["rows"] == rows // 2
    difference = found["results"][0]["difference"]
    assert difference["low"] == pytest.approx(expected.difference.low)


def pages(n: int, *, by_unit: bool) -> Log:
    """Pages of two slots, half of them of the control, over 20 days; the last 2 days
    come after the end."""
    rng = np.random.default_rng(2)
    page = np.arange(n).repeat(2)
    slot = np.tile([1, 2], n)
    is_control = (rng.random(n) < 0.5)[page]
    after = page >= 0.9 * n
    arm = np.where(is_control | after, 0, 1)
    reward = (rng.random(2 * n) < 0.2 + 0.2 * arm * (slot == 1)).astype(float)
    devices = rng.choice(["mobile", "desktop"], size=n)
    group = np.where(is_control | after, "control", "policy").astype(object)
    unit = page // 3 if by_unit else page
    return Log(
        arm=arm,
        reward=reward,
        propensities=np.eye(2)[arm],
        context=[{"device": str(devices[one])} for one in page],
        time=np.datetime64("2026-03-01") + page * np.timedelta64(20 * 86_400 // n, "s"),
        slate=[f"p{one}" for one in page],
        slot=slot,
        control=np.tile([1.0, 0.0], (2 * n, 1)),
        holdout=np.where(after, 1.0, 0.5),
        group=group,
        unit=[f"u{one}" for one in unit],
        arms=["old", "new"],
    )


def test_slots_segments_volume_and_ratio_of_units(folder: Path, capsys: Any) -> None:
    """Each number is computed again from the pages."""
    log = pages(2000, by_unit=False)
    od.write_log(log, "log.parquet")
    Path("s.toml").write_text(
        "[metrics.reward]\ncap = 2\n[segments]\ndevice = ['mobile', 'desktop']\n"
    )
    options = ("--target=policy", "--control=incumbent", "--metrics=s.toml")
    found = asked(capsys, *options)
    assert "400 of 4,000 rows are left out" in " ".join(found["notes"])
    (result,) = found["results"]
    assert result["rows"] == 1800
    own = log[:3600]
    is_policy = own.arm == 1
    for slot in (1, 2):
        in_slot = own.slot == slot
        means = [own.reward[in_slot & side].mean() for side in (is_policy, ~is_policy)]
        (one,) = found["slots"][str(slot)]
        assert one["difference"]["value"] == pytest.approx(means[0] - means[1])
        assert one["level"] == pytest.approx(0.975)
    assert found["slots"]["1"][0]["outcome"] == "better"
    segments = found["segments"]["policy"]["segments"]
    contexts: Any = own.context
    mobile = np.array([one["device"] == "mobile" for one in contexts])
    assert segments["device=mobile"]["rows"] == mobile.sum() / 2
    assert found["per_day"] == pytest.approx(100)
    assert result["per_month"]["low"] == pytest.approx(
        result["difference"]["low"] * 100 * 30.4
    )
    counts = found["sample_ratio"]["counts"]
    assert counts == [is_policy.sum() / 2, 1800 - is_policy.sum() / 2]
    assert not found["sample_ratio"]["is_mismatch"]
    assert main(["evaluate", "log.parquet", *options]) == 0
    text = capsys.readouterr().out
    for words in (
        "policy: per month, at 100 per day: reward +",
        "  slot 1: ",
        "  device=mobile: ",
        "Sample ratio: ",
    ):
        assert words in text


def test_a_sample_ratio_mismatch_comes_first(folder: Path, capsys: Any) -> None:
    log = shop()
    wrong = np.tile([0.465, 0.535], (len(log), 1))
    columns = log.columns() | {"propensities": wrong, "propensity": None}
    od.write_log(Log(**columns, arms=log.arms, metrics=log.metrics), "log.parquet")
    assert (
        main(["evaluate", "log.parquet", "--target=arm:new", "--metrics=m.toml"]) == 0
    )
    assert capsys.readouterr().out.startswith("Sample ratio mismatch: these results")


def test_wrong_questions(folder: Path, capsys: Any) -> None:
    command = ["evaluate", "log.parquet", "--target=arm:new"]
    for options, message in (
        (["--control=arm:mew"], "must name one of the log's arms"),
        (["--control=arm:old", "--out=report"], "out must not be given with --control"),
        (["--control=incumbent"], "needs the column control"),
        (["--target=policy", "--control=arm:old"], "need the columns propensities"),
    ):
        assert main([*command, *options]) == 2
        assert message in capsys.readouterr().err
    Path("none.toml").write_text("[metrics.revenue]\nrole = 'primary'\n")
    assert main([*command, "--metrics=none.toml"]) == 2
    assert "metrics need a control" in capsys.readouterr().err
