"""The Log: checked once, sliced, joined, folded."""

from typing import Any

import numpy as np
import pytest

import oddsmith as od

RNG = np.random.default_rng(0)


def played(
    steps: int = 30, sleepy: bool = False
) -> tuple[Any, list[od.Decision], list[float], od.Log]:
    policy = od.GeneralizedThompsonSampling(
        od.GivenExperts(("a", "b", "c")), gamma=0.1, optimism=0.1
    )
    state, decisions, rewards = policy.init(), [], []
    for t in range(steps):
        f = RNG.uniform(0.1, 0.9, (3, 4))
        if sleepy and t % 3 == 0:
            f[t % 2] = np.nan
        decisions.append(od.decide(policy, state, f, float(RNG.random()), step=t + 1))
        rewards.append(float(RNG.random()))
        state = policy.update(state, decisions[-1], rewards[-1])
    return (policy, state), decisions, rewards, od.Log.of(decisions, rewards)


@pytest.mark.parametrize("sleepy", [False, True])
def test_a_state_is_a_fold_over_the_log(sleepy: bool) -> None:
    (policy, state), _, _, log = played(sleepy=sleepy)
    folded = od.fold(policy, policy.init(), log.decisions(), log.reward)
    np.testing.assert_allclose(folded.log_weights, state.log_weights, atol=1e-12)
    assert len(log) == 30
    assert log.n_arms == 4
    np.testing.assert_array_equal(log.step, np.arange(1, 31))


def test_rows_of_all_kinds() -> None:
    *_, log = played()
    assert len(log[5:12]) == 7
    assert len(log[log.arm == 2]) == int((log.arm == 2).sum())
    np.testing.assert_array_equal(log[np.array([3, 1])].reward, log.reward[[3, 1]])
    assert log[[2, -1]].reward.tolist() == log.reward[[2, -1]].tolist()
    assert len(log[[]]) == 0
    assert len(log[-3:]) == 3


def test_a_row_is_a_dict_and_iteration_ends() -> None:
    *_, log = played()
    make: Any = od.Log  # which takes lists, too
    named = make(
        arm=[1, 0],
        reward=[1, np.nan],
        time=["2026-03-01T12:00:00Z"] * 2,
        context=[{"age": 3}, None],
    )
    rows = list(zip(log, range(len(log) + 5), strict=False))
    assert len(rows) == len(list(log)) == 30
    for i, (row, _) in enumerate(rows):
        assert list(row) == list(log.columns())
        assert (row["arm"], row["reward"], row["step"]) == (
            log.arm[i],
            log.reward[i],
            i + 1,
        )
        np.testing.assert_array_equal(
            row["propensities"], np.asarray(log.propensities)[i]
        )
    assert log[-1]["step"] == log[29]["step"] == log[np.int64(29)]["step"] == 30
    assert type(log[3]["arm"]) is int
    assert [row["context"] for row in named] == [{"age": 3}, None]
    assert named[0]["time"].isoformat() == "2026-03-01T12:00:00"
    assert list(named[:0]) == []


@pytest.mark.parametrize("row", [30, -31, [0, 30]])
def test_rows_that_are_not_there_are_named(row: Any) -> None:
    *_, log = played()
    with pytest.raises(
        IndexError, match=r"row must be in \[-30, 30\), because the log has 30 rows"
    ):
        log[row]
    assert issubclass(od.errors.NoSuchRow, od.InvalidInput)


@pytest.mark.parametrize("rows", ["reward", 1.5, [True, False], [[1, 2]]])
def test_what_is_no_row_is_refused(rows: Any) -> None:
    *_, log = played()
    with pytest.raises(
        od.InvalidInput,
        match=r"rows must be a number, a slice, .* \(columns are attributes",
    ):
        log[rows]
    again = od.Log.concatenated([log[:10], log[10:]])
    np.testing.assert_array_equal(again.propensities, log.propensities)
    assert len(again.context) == 30


def test_rewards_that_have_not_arrived() -> None:
    columns: Any = {
        "arm": [0, 1, 0],
        "reward": [1, np.nan, 0],
        "propensity": [0.5, 0.5, 0.5],
    }
    log = od.Log(**columns)
    np.testing.assert_array_equal(log.rewarded().reward, [1, 0])


def test_a_log_may_be_empty() -> None:
    columns: Any = {"arm": [], "reward": []}
    assert len(od.Log(**columns)) == 0


ODDS = [[0.5, 0.5], [0.9, 0.1]]
WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "reward too large": (
        {"reward": [0, 2]},
        r"column reward, row 1: must be in \[0, 1\], or NaN; got 2",
    ),
    "negative arm": ({"arm": [-1, 0]}, "column arm, row 0: must be 0 or more"),
    "arm of another world": (
        {"arm": [0, 7]},
        "column arm, row 1: must be below the 2 arms",
    ),
    "odds that do not sum": (
        {"propensities": [[0.5, 0.5], [0.5, 0.4]]},
        "column propensities, row 1: must sum to 1",
    ),
    "negative odds": (
        {"propensities": [[1.5, -0.5], [0.5, 0.5]]},
        "column propensities, row 0: must not be negative",
    ),
    "an impossible arm": (
        {"arm": [0, 0], "propensities": [[0, 1], [1, 0]]},
        "column propensities, row 0: must be at least 1e-12",
    ),
    "zero propensity": (
        {"propensity": [0, 0.5], "propensities": None},
        r"column propensity, row 0: must be in \[1e-12, 1\]",
    ),
    "another propensity": (
        {"propensity": [0.5, 0.9]},
        "column propensity, row 1: must be the drawn arm's",
    ),
    "drawn but not eligible": (
        {"eligible": [[False, True], [True, True]]},
        "column eligible, row 0",
    ),
    "odds where not eligible": (
        {"eligible": [[True, False], [True, True]]},
        "column propensities, row 0: must be 0",
    ),
    "lengths": ({"step": [1, 2, 3]}, "column step: must have 2 rows like arm; got 3"),
    "words": (
        {"reward": ["yes", "no"]},
        "column reward, row 0: must be a number; got 'yes'",
    ),
    "halves": ({"arm": [0.5, 1]}, "column arm, row 0: must be a whole number; got 0.5"),
    "axes": ({"propensities": [0.5, 0.5]}, "column propensities: must have 2 axes"),
}


@pytest.mark.parametrize("name", WRONG)
def test_violations_name_column_row_and_rule(name: str) -> None:
    changed, message = WRONG[name]
    columns: Any = {"arm": [0, 1], "reward": [1, 0], "propensities": ODDS} | changed
    with pytest.raises(od.InvalidInput, match=message):
        od.Log(**columns)
