"""Simulated means against exact enumerations and the exact chain; streams, delays,
traces."""

from typing import Any

import numpy as np
import pytest

import oddsmith as od
from oddsmith.core import kernels
from oddsmith.lab import finite, simulate, worlds
from paper.reference import LOSSES, VECTORS, experts_of, floats, rational


def table_of(name: str) -> Any:
    tables = experts_of(name)
    return np.stack([tables["x0"], tables["x1"]])


@pytest.mark.parametrize(
    "case", VECTORS["exact_enumeration"], ids=lambda case: str(case["name"])
)
def test_agrees_with_the_exact_enumeration(case: Any, any_kernels: str) -> None:
    """20,000 runs; a mean beyond 4 standard errors has probability 6e-5, and the seed
    is fixed."""
    table = table_of("square_paper")
    policy = od.GeneralizedThompsonSampling(
        od.TableExperts(table),
        LOSSES[case["loss"]],
        eta=rational(case["eta"]),
        gamma=rational(case["gamma"]),
        prior=floats(case["prior"]),
    )
    sequence = [int(name[1]) for name in case["contexts"]]
    run = simulate(
        policy,
        worlds.TableWorld(table[:, 0], sequence=sequence),
        steps=5,
        runs=20_000,
        seed=1,
    )
    mean, error = run.mean()
    assert abs(mean - rational(case["expected_pseudo_regret"])) <= 4 * error


@pytest.mark.parametrize(
    "case",
    VECTORS["pessimistic_chain"],
    ids=lambda c: f"p{c['p1']}-eta{c['eta']}-T{c['T']}",
)
def test_agrees_with_the_exact_chain(case: Any) -> None:
    table = np.array([[[0.5, 0.9], [0.5, 0.1]]])
    p1 = rational(case["p1"])
    policy = od.GeneralizedThompsonSampling(
        od.TableExperts(table),
        od.log_loss,
        eta=rational(case["eta"]),
        prior=[p1, 1 - p1],
        gamma=0.0,
    )
    run = simulate(
        policy,
        worlds.TableWorld(table[:, 0]),
        steps=int(case["T"]),
        runs=20_000,
        seed=2,
    )
    mean, error = run.mean()
    assert abs(mean - rational(case["expected_pseudo_regret"])) <= 4 * error


def instance() -> tuple[Any, worlds.TableWorld]:
    table = np.clip(np.random.default_rng(7).beta(2, 2, (10, 32, 3)), 0.05, 0.95)
    return table, worlds.TableWorld(table[:, 0])


@pytest.mark.parametrize(
    "loss", [od.log_loss, od.square_loss, od.losses.scaled(od.log_loss, 2.0)]
)
@pytest.mark.parametrize("delay", [0, 7, 500])
def test_the_compiled_path_draws_the_same_arms(loss: Any, delay: int) -> None:
    table, world = instance()
    policy = od.GeneralizedThompsonSampling(
        od.TableExperts(table), loss, gamma=od.policies.PowerSchedule(0.5)
    )
    runs = {}
    for choice in ("numpy", "numba"):
        kernels.use(choice)
        runs[choice] = simulate(policy, world, steps=300, runs=20, seed=6, delay=delay)
    kernels.use("auto")
    slow, fast = runs["numpy"], runs["numba"]
    np.testing.assert_array_equal(slow.arms, fast.arms)
    np.testing.assert_array_equal(slow.rewards, fast.rewards)
    np.testing.assert_allclose(slow.regret, fast.regret, atol=1e-12)
    np.testing.assert_allclose(
        slow.state.log_weights, fast.state.log_weights, atol=1e-9
    )
    assert slow.state.learnt == fast.state.learnt


def test_the_compiled_path_in_parts_is_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table, world = instance()
    policy = od.GeneralizedThompsonSampling(od.TableExperts(table), gamma=0.1)
    kernels.use("numba")
    whole = simulate(policy, world, steps=50, runs=11)
    monkeypatch.setattr(finite, "_AT_ONCE", 50 * 32 * 4)
    parts = simulate(policy, world, steps=50, runs=11)
    kernels.use("auto")
    np.testing.assert_array_equal(whole.arms, parts.arms)
    np.testing.assert_array_equal(whole.state.log_weights, parts.state.log_weights)


