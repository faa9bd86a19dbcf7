"""Logs of arms that came with the call: names, features and odds of each row, checked,
sliced and joined."""

from typing import Any

import numpy as np
import pytest

import oddsmith as od
from logs.samples import assert_same
from oddsmith.logs.knowledge import COMPARED

A, B, C = {"age": 2.0}, {"age": 0.5, "topic": "tech"}, {"age": 1.0}
LOG: dict[str, Any] = {
    "arm": [0, 2],
    "reward": [1, 0],
    "offered": [["a", "b"], ["c", "a", "d"]],
    "propensities": [[0.5, 0.5], [0.25, 0.25, 0.5]],
    "features": [{"a": A, "b": B}, {"d": C, "a": A, "c": None}],
}


def played(
    steps: int = 12, seed: int = 0, most: int = 5
) -> tuple[od.Agent, list[od.Decision], list[float]]:
    """An agent's decisions among 1 to `most` arms, with dicts as features."""
    agent, rng = od.Agent(od.auto(), seed=seed), np.random.default_rng(seed)
    decisions, rewards = [], []
    for _ in range(steps):
        names = rng.permutation(9)[: rng.integers(1, most + 1)]
        arms = {f"arm {i}": {"age": float(rng.random())} for i in names}
        decisions.append(agent.decide({"hour": int(rng.integers(24))}, arms=arms))
        rewards.append(float(rng.integers(2)))
        agent.learn(decisions[-1], rewards[-1])
    return agent, decisions, rewards


def test_rows_of_different_sizes_are_padded() -> None:
    log = od.Log(**LOG)
    assert (log.n_arms, log.arms, log.kind, log.known_features) == (
        3,
        None,
        "exact",
        "all",
    )
    assert log.offered == [("a", "b"), ("c", "a", "d")]
    np.testing.assert_array_equal(log.propensities, [[0.5, 0.5, 0], [0.25, 0.25, 0.5]])
    np.testing.assert_array_equal(
        log.eligible, [[True, True, False], [True, True, True]]
    )
    np.testing.assert_array_equal(log.propensity, [0.5, 0.5])
    assert repr(log).startswith(
        "Log(of 2 decisions over up to 3 arms that differ, 0 without reward; arm,"
    )
    assert log[1]["offered"] == ("c", "a", "d")


def test_what_an_agent_decided_comes_back_as_decisions() -> None:
    _, decisions, rewards = played()
    log = od.Log.of(decisions, rewards)
    back = log.decisions()
    for row, decision in enumerate(decisions):
        k = len(decision.arms)
        assert back.arms[row] == decision.arms
        assert back.features[row] == decision.features
        assert decision.arms[back.arm[row]] == decision.arm
        np.testing.assert_array_equal(back.propensities[row, :k], decision.propensities)
        assert not back.propensities[row, k:].any()
    assert_same(od.Log(**log.columns()), log)


def test_names_that_all_rows_share() -> None:
    log = od.Log(
        **LOG
        | {
            "offered": [["a", 7], ["a", "7"]],
            "arm": [0, 1],
            "propensities": [[0.5, 0.5]] * 2,
            "features": None,
        }
    )
    assert (log.arms, log.eligible, log.n_arms) == (("a", "7"), None, 2)
    assert "over 2 arms," in repr(log)
    assert od.Log(**log.columns(), arms=("a", "7")).arms == ("a", "7")
    for arms in (("7", "a"), ("a", "7", "b")):
        with pytest.raises(
            od.InvalidInput,
            match="arms must be the names that all rows offered, which are",
        ):
            od.Log(**log.columns(), arms=arms)
    with pytest.raises(od.InvalidInput, match="which differ from row to row"):
        od.Log(**LOG, arms=("a", "b"))


