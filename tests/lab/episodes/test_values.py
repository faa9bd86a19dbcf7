"""Per-decision importance weights: unbiased by enumeration, intervals that cover,
refusals."""

import json
from fractions import Fraction
from itertools import product
from pathlib import Path

import numpy as np
import pytest

import oddsmith as od
from lab.episodes.tiny import forced, r1
from oddsmith.core.arrays import Array
from oddsmith.evaluation import compare
from oddsmith.lab.episodes import EpisodeLog, GeneralizedPosteriorSampling
from oddsmith.lab.episodes.simulate import simulate_episodes
from oddsmith.lab.episodes.values import estimate_return, per_decision
from oddsmith.lab.episodes.world import EpisodicWorld

VECTORS = json.loads((Path(__file__).parent / "vectors.json").read_text())
PRIOR = [float(Fraction(weight)) for weight in VECTORS["R1_odds"]["data"]["weights"]]


def enumerated(gamma: float) -> tuple[EpisodeLog, Array]:
    """All episodes of R1 that can happen under the policy, and the probability of
    each."""
    policy, truth = (
        GeneralizedPosteriorSampling(r1(), gamma=gamma, prior=PRIOR),
        r1()[0],
    )
    rows, chances = [], []
    for place, (a, b), (r, q) in product(
        (0, 1), product((0, 1), repeat=2), product((0.0, 1.0), repeat=2)
    ):
        state = policy.init()
        first = policy.odds(state, 0)
        state = policy.update(state, forced(first, 0, np.array(a)), r)
        second = policy.odds(state, place)
        means = truth.rewards[0, 0, a], truth.rewards[1, place, b]
        coins = (means[0] if r else 1 - means[0]) * (means[1] if q else 1 - means[1])
        chance = (
            first.propensities[a]
            * second.propensities[b]
            * truth.transitions[0, 0, a, place]
            * coins
        )
        if chance > 0:
            rows.append(
                ([0, place], [a, b], [r, q], [first.propensities, second.propensities])
            )
            chances.append(chance)
    return EpisodeLog(*(list(column) for column in zip(*rows, strict=True))), np.array(
        chances
    )


def test_per_decision_weights_are_unbiased_by_enumeration() -> None:
    """R1: the expectation over all 32 episodes is the value, 43/50, 21/25 and 8/25, and
    weights average to 1."""
    log, chances = enumerated(0.1)
    assert len(log) == 32
    assert chances.sum() == pytest.approx(1, abs=1e-12)
    for model, (value, exact) in zip(
        r1(), VECTORS["R1_pdis_equals_value"]["data"], strict=True
    ):
        terms = per_decision(log, model.plan.policy)
        assert value == exact
        assert 2 * chances @ terms.values == pytest.approx(
            float(Fraction(exact)), abs=1e-12
        )
        assert chances @ np.asarray(terms.weights) == pytest.approx(1, abs=1e-12)
        assert terms.bets is not None
        assert chances @ (terms.bets.gain + terms.bets.loss) == pytest.approx(
            1, abs=1e-12
        )
        assert (terms.missing == 0).all()
    soft = np.array([[0.3, 0.7], [0.6, 0.4]])
    found = 2 * chances @ per_decision(log, soft).values
    assert found == pytest.approx(r1()[0].values(np.stack([soft, soft]))[0], abs=1e-12)


def test_mass_that_could_not_be_drawn_is_counted_and_refused() -> None:
    """Without exploration no model goes 1 in state 0 of step 2 after 1: what the target
    does there is missing."""
    log, chances = enumerated(0.0)
    odd = np.array([[[0.0, 1.0], [0.0, 1.0]], [[0.0, 1.0], [0.0, 1.0]]])
    terms = per_decision(log, odd)
    missing = chances @ terms.missing
    assert missing == pytest.approx(r1()[0].transitions[0, 0, 1, 0], abs=1e-12)
    assert chances @ np.asarray(terms.weights) == pytest.approx(1 - missing, abs=1e-12)
    columns = log.states, log.actions, log.rewards, log.propensities
    many = EpisodeLog(*(np.repeat(column, 20, axis=0) for column in columns))
    refused = estimate_return(many, odd)
    assert refused.refused == ("overlap",)
    assert np.isnan(refused.value)


def test_intervals_over_episodes_cover() -> None:
    """100 logs of a policy that learns, 300 episodes each: 95 % intervals miss 14 times
    or more once in 4,000."""
    policy = GeneralizedPosteriorSampling(r1(), gamma=0.3, eta=1.0)
    run = simulate_episodes(
        policy, EpisodicWorld(r1()[0]), episodes=300, runs=100, seed=3, keep="log"
    )
    for model in r1()[1:]:
        value = r1()[0].values(model.plan.policy)[0]
        for interval in ("anytime", "normal"):
            missed, said = 0, 0
            for i in range(100):
                found = estimate_return(
                    run.log(i),
                    model.plan.policy,
                    interval=interval,
                    overrule=["ess", "share"],
                )
                said += not found.refused
                missed += not found.refused and not found.low <= value <= found.high
            assert said >= 80  # the others are refused for the mean of their weights
            assert missed < 14


def test_two_targets_are_compared_episode_by_episode() -> None:
    policy = GeneralizedPosteriorSampling(r1(), gamma=0.5, prior=PRIOR)
    run = simulate_episodes(
        policy, EpisodicWorld(r1()[0]), episodes=2000, seed=4, keep="log"
    )
    log, plans = run.log(), [model.plan.policy for model in r1()]
    found = compare(
        {"third": per_decision(log, plans[2]), "first": per_decision(log, plans[0])},
        interval="anytime",
    )
    apart = found.differences[
        "first - third" if "first - third" in found.differences else "first"
    ]
    assert apart.low > 0  # 43/50 against 8/25, over two steps
    assert apart.low <= (0.86 - 0.32) / 2 <= apart.high


def test_an_early_end_keeps_its_weight() -> None:
    log = EpisodeLog([[0, 0, 0]], [[1, -1, -1]], [[1, 0, 0]], [[[0.5, 0.5]] * 3])
    terms = per_decision(log, [[0.2, 0.8]])
    assert terms.values.tolist() == pytest.approx([1.6 / 3])
    assert terms.bets is not None
    assert terms.bets.loss.tolist() == pytest.approx([3.2 / 3])


def test_targets_are_checked() -> None:
    log, _ = enumerated(0.1)
    for target, message in (
        (np.full((3, 2, 2), 0.5), "of 2 steps and 2 actions; got shape"),
        ([[0.5, 0.6], [0.5, 0.5]], "sum to 1 in every state"),
        ([[0.5, 0.5]], "all states of the log, up to 1; got 1"),
    ):
        with pytest.raises(od.InvalidInput, match=message):
            per_decision(log, target)
    terms = per_decision(log, [[0.5, 0.5]] * 2)
    with pytest.raises(od.InvalidInput, match="give floor"):
        terms.span()
    least = float((log.drawn_odds[:, 0] * log.drawn_odds[:, 1]).min())
    assert terms.span(least) == (0.0, 1 / least)
    with pytest.raises(od.InvalidInput, match="floor must be at most all logged odds"):
        terms.span(0.1)
