"""Odds and states of a user's policy are checked wherever they enter."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import oddsmith as od
from oddsmith.core.checks import (
    check_losses,
    check_odds,
    check_state,
    odds_fault,
    range_fault,
)
from oddsmith.evaluation import policy_target
from oddsmith.evaluation.replay import replay
from oddsmith.lab import grid, simulate, sweep
from oddsmith.lab.episodes import EpisodeAgent
from oddsmith.lab.episodes.policy import Behaviour, EpisodicPolicy
from oddsmith.lab.episodes.simulate import simulate_episodes
from oddsmith.lab.episodes.world import EpisodicWorld, random_model
from oddsmith.lab.problems import OnFeatures
from oddsmith.lab.worlds import TableWorld

WORLD = TableWorld(np.array([[0.2, 0.8, 0.5]]))
MODEL = random_model(1, 3, horizon=1)
LOG = od.Log(
    arm=np.array([0, 1, 2, 0]),
    reward=np.array([1.0, 0.0, 1.0, 1.0]),
    context=np.zeros(4, dtype=np.int64),
    propensities=np.full((4, 3), 1 / 3),
)


class Count(NamedTuple):
    shape: tuple[int, ...]
    learnt: int = 0


class Given(EpisodicPolicy):
    """Draws with the odds that it was given, from its third decision on."""

    horizon = 1
    n_states = 1
    n_actions = 3
    explores = True

    def __init__(self, odds: Any, after: int = 0, state: Any = "same") -> None:
        self.given = odds
        self.after = after
        self.state = state

    def init(self, shape: tuple[int, ...] = ()) -> Any:
        return Count(shape)

    def odds(
        self, state: Any, context: Any, *, eligible: Any = None, step: Any = None
    ) -> od.Odds:
        fine = np.full(3, 1 / 3)
        odds = fine if state.learnt < self.after else np.array(self.given, dtype=float)
        shape = np.shape(context) if np.ndim(context) else state.shape
        return od.Odds(np.broadcast_to(odds, (*shape, 3)).copy())

    def update(self, state: Any, decision: od.Decision, reward: Any) -> Any:
        later = state._replace(learnt=state.learnt + 1)
        return later if self.state == "same" else self.state

    def behaviour(self, state: Any) -> Behaviour:
        even = np.full((1, 1, 1, 3), 1 / 3)
        return Behaviour(np.ones((*state.shape, 1)), even)


BAD = {
    "a sum above 1": ([0.5, 0.5, 0.3], "a sum of 1.3"),
    "a sum below 1": ([0.2, 0.2, 0.2], "a sum of 0.6"),
    "a negative number": ([1.2, -0.3, 0.1], "-0.3 for arm 1"),
    "NaN": ([0.5, 0.5, np.nan], "nan for arm 2"),
    "all NaN": ([np.nan] * 3, "nan for arm 0"),
    "infinity": ([np.inf, 0.0, 0.0], "a sum of inf"),
}
EPISODES = EpisodicWorld(MODEL)
ENTRIES: dict[str, Callable[[Given], object]] = {
    "simulate": lambda policy: simulate(policy, WORLD, steps=5, runs=2),
    "decide": lambda policy: od.decide(policy, policy.init(), 0, 0.5, step=1),
    "Agent.decide": lambda policy: od.Agent(policy, seed=1).decide(0),
    "Agent.decide_batch": lambda policy: od.Agent(policy, seed=1).decide_batch(
        np.zeros(4, dtype=np.int64)
    ),
    "Agent.best": lambda policy: od.Agent(policy, seed=1).best(0),
    "policy_target": lambda policy: policy_target(LOG, policy),
    "replay": lambda policy: replay(policy, LOG, seed=1),
    "simulate_episodes": lambda policy: simulate_episodes(
        policy, EPISODES, episodes=5, runs=2
    ),
    "EpisodeAgent": lambda policy: begun(policy).decide(0),
    "a wrapper": lambda policy: simulate(
        OnFeatures(policy, np.zeros(1)), WORLD, steps=5, runs=2
    ),
}


def begun(policy: Given) -> EpisodeAgent:
    agent = EpisodeAgent(policy, seed=1)
    agent.begin()
    return agent


@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.parametrize("bad", BAD)
def test_odds_are_checked_where_they_enter(entry: str, bad: str) -> None:
    odds, text = BAD[bad]
    with pytest.raises(
        od.InvalidInput,
        match=rf"propensities of \S*Given\)? must be at least 0 and sum to 1.*; got {text}",
    ):
        ENTRIES[entry](Given(odds))
    ENTRIES[entry](Given([0.5, 0.5, 0.0]))


def test_a_sweep_checks_them(tmp_path: Any) -> None:
    cells = grid({"bad": Given([0.5, 0.5, 0.3])}, {"w": WORLD}, steps=5)
    with pytest.raises(
        od.InvalidInput, match=r"propensities of Given .* a sum of 1\.3"
    ):
        sweep(cells, tmp_path, engine="serial")


@pytest.mark.parametrize("after", [0, 1, 255, 256, 262])
def test_a_simulation_names_the_first_bad_step(after: int) -> None:
    """Steps are checked together, some at a time, and at the end."""
    policy = Given([0.5, 0.5, 0.3], after=after)
    with pytest.raises(
        od.InvalidInput, match=f"got a sum of 1.3 at step {after + 1}, "
    ):
        simulate(policy, WORLD, steps=300)
    if after:
        simulate(policy, WORLD, steps=after)


def test_the_cause_comes_before_what_it_breaks() -> None:
    """A policy that fails a few steps after its odds were wrong."""

    class Fragile(Given):
        def update(self, state: Any, decision: od.Decision, reward: Any) -> Any:
            if state.learnt == 6:
                raise ZeroDivisionError
            return super().update(state, decision, reward)

    with pytest.raises(od.InvalidInput, match="got nan for arm 0 at step 4, run 0"):
        simulate(Fragile([np.nan] * 3, after=3), WORLD, steps=20)


@pytest.mark.parametrize(
    ("given", "got"),
    [
        (od.Odds([0.5, 0.5, 0.0]), r"\[0\.5, 0\.5, 0\.0\]"),  # type: ignore[arg-type]
        (od.Odds(np.array([1, 0, 0])), r"array\(\[1, 0, 0\]\)"),
        (None, "None"),
        (0.5, "0.5"),
    ],
)
def test_odds_are_an_array_of_floats(given: Any, got: str) -> None:
    class Wrong(Given):
        def odds(self, *args: Any, **kwargs: Any) -> Any:
            return given

    with pytest.raises(
        od.InvalidInput, match=rf"propensities of Wrong must be od\.Odds .*; got {got}$"
    ):
        od.Agent(Wrong(None), seed=1).decide(0)


def test_arms_that_are_not_eligible_have_no_odds() -> None:
    with pytest.raises(
        od.InvalidInput, match=r"got 0\.3 for arm 1, which is not eligible at"
    ):
        od.Agent(Given([0.7, 0.3, 0.0]), seed=1).decide(
            0, eligible=np.array([True, False, True])
        )


def test_a_state_must_come_back() -> None:
    lost = Given([0.5, 0.5, 0.0], state=None)
    agent = od.Agent(lost, seed=1)
    decision = agent.decide(0)
    for attempt in (
        lambda: agent.learn(decision, 1),
        lambda: od.fold(lost, lost.init(), [decision], [1.0]),
        lambda: simulate(lost, WORLD, steps=5),
        lambda: simulate_episodes(lost, EPISODES, episodes=5),
        lambda: replay(lost, LOG, seed=1),
    ):
        with pytest.raises(
            od.InvalidInput, match=r"of Given must return the state, .*; got None"
        ):
            attempt()
    assert agent.state == Count(())


def test_weights_must_be_numbers() -> None:
    class Weights(NamedTuple):
        log_weights: Any
        learnt: int

    broken = Given([0.5, 0.5, 0.0], state=Weights(np.array([0.0, np.nan]), 1))
    agent = od.Agent(broken, seed=1)
    with pytest.raises(od.InvalidInput, match="of Given must return log weights"):
        agent.learn(agent.decide(0), 1)


@pytest.mark.parametrize("value", [np.inf, -np.inf])
def test_predictions_must_be_finite(value: float, any_kernels: str) -> None:
    policy = od.GeneralizedThompsonSampling(
        od.GivenExperts(["a", "b"]), od.square_loss, gamma=0.1
    )
    predictions = np.array([[0.1, value], [0.5, np.nan]])
    with pytest.raises(
        od.errors.ExpertFailed, match="experts must return finite numbers"
    ):
        policy.odds(policy.init(), predictions)


def loss_that_fails(value: Any) -> Any:
    """Square loss, but where the reward is 1 it is this."""

    def loss(prediction: Any, reward: Any) -> Any:
        squares = od.square_loss(prediction, reward)
        return value if np.ndim(value) else np.where(reward == 1, value, squares)

    return loss


LOSSES: dict[str, tuple[Any, str]] = {
    "NaN": (np.nan, "a number above -inf for any prediction; got NaN for 0.25 of"),
    "-inf": (-np.inf, "a number above -inf for any prediction; got -inf for 0.25 of"),
    "a wrong shape": (np.zeros(5), r"elementwise, an array of shape .*; got \(5,\)"),
}
THREE = od.TableExperts(np.full((1, 2, 3), 0.25))
LEARNERS: dict[str, Callable[[Any], Any]] = {
    "GeneralizedThompsonSampling": lambda loss: od.GeneralizedThompsonSampling(
        THREE, loss, gamma=0.1
    ),
    "RateMixture": lambda loss: od.policies.RateMixture(THREE, loss=loss, gamma=0.1),
    "RegressorElimination": lambda loss: od.policies.RegressorElimination(
        THREE, range(1), loss=loss
    ),
}


@pytest.mark.parametrize("kind", LEARNERS)
@pytest.mark.parametrize("bad", LOSSES)
def test_a_loss_is_checked_with_policy_and_step(kind: str, bad: str) -> None:
    value, text = LOSSES[bad]
    policy = LEARNERS[kind](loss_that_fails(value))
    decision = od.decide(policy, policy.init(), 0, 0.5, step=7)
    where = rf"loss of {kind} must be {text}.* at step 7$"
    with pytest.raises(od.InvalidInput, match=where):
        policy.update(policy.init(), decision, 1.0)
    if not np.ndim(value):
        policy.update(policy.init(), decision, 0.5)


def test_a_loss_in_a_simulation_is_named_with_step_and_run() -> None:
    class Late(TableWorld):
        """Rewards are 1 in the second run, from step 3 on."""

        def context(self, step: int, runs: int, rng: Any, history: Any = None) -> Any:
            return np.array([0, 1 if step >= 3 else 0])

    bank = od.TableExperts(np.full((2, 2, 3), 0.25))
    policy = od.GeneralizedThompsonSampling(bank, loss_that_fails(np.nan), gamma=0.1)
    with pytest.raises(od.errors.OutOfDomain, match=r"'expert 0' at step 3, row 1$"):
        simulate(policy, Late(np.array([[0.0] * 3, [1.0] * 3])), steps=5, runs=2)


def test_sleepers_have_no_loss() -> None:
    """Also where a loss is a number for NaN."""
    losses = check_losses(None, np.array([0.5, 0.5]), np.array([0.2, np.nan]))
    np.testing.assert_array_equal(losses, [0.5, np.nan])


SUMS = {
    "the most that a sum may miss": ([1.0 + 1e-6 - 1e-12, 0.0], None),
    "a little more": ([1.0 + 1e-6 + 1e-12, 0.0], "a sum of 1"),
    "2": ([1.0, 1.0], "a sum of 2"),
    "-1": ([-1.0, 0.0], "-1 for arm 0"),
    "a negative number by rounding": ([1.0, -9e-10], None),
    "a zero": ([1.0, 0.0], None),
}


@pytest.mark.parametrize("case", SUMS)
@pytest.mark.parametrize("n_arms", [2, 64, 65])
def test_sums_at_their_borders(case: str, n_arms: int) -> None:
    """By Python and by numpy, which check few arms and many."""
    values, fault = SUMS[case]
    odds = np.array([*values, *[0.0] * (n_arms - 2)])
    if fault is None:
        assert odds_fault(odds) is None
        assert check_odds(None, od.Odds(odds)).propensities is odds
        return
    assert odds_fault(odds) == ((), fault)
    with pytest.raises(od.InvalidInput, match=rf"sum to 1 over the .*; got {fault}$"):
        check_odds(None, od.Odds(odds))


def test_an_arm_that_is_not_eligible_is_named_if_it_has_odds_alone() -> None:
    mask = np.array([True, False, True])
    assert odds_fault(np.array([0.5, 0.0, 0.5]), mask) is None
    below = np.array([0.75, -0.25, 0.5])
    assert odds_fault(below, mask) == ((), "-0.25 for arm 1")


def test_a_state_of_ours_is_not_looked_into() -> None:
    """Our policies make no NaN; the check would take time."""

    class Weights(NamedTuple):
        log_weights: Any

    broken = Weights(np.array([np.nan]))
    mine = Given([0.5, 0.5, 0.0])
    ours = od.GeneralizedThompsonSampling(THREE, gamma=0.1)
    assert check_state(ours, broken) is broken
    with pytest.raises(od.InvalidInput, match=r"^update of Given must return log"):
        check_state(mine, broken)
    with pytest.raises(od.InvalidInput, match=r"^update of Given must return the"):
        check_state(mine, None)


@pytest.mark.parametrize(
    ("step", "where"),
    [
        (None, " at row 1, 0"),
        (5, " at step 5, row 1, 0"),
        (np.array([[1, 2], [3, 4]]), " at step 3, row 1, 0"),
        (np.array(6), " at step 6, row 1, 0"),
    ],
)
def test_a_row_and_its_step_are_named(step: Any, where: str) -> None:
    odds = np.full((2, 2, 2), 0.5)
    odds[1, 0] = 0.75
    with pytest.raises(od.InvalidInput, match=f"got a sum of 1.5{where}$"):
        check_odds(None, od.Odds(odds), step=step)


def test_a_value_without_shape_is_named_by_its_type() -> None:
    advice = np.array([0.5])
    with pytest.raises(od.InvalidInput, match=r"of shape \(1,\); got list$"):
        check_losses(None, [0.5], advice)
    losses = np.array([0.5])
    assert check_losses(None, losses, advice) is losses


def test_faults_by_hand() -> None:
    odds = np.array([[[0.5, 0.5], [1.0, 0.0]], [[0.4, 0.6], [0.4, 0.5]]])
    assert odds_fault(odds) == ((1, 1), "a sum of 0.9")
    assert odds_fault(odds[0]) is None
    assert odds_fault(np.array([1.0 + 1e-7, -1e-10])) is None
    assert odds_fault(np.array([1.0, -1e-8])) == ((), "-1e-08 for arm 1")
    assert odds_fault(np.array([1.0, -1e-9])) is None
    rounded = np.array([[1.0, -1e-9], [0.5, 0.4]])
    assert odds_fault(rounded) == ((1,), "a sum of 0.9")
    mask = np.array([[True, True], [False, True]])
    assert odds_fault(odds[0], mask) == ((1,), "1 for arm 0, which is not eligible")
    even = np.array([0.5, 0.5])
    assert odds_fault(even, mask) == ((1,), "0.5 for arm 0, which is not eligible")
    assert range_fault(np.array([[0.0, 1.0]])) is None
    assert range_fault(np.array([[0.0, 1.0], [0.5, np.nan]])) == ((1, 1), "nan")
    assert range_fault(np.array([0.5, -0.25])) == ((1,), "-0.25")
    assert range_fault(np.array([0.5, 1.25, 2.0])) == ((1,), "1.25")