def test_slices_are_as_wide_as_their_rows() -> None:
    log = od.Log.of(*played()[1:])
    for rows in (slice(0, 1), slice(3, 9), log.arm == 0, [5, 2]):
        some = log[rows]
        assert (
            some.n_arms
            == max(map(len, some.offered))
            == np.asarray(some.propensities).shape[1]
        )
        assert_same(od.Log(**some.columns()), some)
    one = log[2:3]
    assert one.arms == one.offered[0]
    assert len(log[:0].offered) == 0


@pytest.mark.parametrize(
    "without", [(), ("propensities",), ("propensities", "eligible"), ("features",)]
)
def test_logs_of_different_widths_are_joined(without: tuple[str, ...]) -> None:
    log = od.Log.of(*played(40)[1:])
    whole = od.Log(**log.without(*without).columns())
    parts = [od.Log(**part.without(*without).columns()) for part in log.split(3)]
    assert len({part.n_arms for part in parts}) > 1
    assert_same(od.Log.concatenated(parts), whole)
    assert od.Log.concatenated(parts).arms is None


def test_logs_some_of_which_know_no_features() -> None:
    log = od.Log(**LOG)
    both = od.Log.concatenated([log.without("features"), log])
    assert both.features == [None, None, *log.features]
    bare = od.Log(**{name: LOG[name] for name in ("arm", "reward")})
    with pytest.raises(
        od.InvalidInput, match="logs must all have the names that were offered, or none"
    ):
        od.Log.concatenated([log, bare])


def test_features_beside_arms_given_at_birth() -> None:
    agent = od.Agent(od.auto(["a", "b", "c"]), seed=1)
    decisions = [agent.decide({"x": 1.0}, arms={"a": A, "c": C}) for _ in range(3)]
    log = od.Log.of(decisions, [1, 0, 1], arms=agent.arms)
    assert (log.offered, log.n_arms, log.known_features) == (None, 3, "all")
    with pytest.raises(
        od.errors.BrokenLog,
        match="column features, row 0: must have those of the drawn arm",
    ):
        od.Log.of(decisions, [1, 0, 1], arms=["x", "y", "z"])


