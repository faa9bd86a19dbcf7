"""Decisions: drawing, JSON, stacking, folding."""

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import oddsmith as od
from oddsmith.core.policy import check_policy

finite = st.floats(allow_nan=False, allow_infinity=False)
contexts = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats()
    | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(max_size=4) | st.integers(), inner, max_size=3)
    ),
    max_leaves=8,
)
arrays = hnp.arrays(
    st.sampled_from([np.float64, np.float32, np.int64, np.bool_]),
    hnp.array_shapes(min_dims=0, max_dims=3, max_side=4),
)


def equal(a: Any, b: Any) -> bool:
    """The same to the last bit, type included (NaN equals NaN)."""
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray):
        return bool(
            a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
        )
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(equal(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, dict):
        return list(a) == list(b) and all(equal(a[name], b[name]) for name in a)
    return bool(a == b or a != a)


@given(contexts | arrays, st.integers(1, 2**62), st.booleans())
def test_json_round_trip_is_exact(context: Any, step: int, slept: bool) -> None:
    odds = od.Odds(
        np.array([0.1, 0.9 - 1e-17, 0.0]),
        advice=np.array(
            [[0.1, 1 / 3, np.nan], [2 / 7, np.nan if slept else 1e-300, 0.5]]
        ),
        bonus=np.array([np.nan, 1.0]),
        log_weights=np.array([0.0, -np.inf]) if slept else None,
    )
    if isinstance(context, np.ndarray) and context.ndim == 0:
        context = context[()]
    decision = od.draw(
        odds, context, 0.5, eligible=np.array([True, True, False]), step=step
    )
    text = decision.to_json()
    json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    back = od.Decision.from_json(text)
    assert all(equal(a, b) for a, b in zip(decision, back, strict=True))


def test_json_round_trip_of_a_batch() -> None:
    rng = np.random.default_rng(0)
    experts = od.TableExperts(rng.random((4, 3, 2)))
    agent = od.Agent(
        od.GeneralizedThompsonSampling(experts, gamma=0.1), seed=1, arms=["a", "b"]
    )
    decision = agent.decide_batch(np.array([0, 3, 1]))
    back = od.Decision.from_json(decision.to_json())
    assert all(equal(a, b) for a, b in zip(decision, back, strict=True))


def test_stacked_and_back() -> None:
    rng = np.random.default_rng(0)
    policy = od.GeneralizedThompsonSampling(od.GivenExperts(("a", "b")), gamma=0.2)
    decisions = [
        od.decide(policy, policy.init(), rng.random((2, k)), 0.3, step=i)
        for i, k in enumerate((2, 4, 3))
    ]
    stacked = od.Decision.stack(decisions)
    assert stacked.eligible is not None
    assert stacked.eligible.sum(axis=1).tolist() == [2, 4, 3]
    np.testing.assert_allclose(stacked.propensities.sum(axis=1), 1)
    np.testing.assert_array_equal(stacked.propensity, [d.propensity for d in decisions])
    for row, decision in zip(stacked.rows(), decisions, strict=True):
        assert (row.step, row.arm) == (decision.step, decision.arm)
        np.testing.assert_array_equal(row.advice, decision.advice)


def test_fold_without_a_method_of_its_own_is_update_in_order() -> None:
    class Counting(od.Policy):
        def init(self, shape: tuple[int, ...] = ()) -> list[float]:
            return []

        def odds(
            self, state: Any, context: Any, *, eligible: Any = None, step: Any = None
        ) -> od.Odds:
            return od.Odds(np.array([1.0]))

        def update(
            self, state: list[float], decision: od.Decision, reward: Any
        ) -> list[float]:
            return [*state, float(reward)]

    policy = Counting()
    decisions = [od.decide(policy, [], None, 0.5, step=i) for i in range(3)]
    assert od.fold(policy, [], decisions, [0.1, 0.2, 0.3]) == [0.1, 0.2, 0.3]
    assert od.fold(policy, [], od.Decision.stack(decisions), [0.1, 0.2, 0.3]) == [
        0.1,
        0.2,
        0.3,
    ]
    assert od.fold(policy, [], [], []) == []


def test_uniforms_are_uniform_and_depend_on_seed_and_id() -> None:
    from scipy import stats

    draws = [od.Uniforms(3)(i) for i in range(20_000)]
    # a false alarm has probability 1e-4
    assert stats.kstest(draws, "uniform").pvalue > 1e-4
    assert all(0 <= u < 1 for u in draws)
    assert abs(np.corrcoef(draws[:-1], draws[1:])[0, 1]) < 0.03
    assert od.Uniforms(3)("order-17") != od.Uniforms(4)("order-17")


def test_rows_of_a_frame_keep_their_context_and_the_number_of_their_arm() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"age": [30, 40]}, index=[10, 11])
    batch = od.Decision(
        np.array([1, 2]),
        frame,
        None,
        np.array(["a", "b"]),
        np.eye(2),
        index=np.array([0, 1]),
    )
    first, second = batch.rows()
    assert (first.context["age"], second.context["age"]) == (30, 40)
    assert [(row.arm, row.index, row.number, row.step) for row in (first, second)] == [
        ("a", 0, 0, 1),
        ("b", 1, 1, 2),
    ]
    assert [row.propensity for row in (first, second)] == [1.0, 1.0]
    assert second.by_number().arm == 1
    assert second.by_number().index is None


