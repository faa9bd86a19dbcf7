"""The held-out comparison with the logging policy that ends a fit."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oddsmith as od
from oddsmith.cli.main import main
from oddsmith.logs.comparison import Comparison
from oddsmith.logs.table import Log

MEANS = np.array([[0.2, 0.5], [0.6, 0.3]])  # context by arm
LOGGED = np.array([[0.3, 0.7], [0.6, 0.4]])


class Preference(od.Policy):
    """A policy with the same propensities for ever: by context, (2, 2)."""

    def __init__(self, propensities: Any) -> None:
        self._propensities = np.array(propensities)

    def init(self, shape: tuple[int, ...] = ()) -> Any:
        return od.GeneralizedThompsonSampling(od.GivenExperts(["a"])).init(shape)

    def odds(
        self, state: Any, context: Any, *, eligible: Any = None, step: Any = None
    ) -> od.Odds:
        return od.Odds(self._propensities[np.asarray(context)[..., 0].astype(int)])

    def update(self, state: Any, decision: Any, reward: Any) -> Any:
        return state._replace(learnt=state.learnt + 1)


def log_of(rows: int, seed: int) -> Log:
    rng = np.random.default_rng(seed)
    context = rng.integers(2, size=rows)
    odds = LOGGED[context]
    arm = (rng.random(rows) < odds[:, 1]).astype(int)
    reward = (rng.random(rows) < MEANS[context, arm]).astype(float)
    return Log(
        arm=arm,
        reward=reward,
        propensities=odds,
        context=context[:, None].astype(float),
    )


def comparison_of(policy: Any, log: Log) -> Comparison:
    comparison = od.fit_log(policy, log).comparison
    assert comparison is not None
    return comparison


def test_it_is_the_mean_of_paired_estimates() -> None:
    """With experts that predict nothing, the rewards so far are the prediction."""
    log = log_of(400, 1)
    own = np.array([[0.9, 0.1], [0.2, 0.8]])
    comparison = comparison_of(Preference(own), log)
    differences = []
    seen, total = 0, 0.0
    while seen < len(log):
        block = log[seen : seen + max(8, int(0.02 * seen))]
        mean = (total + 0.5) / (seen + 1)
        for row in block:
            odds = own[int(row["context"][0])]
            ratio = odds[row["arm"]] / row["propensities"][row["arm"]]
            differences.append(mean + ratio * (row["reward"] - mean) - row["reward"])
        seen += len(block)
        total += float(block.reward.sum())
    late = np.array(differences[200:])
    assert comparison.difference == pytest.approx(late.mean())
    assert comparison.logged == pytest.approx(log.reward[200:].mean())
    assert comparison.rows == 200
    spread = comparison.high - comparison.low
    assert spread > 2 * 1.96 * late.std() / np.sqrt(200)


def test_intervals_cover_the_difference() -> None:
    own = np.array([[0.1, 0.9], [0.9, 0.1]])
    truth = ((own - LOGGED) * MEANS).sum(axis=1).mean()
    found = [comparison_of(Preference(own), log_of(300, seed)) for seed in range(200)]
    covered = [one.low <= truth <= one.high for one in found]
    # 95 % nominal; below 90 % by chance once in a thousand runs
    assert np.mean(covered) > 0.90
    assert {one.verdict for one in found} <= {"better", "cannot be told", "not worse"}


@pytest.mark.parametrize(
    ("own", "verdict", "ready"),
    [
        ([[0.0, 1.0], [1.0, 0.0]], "better", True),
        ([[1.0, 0.0], [0.0, 1.0]], "worse", False),
        (LOGGED, "not worse", True),
    ],
)
def test_verdicts(own: Any, verdict: str, ready: bool) -> None:
    comparison = comparison_of(Preference(own), log_of(3_000, 2))
    assert (comparison.verdict, comparison.ready) == (verdict, ready)
    assert verdict in str(comparison)


def test_little_data_cannot_tell() -> None:
    comparison = comparison_of(Preference([[0.2, 0.8], [0.7, 0.3]]), log_of(120, 3))
    assert comparison.verdict == "cannot be told"
    assert not comparison.ready
    assert "share of the traffic" in str(comparison)


def test_logs_that_do_not_allow_one() -> None:
    log = log_of(200, 4)
    unknown = Log(arm=log.arm, reward=log.reward, context=log.context)
    assert od.fit_log(Preference(LOGGED), unknown).comparison is None
    assert od.fit_log(Preference(LOGGED), log[:40]).comparison is None


def test_fixed_experts_are_compared_and_learn_as_before() -> None:
    """A batch is still folded as a whole, to the last bit."""
    experts = od.FunctionExperts(
        {
            "right": lambda context: MEANS[int(context[0])],
            "wrong": lambda context: 1 - MEANS[int(context[0])],
        },
        arms=["a", "b"],
    )
    policy = od.GeneralizedThompsonSampling(experts)
    log = log_of(2_000, 5)
    fit = od.fit_log(policy, log)
    assert fit.comparison is not None
    assert fit.comparison.verdict == "better"
    reader = od.logs.LogReader(rows=2_000)
    parallel = od.fit_log(policy, log, engine="local", workers=1, reader=reader)
    assert parallel.comparison is None
    np.testing.assert_array_equal(fit.state.log_weights, parallel.state.log_weights)


def test_the_command_states_whether_the_state_is_ready(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "log.parquet"
    od.write_log(log_of(600, 6), path)
    (tmp_path / "auto.toml").write_text('[policy]\nkind = "auto"\nsize = "small"\n')
    arguments = ["fit", str(path), "--policy", str(tmp_path / "auto.toml")]
    arguments += ["--out", str(tmp_path / "state.npz")]
    assert main([*arguments, "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)["comparison"]
    assert facts["ready"] == (facts["verdict"] in ("better", "not worse"))
    assert facts["low"] < facts["difference"] < facts["high"]
    assert main(arguments) == 0
    assert "rows before it learnt from them" in capsys.readouterr().out
