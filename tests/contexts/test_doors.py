"""The matrix of doors: every form of context, complete or not, at every policy and bank
that reads contexts.

Each cell decides, all at once and one by one, learns from what it decided, and goes
through JSON; or refuses in one sentence, which names the column, and goes on with the
next context as if nothing had been.
"""

import re
import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import oddsmith as od
from contexts.doors import (
    ARMS,
    ARRAY_DOORS,
    ARRAY_FORMS,
    CONDITIONS,
    DOORS,
    FORMS,
    NAMES,
    NUMBERS,
    REFUSED,
    REWARDS,
    ROWS,
    SCHEMA,
    Middle,
    frame,
    weighed,
)
from oddsmith.core.policy import fold
from oddsmith.evaluation import cross_fit, policy_target
from oddsmith.evaluation.replay import replay
from oddsmith.logs.advice import decisions_for
from oddsmith.logs.table import Log


def agent_of(make: Callable[[], Any]) -> od.Agent:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", od.errors.NoExploration)  # for some of them
        return od.Agent(make(), seed=3, arms=ARMS)


@cache
def contexts_of(form: str, condition: str) -> Any:
    return FORMS[form](CONDITIONS[condition])


def sentence(error: od.OddsmithError, words: str) -> None:
    text = str(error)
    assert "\n" not in text
    assert len(text) < 300
    assert re.search(words, text), text


def check_cell(
    make: Callable[[], Any],
    contexts: Any,
    singles: Any,
    refusal: str | None,
    alike: bool = True,
) -> None:
    """A batch decides like its contexts one by one and is learnt, through JSON; or it
    is refused in a sentence."""
    agent, twin = agent_of(make), agent_of(make)
    if refusal is not None:
        for ask in (agent.decide_batch, lambda contexts: agent.best(singles[1])):
            with pytest.raises(od.OddsmithError) as told:
                ask(contexts)
            sentence(told.value, refusal)
        return
    decision = agent.decide_batch(contexts)
    one_by_one = od.Decision.stack([twin.decide(context) for context in singles])
    if alike:
        assert np.abs(decision.propensities - one_by_one.propensities).max() < 1e-12
        assert (decision.arm == one_by_one.arm).all()
    told_again = od.Decision.from_json(decision.to_json())
    assert told_again == decision
    agent.learn(told_again, REWARDS)
    twin.learn(one_by_one, REWARDS)
    assert agent.best(singles[0]) == twin.best(singles[0]) or not alike


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("door", DOORS)
def test_contexts_with_names(door: str, form: str) -> None:
    refused = REFUSED[DOORS[door].reads]
    for condition in DOORS[door].conditions:
        rows = CONDITIONS[condition]
        if form in ("polars", "pyarrow") and condition == "text for a number":
            continue  # their columns have one type: this is text throughout
        contexts, sleeps = (
            contexts_of(form, condition),
            door == "guarded" and condition in REFUSED["schema"],
        )
        singles = contexts if isinstance(contexts, list) else rows
        check_cell(
            DOORS[door].make,
            contexts,
            singles,
            refused.get(condition),
            alike=not sleeps,
        )


@pytest.mark.parametrize("form", ARRAY_FORMS)
@pytest.mark.parametrize("door", ARRAY_DOORS)
def test_contexts_of_numbers(door: str, form: str) -> None:
    make, takes_nan = ARRAY_DOORS[door]
    gap = [
        [*row[:1], None, *row[2:]] if i == 1 else row for i, row in enumerate(NUMBERS)
    ]
    # which read names, not places
    named = form in ("pandas", "polars") and door in ("auto", "refitted")
    check_cell(make, *_both(form, NUMBERS, named), None)
    check_cell(
        make,
        *_both(form, gap, named),
        None if takes_nan else "column 1 contains others: .*Schema",
    )
    if door in ("functions of arrays", "auto", "refitted", "models"):
        return
    for width, rows in (
        (2, [row[:2] for row in NUMBERS]),
        (4, [[*row, 1.0] for row in NUMBERS]),
    ):
        if width < 4 or form not in ("pandas", "polars"):
            check_cell(
                make, *_both(form, rows, named), rf"shape \(…, 3\); got \(.*{width},?\)"
            )


def _both(form: str, rows: Any, named: bool) -> tuple[Any, Any]:
    contexts = ARRAY_FORMS[form](rows)
    if named:
        return contexts, [dict(zip(NAMES, row, strict=True)) for row in rows]
    return contexts, list(np.array(rows, dtype=np.float64))


