"""Backward induction and values of policies, against vectors and against each other."""

from itertools import product

import numpy as np
import pytest

import oddsmith as od
from lab.episodes.tiny import VECTORS, number, r1
from oddsmith.core.arrays import Array
from oddsmith.lab.episodes import EpisodicModel
from oddsmith.lab.episodes.world import chain, random_model, riverswim


def pure(actions: object) -> Array:
    """A policy (H, S, K) from its actions (H, S)."""
    return np.asarray(np.eye(2)[np.asarray(actions)])


def test_r1_plans_and_values() -> None:
    data = VECTORS["R1"]["data"]
    models = r1()
    for model, actions, value in zip(
        models, data["policies"], data["values"], strict=True
    ):
        np.testing.assert_array_equal(model.plan.policy, pure(actions))
        assert models[0].values(pure(actions))[0] == pytest.approx(
            number(value), abs=1e-12
        )
    assert models[0].plan.values[0, 0] == pytest.approx(
        number(data["V_star"]), abs=1e-12
    )
    assert models[0].values(np.full((2, 2, 2), 0.5))[0] == pytest.approx(
        number(data["uniform_value"]), abs=1e-12
    )


def test_r2_is_the_chain() -> None:
    data = VECTORS["R2"]["data"]["R2_chain3 p1=1/2"]
    truth, other = chain(), chain(right=0.1)
    assert truth.plan.values[0, 0] == pytest.approx(number(data["V_star"]), abs=1e-12)
    for model, actions, value in zip(
        (truth, other), data["policies"], data["values"], strict=True
    ):
        assert truth.values(pure(actions))[0] == pytest.approx(number(value), abs=1e-12)
        assert truth.values(model.plan.policy)[0] == pytest.approx(
            number(value), abs=1e-12
        )


def test_riverswim() -> None:
    data, river = VECTORS["riverswim6_H20"]["data"], riverswim()
    exact = [float(value) for value in VECTORS["riverswim6_H20"]["V_star_exact"]]
    np.testing.assert_allclose(river.plan.values[0], exact, atol=1e-12, rtol=0)
    left, right = (np.broadcast_to(np.eye(2)[a], (20, 6, 2)) for a in (0, 1))
    known = (
        (left, "always_left"),
        (right, "always_right"),
        ((left + right) / 2, "uniform"),
    )
    for policy, name in known:
        assert river.values(policy)[0] == pytest.approx(data[name], abs=1e-12)
    assert (river.plan.q[..., 1] > river.plan.q[..., 0]).sum(axis=0).tolist() == data[
        "steps_right"
    ]
    finite = data["finite"]
    models = [riverswim(up=up) for up in finite["ups"]]
    np.testing.assert_allclose(
        [m.plan.values[0, 0] for m in models], finite["V0"], atol=1e-12, rtol=0
    )
    under = [river.values(m.plan.policy)[0] for m in models]
    np.testing.assert_allclose(under, finite["value_under_truth"], atol=1e-12, rtol=0)


def test_no_policy_is_better_than_the_plan() -> None:
    """All 2^6 pure policies of a random model: the best of them has the plan's value,
    from every state."""
    model = random_model(3, 2, horizon=2, seed=4)
    policies = np.stack(
        [pure(np.reshape(actions, (2, 3))) for actions in product((0, 1), repeat=6)]
    )
    np.testing.assert_allclose(
        model.values(policies).max(axis=0), model.plan.values[0], atol=1e-14
    )


def test_ties_share_a_step() -> None:
    model = EpisodicModel.stationary([[0.3, 0.3, 0.1]], np.ones((1, 3, 1)), horizon=2)
    np.testing.assert_array_equal(model.plan.policy[:, 0], [[0.5, 0.5, 0.0]] * 2)
    assert model.values(model.plan.policy)[0] == model.plan.values[0, 0]


def test_what_is_no_model_is_refused() -> None:
    ones = np.ones((1, 1, 2, 1))
    with pytest.raises(
        od.InvalidInput, match=r"rewards must be means in \[0, 1\].*1.5"
    ):
        EpisodicModel(np.array([[[0.2, 1.5]]]), ones)
    with pytest.raises(
        od.InvalidInput, match=r"transitions must be \(steps, states, actions, states\)"
    ):
        EpisodicModel(np.zeros((1, 1, 3)), ones)
    with pytest.raises(
        od.InvalidInput, match=r"sum to 1; got \[0.5\] at step 1, state 0, action 1"
    ):
        EpisodicModel(np.zeros((1, 1, 2)), ones * [[[[1.0], [0.5]]]])
