"""Runs of folds: stores whose events are early, late, corrected, deferred and summed,
with experts that come and go."""

from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import oddsmith as od
from oddsmith.server.fold.fold import advance, restore, roster_change, save_snapshot
from oddsmith.server.store import (
    Activation,
    Correction,
    DecisionMade,
    DefaultReward,
    Event,
    ExpertChange,
    Reward,
    SQLiteStore,
)
from oddsmith.server.store.protocol import Rule
from recorded.settings import ARMS, gts, people, sleepy
from recorded.trace import Trace
from server.store.samples import append

__all__ = ["FOLDS"]

Log = Sequence[Sequence[Event | str]]
# a text is a decision made with the state as it is then; one that begins with
# "deferred" is deferred
LOG: Log = (
    (Reward("early", 1.0, 0.0), "d1", "d2", "early", "d3", "never", "late"),
    (
        "deferred",
        Reward("deferred", 1.0, 1.0),
        Reward("d2", 0.3, 1.0),
        "deferred never shown",
    ),
    (
        DefaultReward("d1", 0.0, 2.0),
        DefaultReward("d3", 0.25, 2.0),
        Activation("deferred", 2.0),
    ),
    (
        DefaultReward("d2", 0.0, 2.0),
        DefaultReward("early", 0.0, 2.0),
        DefaultReward("deferred", 0.0, 3.0),
    ),
    (
        Reward("d1", 1.0, 3.0),
        Correction("d2", 0.8, 3.0, "one"),
        Correction("d2", 0.7, 3.0, "two"),
    ),
    (
        "d4",
        "d5",
        Reward("d5", 0.6, 4.0),
        Reward("d4", 0.1, 4.0),
        DefaultReward("d4", 0.0, 4.0),
    ),
    (
        Reward("late", 0.9, 9.0),
        DefaultReward("late", 0.0, 9.0),
        Correction("early", 0.0, 9.0, "one"),
    ),
)
PARTS: Log = (
    (
        "d1",
        "d2",
        Reward("d1", 0.1, 0.0, "x"),
        Reward("d1", 0.2, 0.0, "y"),
        Reward("d2", 0.7, 0.0, "x"),
    ),
    (
        DefaultReward("d1", 0.0, 1.0),
        "d3",
        Reward("d2", 0.6, 1.0, "y"),
        DefaultReward("d3", 0.4, 1.0),
    ),
    (
        DefaultReward("d2", 0.0, 1.0),
        Reward("d1", 0.3, 2.0, "z"),
        Correction("d2", 0.5, 2.0, "one"),
    ),
)
ROSTER: Log = (
    *LOG[:2],
    (ExpertChange("e", "added", 3.0, "k1", 0.2), "d6", Reward("d6", 1.0, 3.0)),
    *LOG[2:4],
    (ExpertChange("b", "retired", 4.0, "k2"), "d7", Reward("d7", 0.0, 4.0), "d8"),
    (ExpertChange("b", "added", 5.0, "k3", 0.3), Reward("d8", 0.5, 5.0)),
    *LOG[4:],
)


def fold(
    make: Callable[[], Any],
    contexts: Sequence[Any],
    log: Log,
    *,
    rule: Rule = "first",
    bench: Any = None,
) -> Callable[[Trace], None]:
    """A run over a store: the live state after each group of events, then from the
    beginning, and half way."""

    def run(trace: Trace) -> None:
        policy, change, left = make(), roster_change(bench), iter(contexts)
        rules: Any = {"rule": rule, "late": "rewrites"}
        with (
            TemporaryDirectory() as folder,
            SQLiteStore(Path(folder) / "events.sqlite", policy, **rules) as store,
        ):
            store.secret = bytes(range(16))  # every store has one of its own
            live = restore(store, policy, change=change)
            for number, group in enumerate(log):
                for event in group:
                    live = advance(store, policy, live, change=change)
                    append(
                        store,
                        _made(trace, event, live, next(left))
                        if isinstance(event, str)
                        else event,
                    )
                live = advance(store, policy, live, change=change)
                trace.note(f"{number} state", live.state)
                if number == 1:
                    save_snapshot(store, live, 0.0)
            trace.note("restored", restore(store, policy, change=change).state)
            trace.note(
                "half way",
                restore(store, policy, until=store.head() // 2, change=change).state,
            )
            trace.note("posterior", live.policy.posterior(live.state))

    return run


def _made(trace: Trace, id: str, live: Any, context: Any) -> DecisionMade:
    uniform = float(np.random.default_rng([31, *id.encode()]).random())
    decision = od.decide(
        live.policy, live.state, context, uniform, step=live.position + 1
    )
    trace.note(f"{id} arm", decision.arm)
    trace.note(f"{id} odds", decision.propensities)
    return DecisionMade(id, decision, live.position, 0.0, id.startswith("deferred"))


def linear(*names: str) -> od.LinearExperts:
    """Experts with weights of their own, by name."""
    weights = [
        np.random.default_rng([32, *name.encode()]).normal(size=(3, 2))
        for name in names
    ]
    return od.LinearExperts(np.array(weights), "logistic", names, ARMS)


def roster(**settings: Any) -> Any:
    usual: dict[str, Any] = {"eta": 0.7, "gamma": 0.05, "prior": [0.5, 0.3, 0.2]}
    usual |= {"optimism": 0.0, "share": 0.0, "discount": 1.0}
    return od.GeneralizedThompsonSampling(
        linear("a", "b", "c"), od.square_loss, **usual | settings
    )


VECTORS = list(np.random.default_rng(33).normal(size=(20, 2)))
BENCH = {"e": linear("e")}
AUTO: dict[str, Any] = {
    "schema": None,
    "gamma": 0.005,
    "share": 0.0,
    "rows_per_arm": False,
}
FOLDS: dict[str, Callable[[Trace], None]] = {
    "sleepers": fold(gts, sleepy(20), LOG),
    "order matters": fold(lambda: gts(share=0.05), sleepy(20), LOG),
    "discount": fold(lambda: gts(od.square_loss, discount=0.9), sleepy(20), LOG),
    "feel-good": fold(lambda: gts(eta=0.25, optimism=0.3), sleepy(20), LOG),
    "sums": fold(lambda: gts(share=0.05), sleepy(20), PARTS, rule="sum"),
    "sums of ones": fold(gts, sleepy(20), LOG, rule="sum"),
    "bounded": fold(lambda: od.Bounded(gts(), floors=0.05, caps=0.8), sleepy(20), LOG),
    "windowed": fold(lambda: od.Windowed(gts(), window=3), sleepy(20), LOG),
    "roster": fold(roster, VECTORS, ROSTER, bench=BENCH),
    "roster, order matters": fold(
        lambda: roster(share=0.02), VECTORS, ROSTER, bench=BENCH
    ),
    "roster, feel-good": fold(
        lambda: roster(optimism=0.2), VECTORS, ROSTER, bench=BENCH
    ),
    "roster, bounded": fold(
        lambda: od.Bounded(roster(), floors=0.05, caps=0.9),
        VECTORS,
        ROSTER,
        bench=BENCH,
    ),
    "learners": fold(lambda: od.auto(ARMS, size="small", **AUTO), people(20), LOG[:5]),
}