@pytest.mark.parametrize(
    ("features", "known", "allows"),
    [
        (LOG["features"], "all", ("learning", "models", "weights", "odds")),
        ([{"a": A}, {"d": C}], "drawn", ("learning", "weights", "odds")),
        ([None, {"d": C}], "drawn", ("learning", "weights", "odds")),
        ([None, LOG["features"][1]], "all", ("learning", "models", "weights", "odds")),
        ([{"a": None}, {}], "none", ("learning", "models", "weights", "odds")),
        (None, "none", ("learning", "models", "weights", "odds")),
    ],
)
def test_whose_features_are_known_decides_what_is_allowed(
    features: Any, known: str, allows: tuple[str, ...]
) -> None:
    log = od.Log(**LOG | {"features": features})
    assert (log.known_features, log.allows) == (known, allows)
    for use in allows:
        log.require(use)  # type: ignore[arg-type]
    if known == "drawn":
        with pytest.raises(od.InvalidInput) as caught:
            log.without("propensities").require("models")
        assert str(caught.value) == (
            f"{COMPARED} need the features of all arms offered; this log has those of "
            "the drawn arm only, which allows learning from drawn rows (fit_log) and "
            "importance weights (ips, snips)"
        )


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "no list": (
        {"offered": [["a", "b"], "cad"]},
        "column offered, row 1: must be a list of names; got 'cad'",
    ),
    "no names": (
        {"offered": [["a", "b"], []]},
        "column offered, row 1: arms must be at least one",
    ),
    "nothing": (
        {"offered": [None, ["a"]]},
        "column offered, row 0: must be a list of names; got None",
    ),
    "a name twice": (
        {"offered": [["a", "b"], ["c", "a", "c"]]},
        "column offered, row 1: .* distinct; got 'c' twice",
    ),
    "an empty name": (
        {"offered": [["a", ""], ["c", "a", "d"]]},
        "column offered, row 0: .* 1 to 256 characters",
    ),
    "a long name": (
        {"offered": [["a", "b"], ["c", "a", "d" * 257]]},
        "column offered, row 1: .* 1 to 256 characters",
    ),
    "NUL": (
        {"offered": [["a", "\0"], ["c", "a", "d"]]},
        "column offered, row 0: .* without NUL",
    ),
    "no text": (
        {"offered": [["a", 0.5], ["c", "a", "d"]]},
        "column offered, row 0: .* text or whole numbers",
    ),
    "a list in it": (
        {"offered": [["a", ["b"]], ["c", "a", "d"]]},
        "column offered, row 0: ",
    ),
    "rows": (
        {"offered": [["a", "b"]]},
        "column offered: must have 2 rows like arm; got 1",
    ),
    "an arm beyond": (
        {"arm": [2, 2]},
        "column arm, row 0: must be below the 2 arms offered; got 2",
    ),
    "too few odds": (
        {"propensities": [[0.5, 0.5], [0.5, 0.5]]},
        (
            "column propensities, row 1: must have 3 entries, one for each arm "
            "offered; got 2"
        ),
    ),
    "too few odds, in an array": (
        {"propensities": np.full((2, 2), 0.5)},
        (
            "column propensities, row 1: must have 3 entries, one for each arm "
            "offered; got 2"
        ),
    ),
    "odds beyond": (
        {"propensities": [[0.5, 0.25, 0.25], [0.25, 0.25, 0.5]]},
        "column propensities, row 0: must be 0 beyond the 2 arms offered",
    ),
    "odds of no arm": (
        {"propensities": [[0.5, 0.5, 0, 0], [0.25, 0.25, 0.25, 0.25]]},
        (
            "column propensities, row 0: must have 2 entries, one for each arm "
            "offered; got 4"
        ),
    ),
    "odds of no arm, in an array": (
        {"propensities": np.array([[0.5, 0.5, 0, 0], [0.25, 0.25, 0.25, 0.25]])},
        "column propensities, row 1: must be 0 beyond the 3 arms offered",
    ),
    "odds that do not sum": (
        {"propensities": [[0.5, 0.5], [0.25, 0.25, 0.25]]},
        "column propensities, row 1: must sum to 1; got 0.75",
    ),
    "a number as odds": (
        {"propensities": [[0.5, 0.5], 1.0]},
        "column propensities, row 1: must be a list with an",
    ),
    "eligible beyond": (
        {"eligible": [[True, True, True], [True, True, True]]},
        "column eligible, row 0: must be false beyond the 2 arms offered",
    ),
    "features of others": (
        {"features": [{"a": A, "x": B}, None]},
        "column features, row 0: must be of arms that were offered; got those of 'x'",
    ),
    "not of the drawn": (
        {"features": [None, {"a": A}]},
        "column features, row 1: must have those of the drawn arm 'd'",
    ),
    "no dict": (
        {"features": [None, [A, A, A]]},
        "column features, row 1: must be a dict of name: features, or None",
    ),
    "words": (
        {"features": [{"a": "old"}, None]},
        "column features, row 0: features of arm 'a' must be a dict, numbers",
    ),
    "two kinds": (
        {"features": [{"a": A, "b": [1.0]}, None]},
        "column features, row 0: features must be of one kind",
    ),
    "other kinds": (
        {"features": [{"a": A}, {"d": [1.0, 2.0]}]},
        "column features, row 1: must be dicts like row 0; got 2 numbers",
    ),
    "other widths": (
        {"features": [{"a": np.ones(3)}, {"d": [1.0, 2.0]}]},
        "column features, row 1: must be 3 numbers like row 0; got 2 numbers",
    ),
    "rows of features": (
        {"features": [{"a": A}]},
        "column features: must have 2 rows like arm; got 1",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_does_not_fit_is_refused_with_row_and_column(name: str) -> None:
    changed, sentence = WRONG[name]
    with pytest.raises(od.InvalidInput, match=sentence):
        od.Log(**LOG | changed)
