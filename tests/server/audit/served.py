"""A service in miniature, honest in all that proofs look at: real policy, real draws,
real store, lagging states."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

import oddsmith as od
from oddsmith.core.draw import draw
from oddsmith.experts.answers import RecordedAdvice
from oddsmith.server.fold.fold import FoldState, advance, restore, roster_change
from oddsmith.server.fold.judge import gts_inside, judge, judge_to_json
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
from oddsmith.server.store.events import OwnDraw
from oddsmith.server.store.protocol import Late, Rule

ARMS = ("sports", "politics", "tech")
SEED = 41
BEGAN = 1_750_000_000.0
WEIGHTS = np.random.default_rng(0).normal(size=(4, 3, 2))


class Moody(od.Experts):
    """Linear experts of two numbers; the third one has no opinion where the first
    number is negative."""

    names = ("a", "b", "c")
    arms = ARMS

    def predict(self, state: Any, context: Any) -> Any:
        numbers = np.asarray(context, dtype=np.float64)
        predictions = 1 / (1 + np.exp(-(WEIGHTS[:3] @ numbers)))
        if numbers[0] < 0:
            predictions[2] = np.nan
        return predictions


def newcomer() -> od.Experts:
    return od.experts.Clipped(od.LinearExperts(WEIGHTS[3:], "logistic", ["late"], ARMS))


def policy(**settings: Any) -> Any:
    chosen: dict[str, Any] = {"gamma": 0.1, "prior": [0.5, 0.3, 0.2]} | settings
    return od.GeneralizedThompsonSampling(od.Guarded(Moody()), **chosen)


class Served:
    """An experiment at work. Its state follows the log only when `follow` is called, as
    a busy service's does."""

    def __init__(
        self,
        path: Path,
        policy: Any,
        *,
        rule: Rule = "first",
        late: Late = "arrives",
        bench: Mapping[str, od.Experts] | None = None,
        **about: Any,
    ) -> None:
        self.first, self.change = policy, roster_change(bench or {})
        said = {
            "experiment": "news",
            "seed": SEED,
            "arms": list(ARMS),
            "judge": judge_to_json(policy),
            "reward": [0.0, 1.0],
        }
        self.store = SQLiteStore(path, policy, rule=rule, late=late, about=said | about)
        self.folded: FoldState = restore(self.store, policy, change=self.change)
        self.steps, self.time = 0, BEGAN

    def follow(self) -> None:
        self.folded = advance(self.store, self.first, self.folded, change=self.change)

    def decide(
        self,
        id: str,
        context: Any,
        *,
        eligible: Sequence[bool] | None = None,
        deferred: bool = False,
        incumbent: int | None = None,
        place: tuple[str, int] | None = None,
    ) -> od.Decision:
        mask = None if eligible is None else np.array(eligible)
        self.steps += 1
        policy, state, position = (
            self.folded.policy,
            self.folded.state,
            self.folded.position,
        )
        inner, votes = gts_inside(policy), None
        if inner is None:
            odds = policy.odds(state, context, eligible=mask, step=self.steps)
        else:
            answer = RecordedAdvice(*inner.experts.advise(state.experts, context, mask))
            weigher: Any = judge(policy)
            odds = weigher.odds(state, answer, eligible=mask, step=self.steps)
            _, votes = policy.cast(answer, eligible=mask)
        decision = draw(
            odds, context, od.Uniforms(SEED)(id), eligible=mask, step=self.steps
        )
        own = (
            None if incumbent is None else OwnDraw(int(decision.arm), odds.propensities)
        )
        if incumbent is not None:
            advice = None if odds.advice is None else odds.advice[:, incumbent].copy()
            decision = decision._replace(
                arm=incumbent, propensities=np.eye(3)[incumbent], advice=advice
            )
        decision = decision._replace(arm=ARMS[decision.arm], index=decision.arm)
        facts: Any = {"own": own} | dict(
            zip(("slate", "slot"), place or (), strict=False)
        )
        made = DecisionMade(
            id,
            decision,
            position,
            self.tick(),
            deferred,
            votes,
            incumbent is not None,
            **facts,
        )
        self.append(made)
        return decision

    def reward(self, id: str, value: float, key: str = "") -> None:
        self.append(Reward(id, value, self.tick(), key))

    def default(self, id: str, value: float = 0.0) -> None:
        self.append(DefaultReward(id, value, self.tick()))

    def correct(self, id: str, value: float, key: str) -> None:
        self.append(Correction(id, value, self.tick(), key))

    def activate(self, id: str) -> None:
        self.append(Activation(id, self.tick()))

    def change_expert(
        self, expert: str, change: Any, share: float | None = None
    ) -> None:
        self.append(
            ExpertChange(
                expert, change, self.tick(), f"{expert} {change} {self.steps}", share
            )
        )

    def tick(self) -> float:
        self.time += 1.0
        return self.time

    def append(self, event: Event) -> int:
        return self.store.append([event]).result(timeout=60)[0].accepted()


def lived(
    service: Served,
    n: int,
    *,
    seed: int = 0,
    rosters: bool = True,
    shadows: bool = True,
) -> Served:
    """n decisions with late, early, missing and corrected rewards, defaults,
    activations, sleepers, masks, rosters."""
    rng = np.random.default_rng(seed)
    summed = service.store.rule == "sum"
    for i in range(n):
        id, kind = f"d{i}", int(rng.integers(10))
        value = float(rng.integers(2)) if rng.random() < 0.8 else float(rng.random())
        eligible = [True, bool(rng.integers(2)), True] if kind % 3 == 0 else None
        if rng.random() < 0.7:
            service.follow()
        if kind == 1:  # early
            service.reward(id, value, "p" if summed else "")
        incumbent = int(rng.integers(2)) * 2 if shadows and kind == 2 else None
        service.decide(
            id,
            rng.normal(size=2).tolist(),
            eligible=eligible,
            deferred=kind == 3,
            incumbent=incumbent,
        )
        if kind == 3 and rng.random() < 0.7:
            service.activate(id)
        if kind in (4, 5):
            service.default(id)
        if kind in (0, 2, 3, 5, 6, 7):  # of 5, a reward after its default
            late = f"d{max(0, i - int(rng.integers(5)))}" if kind == 7 else id
            _reward(service, late, value, "q" if summed else "")
        if service.store.rule != "first" and kind != 4:
            service.default(id) if kind != 5 else None
        if kind == 8 and i > 10:
            _correct(service, f"d{int(rng.integers(i))}", value, f"c{i}")
        if rosters and i == n // 3:
            service.change_expert("late", "added", 0.2)
        if rosters and i == n // 2:
            service.change_expert("b", "retired")
    return service


def _reward(service: Served, id: str, value: float, key: str) -> None:
    with suppress(od.InvalidInput):  # it has another one
        service.reward(id, value, key)


def _correct(service: Served, id: str, value: float, key: str) -> None:
    with suppress(od.InvalidInput):  # it has no reward
        service.correct(id, value, key)
