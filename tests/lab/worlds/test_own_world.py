"""A user's own world and noise: what is wrong with them is one sentence."""

from typing import Any

import numpy as np
import pytest

import oddsmith as od
from oddsmith.core.offer import Offer
from oddsmith.lab import simulate
from oddsmith.lab.checks import (
    StepChecks,
    StepParts,
    check_rewards_in_range,
    check_step,
    offered_means,
    step_check,
)
from oddsmith.lab.episodes import GeneralizedPosteriorSampling
from oddsmith.lab.episodes.simulate import simulate_episodes
from oddsmith.lab.episodes.world import EpisodicWorld, chain, random_model
from oddsmith.lab.worlds import Bernoulli, World

POLICY = od.GeneralizedThompsonSampling(
    od.TableExperts(np.array([[[0.2, 0.8], [0.6, 0.4]]])), gamma=0.1
)


class Own(World):
    """Two arms; what it returns can be replaced."""

    n_arms: Any = 2

    def __init__(self, means: Any = 0.5, context: Any = None) -> None:
        self._means = means
        self._context = context

    def context(self, step: int, runs: int, rng: Any, history: Any = None) -> Any:
        if self._context is not None:
            return self._context
        return np.zeros(runs, dtype=np.int64)

    def means(self, step: int, context: Any) -> Any:
        if isinstance(self._means, float):
            means = np.full((len(context), 2), 0.5)
            means[-1, 1] = self._means if step == 4 else 0.5
            return means
        return self._means


class NoArms(Own):
    def __getattribute__(self, name: str) -> Any:
        if name == "n_arms":
            raise AttributeError(name)
        return super().__getattribute__(name)


class HalfAnArm(Own):
    n_arms = 2.5


class NoMeans(World):
    n_arms = 2
    context = Own.context


class ThreeArms(Own):
    n_arms = 3


class Offers(Own):
    n_arms = 2
    makes_offers = True


@pytest.mark.parametrize("value", [1.5, 11.0, -1.0, float("nan"), float("inf")])
def test_means_are_in_range(value: float) -> None:
    with pytest.raises(
        od.InvalidInput,
        match=rf"means of Own must be in \[0, 1\]; got {value:g} at step 4, run 2, arm 1",
    ):
        simulate(POLICY, Own(value), steps=10, runs=3)
    simulate(POLICY, Own(value), steps=3, runs=3)


@pytest.mark.parametrize(
    ("world", "message"),
    [
        (NoArms(), "world must have n_arms, .*; NoArms has none"),
        (HalfAnArm(), "n_arms of HalfAnArm must be a whole number .*; got 2.5"),
        (NoMeans(), "world must have means; NoMeans has none: write it"),
        (object(), "world must have n_arms, context and means .*; got object"),
        (
            ThreeArms(),
            r"policy must have the world's 3 arms; Generalized\w+ has 2",
        ),
        (Own(np.full(2, 0.5)), r"means of Own .* shape \(3, 2\); got \(2,\) at step 1"),
        (Own(np.full((3, 1), 0.5)), r"means of Own .* \(3, 2\); got \(3, 1\)"),
        (Own([[0.5, 0.5]] * 3), r"means of Own must be an array .*; got list"),
        (
            Own(context=np.zeros(2, int)),
            "context of Own must .* 3 runs; got 2 at step 1",
        ),
        (Own(context=np.array(0)), "context of Own must .* 3 runs; got one at step 1"),
    ],
)
def test_what_a_world_lacks(world: Any, message: str) -> None:
    with pytest.raises(od.InvalidInput, match=message):
        simulate(POLICY, world, steps=10, runs=3)


def test_worlds_of_offers() -> None:
    policy = od.auto(size="small")
    two = [Offer(None, ("a", "b")), Offer(None, ("a",))]

    def run(means: Any, offers: Any) -> object:
        return simulate(policy, Offers(np.array(means), offers), steps=2, runs=2)

    run([[0.5, 0.5], [0.5, np.nan]], two)
    with pytest.raises(od.InvalidInput, match="got nan at step 1, run 0, arm 1"):
        run([[0.5, np.nan], [0.5, np.nan]], two)
    with pytest.raises(od.InvalidInput, match="must be a list of offers of at most 2"):
        run([[0.5, 0.5]] * 2, [Offer(None, ("a", "b", "c"))] * 2)
    with pytest.raises(od.InvalidInput, match=r"offers of at most 2 .* at step 1$"):
        run([[0.5, 0.5]] * 2, ["a", "b"])


class Loud(Bernoulli):
    """Pays too much."""

    def __call__(self, means: Any, rng: Any) -> Any:
        return np.full(len(means), 1.25)


def test_rewards_are_in_range() -> None:
    with pytest.raises(
        od.InvalidInput,
        match=r"rewards of Loud must be in \[0, 1\]; got 1.25 at step 1",
    ):
        simulate(POLICY, Own(), steps=3, noise=Loud())
    with pytest.raises(od.InvalidInput, match=r"rewards of function .* got \(\) at"):
        simulate(POLICY, Own(), steps=3, noise=lambda means, rng: np.asarray(0.5))
    models = GeneralizedPosteriorSampling([chain(), chain(right=0.1)])
    with pytest.raises(od.InvalidInput, match=r"rewards of EpisodicWorld must be in"):
        simulate_episodes(models, EpisodicWorld(chain(), noise=Loud()), episodes=3)


