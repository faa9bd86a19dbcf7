"""GTS: experts that learn inside it, its settings at their ends, and what it refuses in
one sentence."""

from typing import Any

import numpy as np
import pytest

import oddsmith as od
from core.test_gts_formula import BANK, NAMES, PRIOR, SAID, by_hand, decisions, gts


class Learning(od.GivenExperts):
    """Experts that count their rewards."""

    learns = True

    def init(self, shape: tuple[int, ...] = ()) -> Any:
        return (np.zeros(1), np.zeros(1))

    def predict(self, state: Any, context: Any) -> Any:
        return super().predict((), context) + 0.1 * state[0]

    def update(self, state: Any, decision: od.Decision, reward: Any) -> Any:
        return (state[0] + reward, state[1] + decision.step)


class Forgetful(Learning):
    def update(self, state: Any, decision: od.Decision, reward: Any) -> Any:
        return None


class Silent(Learning):
    learns = False


def test_what_merge_refuses() -> None:
    fixed = (
        "^states can be merged only with fixed experts, share=0 and discount=1; got "
    )
    for policy, why in (
        (gts(share=0.25), "fixed experts, share=0.25 and discount=1$"),
        (gts(discount=0.5), "fixed experts, share=0 and discount=0.5$"),
        (gts(share=0.25, discount=0.5), "fixed experts, share=0.25 and discount=0.5$"),
        (
            od.GeneralizedThompsonSampling(Learning(NAMES), gamma=0.0),
            "experts that learn, share=0 and discount=1$",
        ),
    ):
        with pytest.raises(od.errors.OrderMatters, match=fixed + why):
            policy.merge(policy.init())
    with pytest.raises(
        od.InvalidInput, match=r"^merge needs at least one state; got none$"
    ):
        gts().merge()
    other = od.thompson_sampling(od.GivenExperts(("a", "b"))).init()
    with pytest.raises(
        od.InvalidInput, match=r"^advice must have the state's shape \(3,\); got \(2,\)"
    ):
        gts().merge(gts().init(), other)


def test_experts_that_learn_are_taught_after_they_were_judged(any_kernels: str) -> None:
    policy = od.GeneralizedThompsonSampling(
        Learning(NAMES), od.square_loss, eta=0.8, prior=PRIOR, gamma=0.0
    )
    made, _ = decisions(policy, 2)
    state = policy.update(policy.init(), made[0], 0.75)
    assert (state.experts[0].tolist(), state.experts[1].tolist()) == ([0.75], [1])
    assert policy.explain(state, SAID).predictions == pytest.approx(SAID + 0.075)
    assert policy.odds(state, SAID).advice == pytest.approx(SAID + 0.075)
    folded = od.fold(policy, policy.init(), made, [0.75, 0.5])
    assert (folded.experts[0].tolist(), folded.learnt) == ([1.25], 2)
    assert policy.posterior(folded) == pytest.approx(
        by_hand(policy, made, [0.75, 0.5]), rel=1e-12
    )
    forgetful = od.GeneralizedThompsonSampling(Forgetful(NAMES), gamma=0.0)
    with pytest.raises(
        od.InvalidInput,
        match=r"^update of experts must return their state, even if changed in place",
    ):
        forgetful.update(forgetful.init(), made[0], 1.0)
    with pytest.raises(
        od.InvalidInput,
        match=r"^experts that learn must set learns = True; Silent overrides update",
    ):
        od.GeneralizedThompsonSampling(Silent(NAMES))
    for wrapped in (
        od.experts.Clipped(BANK, 0.1, 0.9),
        od.stack(BANK, od.GivenExperts(("d",))),
        od.Guarded(BANK),
    ):
        # they hand update on, and learn nothing themselves
        od.GeneralizedThompsonSampling(wrapped, gamma=0.0)


@pytest.mark.parametrize(
    "value", [-0.25, 1.25, np.array([0.5, 1.25]), np.array([-0.25, 0.5]), np.nan]
)
def test_a_schedule_stays_within_0_and_1(value: Any) -> None:
    policy = gts(gamma=lambda step: value)
    with pytest.raises(
        od.InvalidInput,
        match=r"^gamma must be in \[0, 1\]; the schedule gave .* at step 7$",
    ):
        policy.gamma_at(7)
    for fine in (0.0, 1.0, np.array([0.0, 1.0])):
        np.testing.assert_array_equal(
            gts(gamma=lambda step, fine=fine: fine).gamma_at(7), fine
        )
    assert type(gts(gamma=lambda step: np.array(0.5)).gamma_at(7)) is float


