"""As you did it in river: both codes of the page run, and agree where both must;
skipped by name without it."""

from math import log
from pathlib import Path

import numpy as np
import pytest

from peers.side_by_side import Check, Names, complete, peer, play, same_shares


def river_learns(theirs: Names, ours: Names) -> None:
    """Both earn more than any one article would have, by the luck that they had."""
    for clicks in (theirs["their_clicks"], ours["our_clicks"]):
        for article in ours["ARMS"]:
            assert sum(clicks) > sum(
                ours["click"](x, article, luck) for x, luck in ours["VISITS"]
            )


def river_regressions(theirs: Names, ours: Names) -> None:
    for x, _ in ours["VISITS"][:10]:
        means = ours["linear"].view(ours["state"], x, None).means
        found = [
            theirs["taught"]._bayes_lin_regs[arm].predict_one(x | {"constant": 1.0})
            for arm in ours["ARMS"]
        ]
        np.testing.assert_allclose(means, found, atol=1e-8)


def river_arms(theirs: Names, ours: Names) -> None:
    assert theirs["among"] in ("sports", "tech")
    assert ours["among"].arm in ("sports", "tech")
    assert ours["among"].propensities[1] == 0


def river_thompson(theirs: Names, ours: Names) -> None:
    same_shares(ours["beta_odds"], theirs["tosses"], ours["ARMS"])


def river_epsilon(theirs: Names, ours: Names) -> None:
    same_shares(ours["greedy_odds"], theirs["pulled"], ours["ARMS"])


def river_models(theirs: Names, ours: Names) -> None:
    """The posterior leads to the model with the least log loss of what it said of the
    drawn arms."""
    names = list(theirs["models"])
    losses = [0.0] * len(names)
    for decision, reward in theirs["seen"]:
        for place, said in enumerate(decision.advice):
            losses[place] -= log(said) if reward else log(1 - said)
    posterior = theirs["mixed"].posterior()
    assert max(posterior, key=posterior.__getitem__) == names[int(np.argmin(losses))]


def river_replay(theirs: Names, ours: Names) -> None:
    """Two policies of one kind on one log: equal up to five standard errors of their
    difference."""
    live = ours["live"]
    error = np.hypot(live.error, 0.5 / np.sqrt(theirs["used"]))
    assert theirs["replayed"] == pytest.approx(live.value, abs=5 * error)


CHECKS: dict[str, Check] = {
    "Create, choose, learn": river_learns,
    "The same regressions": river_regressions,
    "Arms change": river_arms,
    "Thompson sampling without contexts": river_thompson,
    "Exploration settings": river_epsilon,
    "Keep your river models": river_models,
    "Off-policy evaluation": river_replay,
}


def test_every_pair_has_a_check() -> None:
    complete("river.md", CHECKS)


@pytest.mark.filterwarnings("ignore")
def test_both_codes_run_and_agree(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    peer("river.bandit")
    monkeypatch.chdir(tmp_path)
    play("river.md", CHECKS)
