"""The compiled twins' own exp, log and logistic against numpy's; those of the forest,
to the bit."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
from numba import njit

from oddsmith.core import kernels
from oddsmith.experts.kernels import tree_nodes, trees, twins, vectormath
from oddsmith.experts.learners import Forest, LearnerInput
from oddsmith.experts.learners.growth import Rows, grow, key_of
from oddsmith.files.state import leaves_of

exp, log, log1p = vectormath.exp, vectormath.log, vectormath.log1p


@njit
def elementwise(values, which):  # type: ignore[no-untyped-def]
    out = np.empty_like(values)
    for i in range(values.size):
        out[i] = (
            exp(values[i])
            if which == 0
            else log(values[i])
            if which == 1
            else log1p(values[i])
        )
    return out


def test_exp_is_good_to_3_ulp() -> None:
    rng = np.random.default_rng(0)
    x = np.concatenate(
        [
            rng.uniform(-707, 0, 50_000),
            rng.uniform(-1, 0, 50_000),
            -(10.0 ** rng.uniform(-18, 0, 9_999)),
        ]
    )
    assert (np.abs(elementwise(x, 0) - np.exp(x)) / np.spacing(np.exp(x))).max() <= 3
    np.testing.assert_array_equal(
        elementwise(np.array([0.0, -np.inf, -1e5, np.nan]), 0), [1, 0, 0, np.nan]
    )


def test_log_and_log1p_are_good_to_2_ulp() -> None:
    rng = np.random.default_rng(1)
    x = np.concatenate([rng.random(50_000), 10.0 ** rng.uniform(-300, 0, 50_000)])
    assert (
        np.abs(elementwise(x, 1) - np.log(x)) / np.spacing(np.abs(np.log(x)))
    ).max() <= 2
    assert (
        np.abs(elementwise(-x, 2) - np.log1p(-x)) / np.spacing(np.abs(np.log1p(-x)))
    ).max() <= 2
    np.testing.assert_array_equal(
        elementwise(np.array([1.0, 0.0, -1.0, np.nan]), 1), [0, -np.inf, np.nan, np.nan]
    )
    np.testing.assert_array_equal(
        elementwise(np.array([0.0, -1.0, -1.5]), 2), [0, -np.inf, np.nan]
    )


def test_logistic_is_good_to_4_ulp_and_stays_put_at_the_ends() -> None:
    scores = np.concatenate([np.linspace(-40, 40, 10_001), [-1e4, 1e4, np.nan]])
    expected = 1 / (1 + np.exp(np.minimum(-scores, 708)))
    twins.logistic(scores)
    assert np.nanmax(np.abs(scores - expected) / np.spacing(expected)) <= 4
    assert np.isnan(scores[-1])


def both(compute: Any) -> Iterator[list[tuple[str, str, bytes]]]:
    """What is computed by numpy, and by the twins: names, shapes and types, bits."""
    usual = kernels.choice()
    for choice in ("numpy", "numba"):
        kernels.use(choice)
        leaves = [(name, np.asarray(leaf)) for name, leaf in leaves_of(compute())]
        yield [
            (name, f"{leaf.shape} {leaf.dtype}", leaf.tobytes())
            for name, leaf in leaves
        ]
    kernels.use(usual)


def logged(kind: str, n: int, dim: int, n_arms: int) -> Rows:
    """Rows of contexts of this kind, with rewards that depend on them."""
    rng = np.random.default_rng([n, dim, n_arms])
    x = rng.normal(size=(dim, n))
    if kind == "tied":
        x = np.round(x)
    elif kind == "missing":
        x[rng.random((dim, n)) < 0.3] = np.nan
    elif kind == "wild":
        x = np.where(
            rng.random((dim, n)) < 0.1,
            rng.choice([np.inf, -np.inf, np.nan, 1e308, -0.0], (dim, n)),
            x,
        )
    elif kind == "constant":
        x[:] = 3.0
    elif kind == "categories":
        x = (x > 1).astype(float)
    arms = rng.integers(0, n_arms, n)
    rewards = (
        rng.random(n)
        if n % 2
        else ((np.nansum(x[:1], axis=0) > 0) == (arms % 2 == 0)).astype(float)
    )
    return Rows(x, arms, rewards)


@pytest.mark.parametrize(
    "kind", ["normal", "tied", "missing", "wild", "constant", "categories"]
)
def test_a_tree_is_the_same_to_the_bit(kind: str) -> None:
    most = 0
    for n in (1, 3, 4, 25, 200, 701):
        for dim in (0, 1, 9, 20):
            for n_arms in (1, 3, 40):
                rows = logged(kind, n, dim, n_arms)
                for depth in (0, 14):
                    one, two = both(
                        partial(grow, rows, n_arms, key=key_of(n), depth=depth)
                    )
                    assert one == two
                    most = max(most, len(one[0][2]) // 4)  # its columns are int32
    assert most == 1 if kind == "constant" else most > 50


@pytest.mark.parametrize(
    ("dim", "n_arms", "n_trees"), [(1, 1, 3), (20, 10, 16), (3, 40, 2)]
)
def test_a_forest_learns_and_believes_the_same(
    dim: int, n_arms: int, n_trees: int
) -> None:
    x, arms, rewards = logged("missing", 301, dim, n_arms)

    def play() -> Any:
        forest = Forest(n_trees, window=120)
        state, beliefs = forest.start((), n_arms, dim), []
        for t, row in enumerate(x.T):
            state = forest.learn(state, LearnerInput(row, row), arms[t], rewards[t])
            if t % 10 == 0:
                beliefs.append(
                    forest.believe(
                        state, LearnerInput(x.T[: 1 + t % 7], x.T[: 1 + t % 7])
                    )
                )
        return state, tuple(beliefs)

    for (name, _, one), (_, _, two) in zip(*both(play), strict=True):
        if "threshold" in name or "column" in name or "left" in name:
            assert one == two, name
        elif len(one) % 8 == 0:
            np.testing.assert_allclose(
                np.frombuffer(one),
                np.frombuffer(two),
                atol=1e-9,
                rtol=1e-9,
                err_msg=name,
            )
    for twin in (trees.grow, tree_nodes.learn, tree_nodes.believe, tree_nodes.weigh):
        assert len(twin.signatures) == 1  # compiled at the start, and never again