def test_what_the_compiled_path_does_not_know_goes_step_by_step() -> None:
    table, world = instance()
    tied = table.copy()
    tied[0, 1] = 0.5
    kernels.use("numba")
    plain = od.GeneralizedThompsonSampling(od.TableExperts(table), gamma=0.0)
    assert finite.suits(plain, world)
    for policy in (
        od.GeneralizedThompsonSampling(od.TableExperts(tied), gamma=0.0),
        od.GeneralizedThompsonSampling(od.TableExperts(table), share=0.1, gamma=0.0),
        od.GeneralizedThompsonSampling(od.TableExperts(table), zero, gamma=0.0),
        od.Bounded(plain, floors=0.01),
    ):
        assert not finite.suits(policy, world)
        assert simulate(policy, world, steps=5, runs=2).regret.shape == (5, 2)
    kernels.use("auto")


def zero(prediction: Any, reward: Any) -> Any:
    return prediction * 0


def test_contexts_do_not_depend_on_the_policy() -> None:
    table, world = instance()
    runs = [
        simulate(
            od.GeneralizedThompsonSampling(od.TableExperts(table), gamma=g),
            world,
            steps=30,
            runs=4,
            seed=5,
        )
        for g in (0.0, 0.9)
    ]
    np.testing.assert_array_equal(runs[0].contexts, runs[1].contexts)
    assert not np.array_equal(runs[0].arms, runs[1].arms)


def test_delay_costs_and_the_last_rewards_are_still_on_their_way() -> None:
    table, world = instance()
    policy = od.GeneralizedThompsonSampling(od.TableExperts(table), gamma=0.05)
    totals = []
    for delay in (0, 50, 500):
        run = simulate(policy, world, steps=600, runs=40, seed=3, delay=delay)
        assert run.state.learnt == 600 - delay
        totals.append(run.total.mean())
    assert totals == sorted(totals)


def test_regret_to_the_best_expert_is_regret_when_one_is_true() -> None:
    table, world = instance()
    experts = od.TableExperts(table)
    run = simulate(
        od.GeneralizedThompsonSampling(experts, gamma=0.1),
        world,
        steps=100,
        runs=6,
        seed=1,
    )
    np.testing.assert_allclose(run.regret_to(experts), run.total, atol=1e-9)
    others = od.TableExperts(table[:, 1:])
    assert (run.regret_to(others) < run.total).all()


def test_bayes_regret_grows_with_the_surprise_of_the_prior() -> None:
    """The truth is drawn from p*; a prior with more cross entropy to it costs more, and
    less than its bound."""
    table = np.clip(np.random.default_rng(7).beta(2, 2, (10, 8, 3)), 0.05, 0.95)
    truth = np.array([0.6, 0.2, 0.1, 0.02, 0.02, 0.02, 0.02, 0.02])
    world, steps, means = worlds.DrawnTruth(table, prior=truth, seed=1), 1500, []
    for used in (truth, np.full(8, 1 / 8), truth[::-1]):
        policy = od.GeneralizedThompsonSampling(
            od.TableExperts(table), gamma=0.02, prior=used
        )
        mean, error = simulate(policy, world, steps=steps, runs=200, seed=2).mean()
        bound = od.theory.bayes_regret_bound(
            truth, used, loss="log", n_arms=3, steps=steps, gamma=0.02
        ).bound
        assert mean + 4 * error < bound
        means.append(mean)
    assert means == sorted(means)


def test_traces_are_what_the_policy_says() -> None:
    table, world = instance()
    policy = od.GeneralizedThompsonSampling(od.TableExperts(table), gamma=0.05)
    run = simulate(
        policy, world, steps=50, runs=3, trace=("posterior", "entropy", "odds")
    )
    assert run.traces["posterior"].shape == (50, 3, 32)
    np.testing.assert_allclose(run.traces["entropy"][0], np.log(32))
    np.testing.assert_allclose(run.traces["odds"].sum(axis=-1), 1)
    assert (run.traces["entropy"][-1] < np.log(32)).all()


def test_bernoulli_is_noisier_than_beta() -> None:
    table, world = instance()
    policy = od.GeneralizedThompsonSampling(
        od.TableExperts(table), od.square_loss, eta=1.0, gamma=0.02
    )
    coin, soft = (
        simulate(policy, world, steps=400, runs=200, seed=4, noise=noise).total.mean()
        for noise in (worlds.Bernoulli(), worlds.Beta(5.0))
    )
    assert soft < coin


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"steps": 0}, "steps must be"),
        ({"runs": -1}, "runs must be"),
        ({"trace": ("luck",)}, "trace must be among"),
    ],
)
def test_wrong_settings(wrong: Any, message: str) -> None:
    table, world = instance()
    settings: Any = {"steps": 10, "runs": 2} | wrong
    with pytest.raises(od.InvalidInput, match=message):
        simulate(
            od.GeneralizedThompsonSampling(od.TableExperts(table), gamma=0.0),
            world,
            **settings,
        )


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"seed": -1}, "seed must be"),
        ({"seed": 1.5}, "seed must be"),
        ({"trace": None}, "trace must be a list"),
        ({"noise": 3}, "noise must be a function"),
        ({"policy": None}, "policy must have the methods"),
        ({"world": 7}, "world must have n_arms, context and means"),
        (
            {"world": worlds.TableWorld(np.full((10, 2), 0.5))},
            "policy must have the world's 2 arms; Gen.* has 3",
        ),
        ({"delay": 2**62}, "delay must be a whole number"),
    ],
)
def test_wrong_parts(wrong: Any, message: str) -> None:
    table, world = instance()
    settings: Any = {
        "policy": od.GeneralizedThompsonSampling(od.TableExperts(table), gamma=0.0),
        "world": world,
        "steps": 3,
    } | wrong
    with pytest.raises(od.InvalidInput, match=message):
        simulate(**settings)


