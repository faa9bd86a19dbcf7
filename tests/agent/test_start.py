"""Agent(policy, start=…): a state, a log, what was fitted, or a saved file."""

from pathlib import Path

import numpy as np
import pytest

import oddsmith as od
from oddsmith.core.errors import BadFile, InvalidInput

ARMS = ["a", "b"]


def _log() -> od.Log:
    rng = np.random.default_rng(0)
    arm = rng.integers(2, size=60)
    reward = (rng.random(60) < np.where(arm == 1, 0.8, 0.2)).astype(float)
    context = rng.normal(size=(60, 2))
    odds = np.full((60, 2), 0.5)
    return od.Log(arm=arm, reward=reward, context=context, propensities=odds)


def _policy() -> od.Policy:
    return od.auto(ARMS, size="small")


def test_every_form_of_start_is_the_fitted_state(tmp_path: Path) -> None:
    log = _log()
    policy = _policy()
    fit = od.fit_log(policy, log)
    path = tmp_path / "state.npz"
    fitted = od.Agent(policy, seed=1, state=fit.state)
    fitted.save(path)
    forms = [fit.state, fit, log, path, str(path)]
    expected = fitted.decide([0.3, 0.1]).propensities
    for start in forms:
        agent = od.Agent(policy, seed=1, start=start)
        assert agent.state.learnt == 60
        assert agent.steps == 0
        found = agent.decide([0.3, 0.1]).propensities
        np.testing.assert_array_equal(found, expected)


def test_start_is_checked(tmp_path: Path) -> None:
    policy = _policy()
    with pytest.raises(InvalidInput, match="must not both be given"):
        od.Agent(policy, seed=1, start=policy.init(), state=policy.init())
    with pytest.raises(InvalidInput, match=r"od\.read_log"):
        od.Agent(policy, seed=1, start="june.csv")
    with pytest.raises(InvalidInput, match="state must be one of"):
        od.Agent(policy, seed=1, start=17)
    path = tmp_path / "other.npz"
    od.Agent(od.auto(ARMS), seed=1).save(path)
    with pytest.raises(BadFile, match="another policy"):
        od.Agent(policy, seed=1, start=path)