def test_one_form_after_another() -> None:
    """Nothing is a dead end for learners; policies with weights of their own say what
    to do."""
    agent = od.Agent(od.auto(ARMS), seed=1)
    agent.learn(agent.decide([1.0, 2.0]), 1)
    for other in ({"age": 3}, frame(ROWS).iloc[0], [1.0, 2.0, 3.0], [1.0]):
        agent.learn(agent.decide(other), 1)
        assert np.isfinite(agent.explain(other).propensities).all()
    doors: list[Any] = [
        od.LinUCB(2, 2),
        od.policies.ParticleThompsonSampling(od.policies.LogisticFamily(), 2),
    ]
    for door in doors:
        with pytest.raises(
            od.InvalidInput, match=r"got a dict: give the policy a schema=Schema"
        ):
            door.odds(door.init(), {"age": 3})


@pytest.mark.parametrize("form", FORMS)
def test_a_row_for_each_arm(form: str) -> None:
    """Shared beliefs read a table of two arms, a batch is a list of such tables."""
    offers = [
        contexts_of(form, "complete")[:2]
        if form != "pyarrow"
        else contexts_of(form, "complete").slice(0, 2)
    ] * 4
    for make in (
        lambda: od.LinUCB(schema=SCHEMA),
        lambda: od.LinearThompsonSampling(schema=SCHEMA, directions=64),
        lambda: od.policies.ParticleThompsonSampling(
            od.policies.LogisticFamily(), schema=SCHEMA, n_particles=64
        ),
        lambda: od.auto(ARMS, schema=SCHEMA, rows_per_arm=True, size="small"),
    ):
        check_cell(make, offers, offers, None)


def test_predictions_and_places_as_contexts() -> None:
    """Banks whose context is no description: tables of predictions, numbers of rows."""
    said = np.array([[0.2, 0.6], [0.7, 0.1]])
    given = od.GivenExperts(["old", "new"])
    for context in (
        said,
        said.tolist(),
        pd.DataFrame(said),
        pd.DataFrame(said, columns=ARMS),
        pl.DataFrame(said),
    ):
        check_cell(lambda: weighed(given), [context] * 4, [context] * 4, None)
    gap = [[0.2, None], [0.7, 0.1]]
    check_cell(lambda: weighed(given), [gap] * 4, [gap] * 4, None)
    check_cell(
        lambda: weighed(given),
        [{"old": 0.2}] * 4,
        [{"old": 0.2}] * 4,
        "got a dict: pass a row of numbers for each",
    )
    table = od.TableExperts(np.stack([said, said[::-1]]))
    for places in (
        [0, 1, 1, 0],
        np.array([0, 1, 1, 0]),
        pd.Series([0, 1, 1, 0]),
        pl.Series([0, 1, 1, 0]),
    ):
        check_cell(lambda: weighed(table), places, [0, 1, 1, 0], None)
    for wrong in (frame(ROWS), ROWS, [0, 1, 2, 9]):
        check_cell(
            lambda: weighed(table),
            wrong,
            [{}, 7],
            r"context must be an index in 0 … 1; got",
        )


@pytest.mark.parametrize("form", FORMS)
def test_logs_of_every_form_are_evaluated_replayed_and_folded(form: str) -> None:
    contexts = contexts_of(form, "None")
    arm, odds = np.array([0, 1, 0, 1]), np.full((4, 2), 0.5)
    log = Log(
        arm=arm,
        reward=np.array(REWARDS),
        context=contexts,
        propensities=odds,
        arms=ARMS,
    )
    joined = Log.concatenated([log[:2], log[np.array([False, False, True, True])]])
    for door in ("functions", "auto, schema", "linear thompson", "encoded lines"):
        policy = DOORS[door].make()
        odds = policy_target(log, policy)
        np.testing.assert_array_equal(odds, policy_target(joined, policy))
        np.testing.assert_allclose(
            odds,
            policy.odds(policy.init(), CONDITIONS["None"]).propensities,
            atol=1e-12,
        )
        replayed = replay(policy, log, seed=1)
        assert 1 <= len(replayed.rows) <= 4
    by_hand = fold(
        policy, policy.init(), decisions_for(policy, policy.init(), log), REWARDS
    )
    assert by_hand.learnt == 4
    assert cross_fit(log, Middle2(), folds=2).shape == (4, 2)


class Middle2(Middle):
    """A regressor that scikit-learn can clone."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        return {}