def test_equal_decisions_have_equal_hashes_and_say_what_they_are() -> None:
    one, same = (od.Decision(1, "x", None, 0, np.array([0.25, 0.75])) for _ in range(2))
    other = one._replace(step=2)
    assert one == same
    assert not one != same  # noqa: SIM202
    assert one != other
    assert one != one.to_json()
    assert len({one, same, other}) == 2
    assert hash(one) == hash(same) != hash(other)
    assert repr(one) == "Decision(arm=0, propensity=0.25, step=1)"
    many = od.Decision(
        None, None, None, np.zeros((5, 2), dtype=int), np.full((5, 2, 3), 1 / 3)
    )
    assert repr(many) == "Decision(of shape (5, 2) over 3 arms)"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("nonsense", "Expecting value"),
        ("[1, 2]", "it has no arm or no propensities"),
        ('{"arm": 0}', "it has no arm or no propensities"),
        ('{"propensities": [1.0]}', "it has no arm or no propensities"),
        ('{"arm": 2, "propensities": [0.5, 0.5]}', "its arm is 2 of 2"),
        ('{"arm": -1, "propensities": [0.5, 0.5]}', "its arm is -1 of 2"),
        ('{"arm": 0.0, "propensities": [0.5, 0.5]}', "its arm is 0.0 of 2"),
        ('{"arm": "a", "index": 2, "propensities": [0.5, 0.5]}', "its arm is 2 of 2"),
        ('{"arm": [0, 2], "propensities": [[0.5, 0.5], [0.5, 0.5]]}', "of 2"),
        ('{"arm": [0, -1], "propensities": [[0.5, 0.5], [0.5, 0.5]]}', "of 2"),
        ('{"arm": 0, "propensities": [1.0], "colour": "red"}', "colour"),
        ('{"arm": 0, "propensities": "all"}', ""),
    ],
)
def test_what_is_not_a_decision_is_refused(text: str, why: str) -> None:
    with pytest.raises(
        od.InvalidInput, match=r"^decision must be the JSON of a Decision; "
    ) as refused:
        od.Decision.from_json(text)
    assert why in str(refused.value)


def test_the_last_arm_and_missing_fields_are_read() -> None:
    read = od.Decision.from_json('{"arm": 1, "propensities": [0.25, 0.75]}')
    assert (read.step, read.context, read.eligible, read.arm, read.propensity) == (
        None,
        None,
        None,
        1,
        0.75,
    )
    assert read == od.Decision.from_json(b'{"arm": 1, "propensities": [0.25, 0.75]}')


def test_json_has_no_word_for_nan() -> None:
    """What is not written as text of its own (floats of the odds are) must not become
    invalid JSON."""
    with pytest.raises(ValueError, match="JSON compliant"):
        od.Decision(float("nan"), None, None, 0, np.array([1.0])).to_json()