@pytest.mark.parametrize("setting", ["eta", "gamma", "optimism", "share", "discount"])
def test_settings_at_their_ends(setting: str) -> None:
    within = {
        "eta": (1e-9, 1e12),
        "gamma": (0, 1),
        "optimism": (0, 1e9),
        "share": (0, 0.999),
        "discount": (1e-9, 1),
    }
    beyond = {
        "eta": (0, 1e12 + 1),
        "gamma": (-0.1, 1.1),
        "optimism": (-0.1, np.inf),
        "share": (-0.1, 1.0),
    }
    beyond["discount"] = (0, 1.1)
    for value in within[setting]:
        assert getattr(gts(**{setting: value}), setting) == value
    for value in beyond[setting]:
        with pytest.raises(
            od.InvalidInput, match=rf"^{setting} must be in .*; got {value!r}"
        ):
            gts(**{setting: value})
    assert type(gts(gamma=1).gamma) is float


def test_what_a_decision_must_carry(any_kernels: str) -> None:
    policy, glad = gts(), gts(optimism=0.5)
    one = od.decide(policy, policy.init(), SAID, 0.5)
    for advice, got in ((None, "None"), (np.zeros(2), r"\(.*2,?\)")):
        for learning in (
            policy.update,
            lambda state, decision, reward: od.fold(
                policy, state, [decision], [reward]
            ),
        ):
            with pytest.raises(
                od.InvalidInput,
                match=rf"^decision must contain advice of 3 experts; got {got}$",
            ):
                learning(policy.init(), one._replace(advice=advice), 1.0)
    with pytest.raises(
        od.InvalidInput,
        match=r"^decision must contain the bonus that optimism needs; got none$",
    ):
        glad.update(glad.init(), one, 1.0)
    slept = one._replace(advice=np.array([0.5, np.nan, 0.5]))
    with pytest.raises(
        od.InvalidInput,
        match=r"^decision must contain its log weights, because an expert",
    ):
        policy.update(policy.init(), slept, 1.0)
    with pytest.raises(
        od.InvalidInput,
        match=r"^advice must have the state's shape \(2, 3\); got \(3,\)",
    ):
        policy.update(policy.init((2,)), one, 1.0)


def test_masks_fit_the_arms_and_the_batch(any_kernels: str) -> None:
    policy, three = gts(), np.ones((3, 3), dtype=np.bool_)
    with pytest.raises(
        od.InvalidInput,
        match=r"^eligible must be a mask of the 3 arms; got shape \(2,\)$",
    ):
        policy.odds(policy.init(), SAID, eligible=three[0, :2])
    with pytest.raises(
        od.InvalidInput,
        match=r"^batch axes of state, predictions and eligible must fit; ",
    ):
        policy.odds(policy.init((2,)), SAID, eligible=three)
    with pytest.raises(
        od.InvalidInput,
        match=r"^batch axes of state, predictions and eligible must fit; ",
    ):
        policy.odds(policy.init((2,)), np.stack([SAID, SAID]), eligible=three)
    assert policy.odds(policy.init((3,)), SAID, eligible=three).propensities.shape == (
        3,
        3,
    )


@pytest.mark.parametrize(
    ("loss", "got"),
    [
        (lambda g, r: np.zeros(2), r"\(2,\)"),
        (lambda g, r: 0.5, "float"),
        (lambda g, r: None, "NoneType"),
    ],
)
def test_a_loss_is_elementwise(loss: Any, got: str) -> None:
    policy = gts(loss)
    one = od.decide(policy, policy.init(), SAID, 0.5)
    with pytest.raises(
        od.InvalidInput,
        match=(
            rf"^loss of \w+ must be elementwise, an array of shape \(3,\); got {got}$"
        ),
    ):
        policy.update(policy.init(), one, 1.0)


@pytest.mark.parametrize("slept", [False, True])
def test_a_loss_outside_its_domain_is_named_with_its_expert(slept: bool) -> None:
    """Not the sleeper, whose NaN is no answer, but the one awake whose prediction the
    loss cannot score."""
    policy = gts(od.log_loss)
    said = np.array([[0.5, 0.5], [np.nan if slept else 0.5] * 2, [1.25, 1.25]])
    one = od.decide(policy, policy.init(), said, 0.5)
    with pytest.raises(
        od.errors.OutOfDomain,
        match=(
            r"^loss of GeneralizedThompsonSampling must be a number above -inf for any "
            r"prediction; got NaN for 1.25 of expert 'c'$"
        ),
    ):
        policy.update(policy.init(), one, 1.0)
    two = od.Decision.stack([one, one])
    with pytest.raises(od.errors.OutOfDomain, match=r"1.25 of expert 'c' at row 0$"):
        policy.update(policy.init((2,)), two, np.array([1.0, 0.0]))


def test_whole_numbers_are_rewards_and_float32_is_advice() -> None:
    """What comes in is reckoned with in float64."""
    policy = gts(optimism=0.5)
    one = od.decide(policy, policy.init(), SAID.astype(np.float32), 0.5)
    assert one.bonus is not None
    assert one.bonus.dtype == np.float64
    both = od.Decision.stack([one, one])
    whole = policy.update(policy.init((2,)), both, np.array([0, 1]))
    same = policy.update(policy.init((2,)), both, np.array([0.0, 1.0]))
    np.testing.assert_array_equal(whole.log_weights, same.log_weights)