STEPS: list[tuple[dict[str, Any], str]] = [
    ({"odds": np.zeros(3)}, "policy must have the world's 2 arms; Plain has 3"),
    ({"odds": od.Odds(np.zeros((3, 3)))}, "the world's 2 arms; Plain has 3"),
    (
        {"odds": np.zeros((2, 2))},
        r"propensities of Plain .* \(3, 2\); got \(2, 2\) at step 7",
    ),
    (
        {"odds": None},
        r"propensities of Plain .* shape \(3, 2\); got NoneType at step 7",
    ),
    ({"means": np.full((3, 2), "0.5")}, "means of Own must be numbers; got .* step 7"),
    ({"means": np.zeros(2)}, r"means of Own .* \(3, 2\); got \(2,\) at step 7"),
    ({"rewards": np.zeros(2), "noise": Bernoulli()}, r"Bernoulli .* \(3,\).* step 7"),
    ({"context": np.array(0)}, "context of Own .* 3 runs; got one at step 7"),
    ({"context": [0, 1]}, "context of Own .* 3 runs; got 2 at step 7"),
]


class Plain:
    """A policy of which only the name counts."""


@pytest.mark.parametrize(("found", "message"), STEPS)
def test_parts_of_a_step_by_hand(found: dict[str, Any], message: str) -> None:
    with pytest.raises(od.InvalidInput, match=f"{message}$"):
        check_step(Plain(), Own(), 7, StepParts(3, **found))


@pytest.mark.parametrize(
    "found",
    [
        {"odds": np.zeros(2)},
        {"odds": np.zeros((3, 2))},
        {"context": np.zeros((3, 4))},
        {"context": object()},
        {"context": {"hour": 9}},
    ],
)
def test_right_parts_of_a_step_pass(found: dict[str, Any]) -> None:
    check_step(Plain(), Own(), 7, StepParts(3, **found))


def test_offers_of_a_step_by_hand() -> None:
    two = Offer(None, ("a", "b"))
    check_step(Plain(), Offers(), 7, StepParts(2, context=[two, two]))
    for context in ([two, "b"], two.arms, "b", Offer(None, ("a", "b", "c"))):
        with pytest.raises(od.InvalidInput, match=r"offers of at most 2 arms.* at"):
            check_step(Plain(), Offers(), 7, StepParts(2, context=context))


def test_means_behind_the_last_arm_are_zero() -> None:
    offers = [Offer(None, ("a", "b")), Offer(None, ("a",))]
    means = np.array([[0.5, 0.25], [0.75, np.nan]])
    zeroed = offered_means(Offers(), offers, means)
    np.testing.assert_array_equal(zeroed, [[0.5, 0.25], [0.75, 0.0]])
    for wrong in (means[:1], means.tolist()):
        assert offered_means(Offers(), offers, wrong) is wrong


def test_no_rewards_are_in_range() -> None:
    check_rewards_in_range(Bernoulli(), np.zeros((0, 2)))
    check_rewards_in_range(Bernoulli(), np.array([[0.0, 1.0]]))
    message = "rewards of Bernoulli .* got 1.25 at step 2, run 1"
    with pytest.raises(od.InvalidInput, match=message):
        check_rewards_in_range(Bernoulli(), np.array([[0.0, 1.0], [0.5, 1.25]]))


@pytest.mark.parametrize(
    ("shape", "steps"), [((2, 1), 256), ((3, 1_000), 21), ((2, 70_000), 1)]
)
def test_so_many_steps_are_checked_at_once(shape: tuple[int, ...], steps: int) -> None:
    sizes: list[int] = []
    checks = StepChecks(shape, lambda values, first: sizes.append(len(values)))
    for _ in range(steps):
        assert not sizes
        checks.add(np.zeros(shape))
    assert sizes == [steps]


def test_the_odds_of_every_run_are_checked() -> None:
    check = step_check(Plain(), Own())
    right = np.full((1, 10, 2), 0.5)
    check(right, 1)
    short = right.copy()
    short[0, 4, 1] = 0.4
    with pytest.raises(od.InvalidInput, match=r"a sum of 0.9 at step 1, run 4$"):
        check(short, 1)
    with pytest.raises(od.InvalidInput, match=r"a sum of 2 at step 1, run 0$"):
        check(np.ones((1, 10, 2)), 1)


class Lost(EpisodicWorld):
    """An episode of three steps that goes, or begins, where there is no state."""

    states: Any
    at: int

    def first(self, runs: int, rng: Any) -> Any:
        return self.states if self.at == 0 else super().first(runs, rng)

    def step(self, step: int, taken: Any, rng: Any) -> Any:
        rewards, following = super().step(step, taken, rng)
        return rewards, self.states if step + 1 == self.at else following


def lost(states: Any, at: int) -> Lost:
    world = Lost(random_model(3, 2, horizon=3))
    object.__setattr__(world, "states", states)
    object.__setattr__(world, "at", at)
    return world


@pytest.mark.parametrize("at", [0, 1, 2, 3])
@pytest.mark.parametrize(
    ("states", "text"),
    [
        (np.array([0, -1]), "numbers from 0 to 2; got -1 after step {at}, run 1"),
        (np.array([3, 0]), "numbers from 0 to 2; got 3 after step {at}, run 0"),
        (np.array([0.0, 1.0]), "numbers; got float64 at step {at}"),
        (np.array([0]), r"of shape \(2,\); got \(1,\) at step {at}"),
        ([0, 1], r"of shape \(2,\); got list at step {at}"),
    ],
)
def test_states_of_an_episode_are_checked(states: Any, text: str, at: int) -> None:
    models = [random_model(3, 2, horizon=3, seed=seed) for seed in (1, 2)]
    policy = GeneralizedPosteriorSampling(models)
    message = "states of Lost must be .*" + text.format(at=at)
    with pytest.raises(od.InvalidInput, match=message):
        simulate_episodes(policy, lost(states, at), episodes=3, runs=2)
    simulate_episodes(policy, lost(np.array([1, 2]), at), episodes=3, runs=2)