def test_only_decisions_of_one_shape_are_stacked() -> None:
    one = od.Decision(1, None, None, 0, np.array([1.0]), advice=np.array([0.5]))
    with pytest.raises(
        od.InvalidInput, match=r"^decisions must not be empty; got 0 of them$"
    ):
        od.Decision.stack([])
    with pytest.raises(
        od.InvalidInput, match=r"^decisions must be results of decide; got str$"
    ):
        od.Decision.stack([one, "two"])  # type: ignore[list-item]
    with pytest.raises(
        od.InvalidInput, match=r"^decisions must have the same shape of advice; "
    ):
        od.Decision.stack([one, one._replace(advice=np.array([0.5, 0.5]))])
    both = od.Decision.stack([one, one._replace(step=2, context="x")])
    assert both.step.tolist() == [1, 2]
    assert both.context == [None, "x"]
    assert (both.eligible, both.bonus, both.index) == (None, None, None)
    assert both.arm.tolist() == [0, 0]


def test_fold_leaves_it_to_a_policy_that_knows_how() -> None:
    class Knowing(od.policies.UCB1):
        def fold(self, state: Any, decisions: od.Decision, rewards: Any) -> Any:
            return (state, decisions.arm.tolist(), rewards.tolist())

    one = od.Decision(1, None, None, "b", np.array([0.5, 0.5]), index=1)
    assert od.fold(Knowing(2), "before", [one, one], [0, 1]) == (
        "before",
        [1, 1],
        [0.0, 1.0],
    )
    with pytest.raises(
        od.InvalidInput,
        match=r"^decisions must be a sequence, or one decision with a leading axis",
    ):
        od.fold(Knowing(2), (), one, [1])
    with pytest.raises(
        od.InvalidInput,
        match=r"rewards must match the decisions one to one, shape \(2,\); got \(3,\)",
    ):
        od.fold(od.policies.UCB1(2), od.policies.UCB1(2).init(), [one, one], [0, 1, 1])


def test_fold_of_batches_gives_each_update_its_rows() -> None:
    """A leading axis of time before one of runs: every update sees the rewards of all
    runs."""
    policy = od.BetaThompsonSampling(2)
    rng = np.random.default_rng(0)
    decisions = [
        od.decide(policy, policy.init((3,)), np.zeros(3, dtype=int), rng.random(3))
        for _ in range(4)
    ]
    rewards = rng.random((4, 3))
    state: Any = policy.init((3,))
    for decision, reward in zip(decisions, rewards, strict=True):
        state = policy.update(state, decision, reward)
    folded: Any = od.fold(policy, policy.init((3,)), decisions, rewards)
    for one, other in zip(folded, state, strict=True):
        np.testing.assert_allclose(one, other)


def test_rewards_are_numbers_from_0_to_1_one_for_each_decision() -> None:
    one = od.Decision(1, None, None, 0, np.array([1.0]))
    two = od.Decision.stack([one, one])
    check = od.core.decision.check_rewards
    for reward in (0, 1, 0.5, True, np.float32(0.5), np.array(0.5)):
        found = check(one, reward)
        assert (type(found), found) == (float, float(reward))
    assert np.asarray(check(two, [0, 1])).tolist() == [0.0, 1.0]
    texts: list[Any] = ["1", b"1", {}, "one"]
    for text in texts:
        with pytest.raises(
            od.InvalidInput, match=r"^reward must be a number in \[0, 1\]; got "
        ):
            check(one, text)
    for wrong in (1.5, -0.5, np.nan, 2):
        with pytest.raises(
            od.InvalidInput,
            match=rf"^reward must be in \[0, 1\] .*; got {float(wrong)}$",
        ):
            check(one, wrong)
    with pytest.raises(
        od.InvalidInput, match=r"^reward must be in \[0, 1\] .*; got 1.25$"
    ):
        check(two, [0.5, 1.25])
    with pytest.raises(
        od.InvalidInput,
        match=r"^rewards must match the decisions one to one, shape \(2,\); got \(\)$",
    ):
        check(two, 0.5)
    with pytest.raises(
        od.InvalidInput,
        match=r"^rewards must match the decisions one to one, shape \(\); got \(1,\)$",
    ):
        check(one, [0.5])


@pytest.mark.parametrize("verb", ["init", "odds", "update"])
def test_a_policy_has_three_verbs(verb: str) -> None:
    verbs = {name: (lambda self: None) for name in {"init", "odds", "update"} - {verb}}
    for missing in (type("Mute", (), verbs)(), type("Odd", (od.Policy,), verbs)()):
        with pytest.raises(
            od.InvalidInput,
            match=r"^policy must have the methods init, .*; got (Mute|Odd)",
        ):
            check_policy(missing)
    check_policy(od.policies.UCB1(2))
