"""The experiment in a policy file: control, holdout, metrics and segments."""

from pathlib import Path

import pytest

import oddsmith as od
from oddsmith.files.experiment import ExperimentDesign, read_design
from oddsmith.files.keys import read_toml

ARMS = ("red", "blue")


def _design(tmp_path: Path, text: str) -> ExperimentDesign:
    path = tmp_path / "shop.toml"
    path.write_text(text)

    def read_control(file: Path) -> od.Policy:
        return od.read_policy(file).policy

    return read_design(read_toml(path), tmp_path, ARMS, read_control)


def test_a_file_without_an_experiment_has_none(tmp_path: Path) -> None:
    design = _design(tmp_path, "")
    assert (design.control, design.holdout, dict(design.metrics)) == (None, None, {})
    assert design.primary == "reward"


def test_everything_that_is_declared_is_read(tmp_path: Path) -> None:
    design = _design(
        tmp_path,
        """
        control = "arm:blue"
        min_days = 3
        max_days = 30
        [reward]
        metrics = { revenue = 0.01, refunds = -0.02 }
        [holdout]
        share = 0.1
        by = "unit"
        ramp = [{ until_day = 2, share = 0.9 }]
        end_day = 60
        [metrics.revenue]
        role = "primary"
        display_unit = "EUR"
        cap = 250
        matters = 0.02
        [metrics.refunds]
        role = "guardrail"
        better = "lower"
        limit = 0.1
        action = "pause_arm"
        [metrics.orders]
        [metrics.order_value]
        ratio = ["revenue", "orders"]
        [segments]
        device = ["mobile", "desktop"]
        """,
    )
    assert design.control is not None
    assert design.holdout is not None
    assert design.control.odds(None, ARMS, None, 2).tolist() == [0.0, 1.0]
    assert design.holdout.control is design.control
    assert [design.holdout.share_on(day) for day in (0, 2, 60)] == [0.9, 0.1, 1.0]
    assert design.primary == "revenue"
    assert design.metrics["refunds"].limit == 0.1
    assert design.metrics["order_value"].ratio == ("revenue", "orders")
    assert design.segments == {"device": ["mobile", "desktop"]}
    assert design.reward_weights == {"revenue": 0.01, "refunds": -0.02}
    assert (design.min_days, design.max_days) == (3.0, 30.0)


def test_a_policy_file_is_a_control(tmp_path: Path) -> None:
    (tmp_path / "today.toml").write_text(
        'arms = ["red", "blue"]\n[policy]\nkind = "ucb1"\n'
    )
    design = _design(tmp_path, 'control = "today.toml"\n[holdout]\n')
    assert design.control is not None
    assert design.control.name == "today.toml"
    assert design.control.odds(None, ARMS, None, 2).sum() == 1.0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('control = "arm:green"', "control must be one of the arms"),
        ('control = "unifrom"', "did you mean uniform"),
        ("control = 3", "control must be a policy"),
        ("[holdout]\nshare = 1.5", "holdout.share"),
        ('[holdout]\nby = "visit"', "holdout.by must be one of"),
        ('[holdout]\nshare = 0\nby = "unit"', "share must be above 0"),
        ("[holdout]\nramp = 3", "holdout.ramp must be a list"),
        ("[holdout]\nramp = [{ share = 0.5 }]", "until_day must be given"),
        (
            "[holdout]\nramp = [{ until_day = 3, share = 0.5 }, "
            "{ until_day = 2, share = 0.2 }]",
            "days of ramp must increase",
        ),
        ("[holdout]\nshar = 0.1", "did you mean share"),
        ("[metrics.a]\nrole = 'primary'\n[metrics.b]\nrole = 'primary'", "one primary"),
        ("[metrics.a]\nratio = ['b', 'c']", "ratio must name metrics"),
        ("[metrics.a]\nratio = 'b'", "must be two metrics"),
        ("[metrics.a]\nlimt = 1", "did you mean limit"),
        ("[reward]\nmetrics = { a = 1 }", "reward.metrics.a must be a declared metric"),
        ("[segments]\ndevice = 'mobile'", "segments.device must be a list"),
        (f"[segments]\nage = {list(range(21))}", "at most 20"),
        ("min_days = 9\nmax_days = 3", "max_days"),
    ],
)
def test_contradictions_are_refused_by_key(
    tmp_path: Path, text: str, words: str
) -> None:
    with pytest.raises(od.OddsmithError, match=words):
        _design(tmp_path, text)


def test_a_policy_file_has_its_design(tmp_path: Path) -> None:
    path = tmp_path / "shop.toml"
    path.write_text(
        'arms = ["red", "blue"]\ncontrol = "uniform"\n[policy]\nkind = "ucb1"\n'
        "[holdout]\nshare = 0.2\n[metrics.revenue]\ncap = 9\n"
        "[reward]\nmetrics = { revenue = 0.1 }\n"
    )
    design = od.read_policy(path).design
    assert design.holdout is not None
    assert design.holdout.share == 0.2
    assert design.holdout.control.kind == "uniform"
    assert design.metrics["revenue"].top == 9
    assert design.reward_weights == {"revenue": 0.1}
