"""What may not become of the arms of a log: one sentence, the next step, and nothing is
harmed."""

from pathlib import Path

import numpy as np
import pytest

import oddsmith as od
from oddsmith.cli.main import main
from oddsmith.server.experiment.start import open_experiments
from server.experiment.test_arms_added import AUTO, events, site, visit, visit_all
from server.served import here

LINEAR = '[experts.lines]\nkind = "linear"\nfile = "lines.npz"\n'
WRONG = {
    "one is gone": (
        "ac",
        AUTO,
        (
            r"arms must begin with those of the log, \['a', 'b'\].*; 'b' is not there. "
            r"Put it back: "
        ),
    ),
    "in another order": (
        "bac",
        AUTO,
        (
            r"arms must begin with .*; got \['b', 'a', 'c'\]. Undo the change; or "
            r"begin a new"
        ),
    ),
    "in front": (
        "cab",
        AUTO,
        (
            r"got \['c', 'a', 'b'\]. Undo the change; or begin a new log: another "
            r"store in \[service\]\."
        ),
    ),
    "with the call": (
        None,
        AUTO,
        (
            r"arms must be the same as in the log, \['a', 'b'\]; the file has none, so "
            r"calls .* `oddsmith fit` learns"
        ),
    ),
    "bounds of new ones": (
        "abc",
        f"{AUTO}[floors]\nc = 0.1\n",
        r"arms \['c'\] cannot be added .* floors.c",
    ),
    "another setting": (
        "abc",
        AUTO.replace("0.1", "0.2"),
        r"is the log of another policy: policy.gamma was 0.1, is 0.2",
    ),
    "too much": ("abc", f"floors = 0.4\n{AUTO}", r"floors"),
}


@pytest.mark.parametrize("what", WRONG)
def test_other_changes_of_arms_are_refused_with_the_next_step(
    tmp_path: Path, what: str
) -> None:
    with here(site(tmp_path, "ab")) as served:
        visit(served, 0, 2)
    arms, rest, sentence = WRONG[what]
    with pytest.raises(od.OddsmithError, match=sentence):
        open_experiments([site(tmp_path, arms, rest)])
    assert len(events(tmp_path / "news.sqlite")) == 1
    with here(site(tmp_path, "ab")) as served:  # and nothing was harmed
        visit(served, 2, 2)


def test_a_log_of_fixed_arms_is_the_start_of_one_whose_arms_come_with_calls(
    tmp_path: Path,
) -> None:
    """What the refusal of a file that drops its arms names as the next step."""
    with here(site(tmp_path, "ab")) as served:
        visit_all(served, 0, 50)
    log, start = tmp_path / "log.parquet", tmp_path / "start.npz"
    file = site(tmp_path, None, store="calls.sqlite", service='start = "start.npz"\n')
    assert main(["export", str(tmp_path / "news.sqlite"), "--out", str(log)]) == 0
    assert main(["fit", str(log), "--policy", str(file), "--out", str(start)]) == 0
    with here(file) as served:
        odds = served.post("decide", {"context": {"odd": 1}, "arms": ["a", "b", "c"]})[
            "odds"
        ]
        assert max(odds, key=odds.__getitem__) == "a"


def test_policies_that_cannot_gain_arms_say_so(tmp_path: Path) -> None:
    np.savez(tmp_path / "lines.npz", weights=np.ones((2, 2, 1)))
    for rest in (
        '[policy]\nkind = "linucb"\ndim = 1\n',
        f"[policy]\ngamma = 0.1\n{LINEAR}",
    ):
        store = f"{len(rest)}.sqlite"
        open_experiments([site(tmp_path, "ab", rest, store=store)])[0].store.close()
        if "lines" in rest:
            np.savez(tmp_path / "lines.npz", weights=np.ones((2, 3, 1)))
        with pytest.raises(
            od.BadFile,
            match=(
                r"arms \['c'\] cannot be added to a log that has begun: .* begin a new "
                r"log"
            ),
        ):
            open_experiments([site(tmp_path, "abc", rest, store=store)])


def test_a_log_of_offers_gains_no_arms_of_its_own(tmp_path: Path) -> None:
    open_experiments([site(tmp_path, None)])[0].store.close()
    with pytest.raises(
        od.BadFile,
        match=(
            r"calls have passed their arms so far, and the file now has arms of its own.* Undo the "
            r"ch"
        ),
    ):
        open_experiments([site(tmp_path, "ab")])
