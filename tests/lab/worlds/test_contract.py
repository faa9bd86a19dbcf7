"""The contract of every world, in one list; and the noise around means."""

from collections.abc import Callable

import numpy as np
import pytest

import oddsmith as od
from oddsmith.lab import worlds
from oddsmith.lab.worlds.world import History

RNG = np.random.default_rng(0)
TABLE = RNG.random((5, 3))
WORLDS: dict[str, Callable[[], worlds.World]] = {
    "table": lambda: worlds.TableWorld(TABLE),
    "table with odds": lambda: worlds.TableWorld(TABLE, odds=[0.5, 0.2, 0.1, 0.1, 0.1]),
    "sequence": lambda: worlds.TableWorld(TABLE, sequence=[0, 4, 2]),
    "drawn truth": lambda: worlds.DrawnTruth(
        RNG.random((5, 4, 3)), prior=[0.1, 0.2, 0.3, 0.4]
    ),
    "linear": lambda: worlds.LinearWorld(np.array([0.3, -0.2, 0.1]), n_arms=3),
    "logistic": lambda: worlds.LogisticWorld(np.array([3.0, -2.0]), n_arms=4),
    "adversary": lambda: worlds.AdaptiveAdversary(worlds.TableWorld(TABLE)),
    "switching": lambda: worlds.SwitchingWorld(
        [worlds.TableWorld(TABLE), worlds.TableWorld(TABLE[::-1])], until=[3]
    ),
    "classification": lambda: worlds.ClassificationWorld(
        RNG.random((20, 4)), np.arange(20) % 3
    ),
}


@pytest.mark.parametrize("name", WORLDS)
def test_contract(name: str) -> None:
    world = WORLDS[name]()
    for step in range(1, 8):
        context = world.context(step, 6, np.random.default_rng([1, step]))
        again = world.context(step, 6, np.random.default_rng([1, step]))
        np.testing.assert_array_equal(context, again)
        means = world.means(step, context)
        assert means.shape == (6, world.n_arms)
        assert ((means >= 0) & (means <= 1)).all()


def test_an_adversary_picks_what_hurts_most() -> None:
    # expert 1 is wrong in context 1 only
    table = np.array([[[0.9, 0.1], [0.9, 0.1]], [[0.1, 0.9], [0.9, 0.1]]])
    policy = od.GeneralizedThompsonSampling(od.TableExperts(table), gamma=0.0)
    adversary = worlds.AdaptiveAdversary(worlds.TableWorld(table[:, 0]))
    chosen = adversary.context(
        1, 4, np.random.default_rng(0), History(policy, policy.init((4,)))
    )
    assert chosen.tolist() == [1, 1, 1, 1]


def test_classification_goes_through_every_row_once_per_epoch() -> None:
    world = worlds.dataset("iris", seed=3)
    seen = np.array([world.index(step, 2) for step in range(1, 151)])
    assert (
        sorted(seen[:, 0].tolist()) == sorted(seen[:, 1].tolist()) == list(range(150))
    )
    assert seen[:, 0].tolist() != seen[:, 1].tolist()
    context = world.context(7, 2, np.random.default_rng(0))
    np.testing.assert_array_equal(context, world.X[seen[6]])
    assert world.means(7, context).argmax(axis=1).tolist() == world.y[seen[6]].tolist()


@pytest.mark.parametrize("noise", [worlds.Bernoulli(), worlds.Beta(5.0)])
def test_noise_keeps_the_mean(noise: worlds.Noise) -> None:
    """50,000 rewards each; a mean is off by more than 5 standard errors once in two
    million."""
    for mean in (0.0, 0.2, 0.7, 1.0):
        rewards = noise(np.full(50_000, mean), np.random.default_rng(0))
        assert ((rewards >= 0) & (rewards <= 1)).all()
        assert (
            abs(rewards.mean() - mean)
            <= 5 * np.sqrt(mean * (1 - mean) / 50_000) + 1e-12
        )


@pytest.mark.parametrize(
    ("attempt", "message"),
    [
        (lambda: worlds.TableWorld(np.array([[1.5]])), "mean rewards in"),
        (lambda: worlds.TableWorld(TABLE, sequence=[7]), "sequence must be contexts"),
        (lambda: worlds.TableWorld(TABLE, odds=[1.0]), "odds must have one entry"),
        (lambda: worlds.DrawnTruth(TABLE, prior=[1.0]), "contexts, experts, arms"),
        (lambda: worlds.LinearWorld(np.array([1.0, 1.0])), "norm of theta"),
        (lambda: worlds.LogisticWorld(np.array([1.0]), n_arms=0), "n_arms must be"),
        (
            lambda: worlds.SwitchingWorld([worlds.TableWorld(TABLE)], until=[5]),
            "one step fewer",
        ),
        (
            lambda: worlds.SwitchingWorld([worlds.TableWorld(TABLE)] * 3, until=[5, 5]),
            "must increase",
        ),
        (
            lambda: worlds.AdaptiveAdversary(worlds.LogisticWorld(np.ones(2))),  # type: ignore[arg-type]
            "must be a TableWorld",
        ),
        (
            lambda: worlds.ClassificationWorld(np.ones((3, 2)), np.array([0.5, 1, 2])),
            "y must be a class",
        ),
        (lambda: worlds.dataset("mnist"), "data must be one of"),
        (lambda: worlds.Beta(0), "strength must be"),
    ],
)
def test_wrong_worlds_get_one_clear_sentence(
    attempt: Callable[[], object], message: str
) -> None:
    with pytest.raises(od.InvalidInput, match=message):
        attempt()