def test_seeds_bring_other_truths_and_other_orders() -> None:
    """A world's own choices belong to the seed of the simulation, apart from the stream
    of contexts."""
    table = np.clip(np.random.default_rng(1).beta(2, 2, (8, 8, 2)), 0.05, 0.95)
    drawn = worlds.DrawnTruth(table, np.full(8, 1 / 8))
    policy = od.GeneralizedThompsonSampling(od.TableExperts(table), gamma=0.0)
    truths, contexts = [], []
    for seed in range(200):
        run = simulate(policy, drawn, steps=2, seed=seed)
        truths.append(int(run.world.truths(1)[0]))  # type: ignore[attr-defined]
        contexts.append(int(run.contexts[1][0]))
    # 25 expected, sd 4.7
    assert 10 < np.sum(np.array(truths) == np.array(contexts)) < 45
    flowers = worlds.dataset("iris")
    experts = od.FunctionExperts({"even": even}, arms=["a", "b", "c"])
    first = [
        simulate(od.uniform(experts), flowers, steps=1, seed=seed).contexts[0].tolist()
        for seed in range(8)
    ]
    assert len({str(x) for x in first}) > 4


def even(context: Any) -> Any:
    return np.full((*np.shape(context)[:-1], 3), 0.5)


def test_the_log_says_what_has_not_arrived() -> None:
    table, world = instance()
    policy = od.GeneralizedThompsonSampling(od.TableExperts(table), gamma=0.1)
    run = simulate(policy, world, steps=100, runs=2, delay=50, trace="log")
    log = run.log(1).rewarded()
    assert len(log) == 50
    folded = od.fold(policy, policy.init(), log.decisions(), log.reward)
    np.testing.assert_allclose(folded.log_weights, run.state.log_weights[1], atol=1e-12)


def test_the_gap_of_a_sleeper_is_a_number() -> None:
    table, world = instance()
    table = table.copy()
    table[0, 1] = np.nan
    policy = od.GeneralizedThompsonSampling(od.TableExperts(table), gamma=0.1)
    assert np.isfinite(
        simulate(policy, world, steps=30, trace=("gap",)).traces["gap"]
    ).all()


class Ours(worlds.World):
    """A world of a user's own, without errors."""

    n_arms = 3

    def context(
        self, step: int, runs: int, rng: np.random.Generator, history: Any = None
    ) -> Any:
        return rng.integers(10, size=runs)

    def means(self, step: int, context: Any) -> Any:
        return np.full((len(context), 3), 0.5)


class FewerArguments(Ours):
    def context(self, step: int, runs: int, rng: Any) -> Any:  # type: ignore[override]
        return super().context(step, runs, rng)


class OtherArguments(Ours):
    def means(self, context: Any) -> Any:  # type: ignore[override]
        return super().means(1, context)


class Texts(Ours):
    def means(self, step: int, context: Any) -> Any:
        return super().means(step, context).astype(str)


@pytest.mark.parametrize(
    ("world", "message"),
    [
        (
            FewerArguments(),
            r"context of FewerArguments must take \(step, runs, rng, history=None\)",
        ),
        (OtherArguments(), r"means of OtherArguments must take \(step, context\)"),
        (Texts(), r"means of Texts must be numbers; got dtype <U\d+ at step 1"),
    ],
    ids=["context", "means", "texts"],
)
def test_worlds_of_ones_own_are_checked(world: Any, message: str) -> None:
    table, _ = instance()
    policy = od.GeneralizedThompsonSampling(od.TableExperts(table), gamma=0.1)
    assert simulate(policy, Ours(), steps=5, runs=4).regret.shape == (5, 4)
    with pytest.raises(od.InvalidInput, match=message):
        simulate(policy, world, steps=5, runs=4)
