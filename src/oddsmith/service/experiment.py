"""Experiment: a policy at work on its store: decides, takes rewards, answers questions, keeps house."""

import asyncio
import logging
import secrets
from collections.abc import Sequence
from typing import Any

import numpy as np

from oddsmith.arrays import Bools
from oddsmith.contexts import check_json
from oddsmith.decision import Decision, Odds, Policy, draw
from oddsmith.errors import InvalidInput, NoEligibleArm, OddsmithError, StoreFailed
from oddsmith.experts.base import Experts
from oddsmith.experts.guarded import Guarded
from oddsmith.policies.base import complete
from oddsmith.service.asking import Panel
from oddsmith.service.clock import Clock
from oddsmith.service.learner import Learner
from oddsmith.service.messages import Decided, DecideEntry
from oddsmith.service.opening import Opened
from oddsmith.service.windows import Windows
from oddsmith.service.writer import Writer
from oddsmith.spelling import hint
from oddsmith.storage.accounts import Account
from oddsmith.storage.base import Erased, Receipt
from oddsmith.storage.events import DecisionMade, Event
from oddsmith.storage.rows import AnotherValue
from oddsmith.uniforms import Uniforms
from oddsmith.weights import posterior

__all__ = ["EVERYTHING", "Experiment"]

_HOUR = 3600.0
EVERYTHING = 2**62  # beyond any position
_log = logging.getLogger(__name__)


class Experiment:
    """One experiment, made inside a running event loop; `begin` before and `end` after use."""

    def __init__(self, opened: Opened, clock: Clock) -> None:
        self.name, self.arms = opened.file.name, opened.file.arms
        self.settings, self.scale = opened.settings, opened.scale
        self.store, self.clock, self.opened = opened.store, clock, opened
        every = opened.settings.snapshot_every
        self.learner = Learner(opened.store, opened.policy, opened.change, clock, every, opened.seat)
        self.writer = Writer(opened.store, self.learner.wake)
        self.panel = Panel()
        self.changing = asyncio.Lock()
        self.decided: dict[str, int] = {}
        self._uniform = Uniforms(opened.seed)
        self._numbers = {arm: number for number, arm in enumerate(self.arms)}
        self._steps = 0
        self._mark = secrets.token_hex(5)  # of this process: ids are new, and sorted by time
        self._tasks: list[asyncio.Task[None]] = []
        self._warned: set[str] = set()

    async def begin(self) -> None:
        """Restore the state, then follow the log."""
        await self.learner.begin()
        self._steps = await asyncio.to_thread(lambda: self.store.tally().get("decision", 0))
        poll = 0.05 if self.settings.shared else 0.25  # early rewards count once their decision is looked at
        self._tasks.append(asyncio.create_task(self.learner.run(poll)))
        if self.settings.window is not None:
            close = self.settings.window, self.settings.default
            windows = Windows(self.store, self.writer, self.clock, *close, beyond=self.beyond)
            self._tasks.append(asyncio.create_task(windows.run()))
        if self.settings.erase_after_days is not None:
            self._tasks.append(asyncio.create_task(self._erase(self.settings.erase_after_days * 24 * _HOUR)))

    async def end(self) -> None:
        """Stop following, keep a snapshot, let go of the store."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        try:
            if not self.learner.trouble:
                await self.learner.save()
        except StoreFailed as error:  # a restart then folds from an older one
            _log.warning("experiment %s keeps no snapshot: %s", self.name, error)
        finally:
            self.panel.close()
            await asyncio.to_thread(self.store.close)

    async def decide(self, asked: DecideEntry) -> Decided:
        """One decision, on disk."""
        self._check_unit(asked)
        while True:
            if self.settings.sticky:
                kept = await self._kept_for(asked)
                if isinstance(kept, Decided):
                    return kept
                asked.id = kept
            event, more = await self._made(asked)
            (receipt,) = await self.writer.append([event])
            answer = await self._answer(event, receipt, more)
            if not self.settings.sticky or asked.eligible is None or answer.arm in asked.eligible:
                return answer  # else somebody was faster, for the same unit and with other arms

    async def decide_all(self, batch: Sequence[DecideEntry]) -> list[Decided | Exception]:
        """Many decisions with one commit; each is answered, or refused, for itself."""
        if self.settings.sticky:
            return await asyncio.gather(*(self.decide(asked) for asked in batch), return_exceptions=True)  # type: ignore[return-value]
        made: list[Any] = []
        for asked in batch:
            try:
                self._check_unit(asked)
                made.append(await self._made(asked))
            except Exception as error:
                made.append(error)
        events = [one[0] for one in made if not isinstance(one, Exception)]
        receipts = iter(await self.writer.append(events) if events else ())
        return [
            one if isinstance(one, Exception) else await self._answer(one[0], next(receipts), one[1]) for one in made
        ]

    async def append(self, event: Event) -> Receipt:
        """The receipt of an event that is on disk; one that is refused raises."""
        (receipt,) = await self.writer.append([event])
        if receipt.refused is not None:
            raise self.in_units(receipt.refused)
        return receipt

    def in_units(self, refused: OddsmithError) -> OddsmithError:
        """What a store refuses, in the units that rewards are sent in."""
        return refused.in_units(self.scale) if isinstance(refused, AnotherValue) else refused

    async def stored(self, id: str) -> Decided | None:
        """The answer that was given for this id, or None."""
        found = await asyncio.to_thread(self._find, id)
        if found is None:
            return None
        position, seen, decision = found
        return self._decided(id, decision, position, seen, new=False)

    async def beyond(self, ids: Sequence[str]) -> set[str]:
        """The decisions not yet learnt from that never can be: experts that learn need contexts, which were erased."""
        return await asyncio.to_thread(self._beyond, ids) if self.learner.now.policy.moves else set()

    def weights(self) -> dict[str, float]:
        """Each expert's weight; empty for policies without experts."""
        now = self.learner.now
        if now.experts is None:
            return {}
        return dict(zip(now.experts.names, posterior(now.state.log_weights).tolist(), strict=True))

    async def _made(self, asked: DecideEntry) -> tuple[DecisionMade, dict[str, Any]]:
        """A decision that is not yet on disk, and what its answer says beside."""
        check_json(asked.context)
        eligible = self._mask(asked.eligible)
        self._steps += 1
        id = asked.id or f"{int(self.clock() * 1000):011x}{self._mark}{self._steps & 0xFFFF:04x}"
        step, uniform = self._steps, self._uniform(id)
        more: dict[str, Any] = {}
        now = self.learner.now
        if now.policy.moves:
            async with self.learner.learning:
                now = self.learner.now
                odds, votes = await self.panel.odds(now, asked.context, eligible, step)
        else:
            odds, votes = await self.panel.odds(now, asked.context, eligible, step)
        if odds.propensities.shape != (len(self.arms),):
            raise InvalidInput(f"context must be a single one; the experts read {odds.propensities.shape[:-1]} of them")
        decision = draw(odds, asked.context, uniform, eligible=eligible, step=step)
        if asked.incumbent is not None or asked.incumbent_odds is not None or self.settings.shadow:
            more["would"] = self.arms[decision.arm]
            decision = self._incumbents(asked, decision, odds, now.policy)
        number = decision.arm
        decision = decision._replace(arm=self.arms[number], index=number)
        if decision.log_weights is not None and now.experts is not None and decision.advice is not None:
            heard = zip(now.experts.names, decision.advice, strict=True)
            more["asleep"] = [name for name, said in heard if said != said]
            self._warn(now.experts, more["asleep"])
        shadow = "would" in more
        return DecisionMade(id, decision, now.position, self.clock(), asked.deferred, votes, shadow), more

    def _warn(self, experts: Experts, asleep: list[str]) -> None:
        """One line in the log for each expert that fails, the first time."""
        if isinstance(experts, Guarded) and not self._warned.issuperset(asleep):
            for name, reason in experts.reasons().items():
                if name in asleep and name not in self._warned:
                    _log.warning("experiment %s: expert %s sleeps: %r", self.name, name, reason[:200])
            self._warned.update(asleep)

    async def _answer(self, event: DecisionMade, receipt: Receipt, more: dict[str, Any]) -> Decided:
        if not receipt.new:  # somebody has asked this before: that answer stands
            first = await self.stored(event.id)
            if first is None:
                raise InvalidInput(f"id must be that of a decision; got {event.id!r}")
            return first
        arm = event.decision.arm
        self.decided[arm] = self.decided.get(arm, 0) + 1
        return self._decided(event.id, event.decision, receipt.position, event.seen, new=True, more=more)

    def _decided(
        self, id: str, decision: Decision, position: int, seen: int, *, new: bool, more: dict[str, Any] | None = None
    ) -> Decided:
        odds = dict(zip(self.arms, decision.propensities.tolist(), strict=True))
        return Decided(
            id=id,
            experiment=self.name,
            arm=decision.arm,
            propensity=odds[decision.arm],
            odds=odds,
            step=decision.step,
            position=position,
            seen=seen,
            new=new,
            **(more or {}),
        )

    def _find(self, id: str) -> tuple[int, int, Decision] | None:
        lines = self.store.history([id], EVERYTHING)
        made = next((line for line in lines if line.kind == "decision"), None)
        if made is None:
            return None
        return made.position, made.seen or 0, self.store.decisions([made.position])[0]

    def _check_unit(self, asked: DecideEntry) -> None:
        """Refuses a unit where nothing is kept for it, and its lack, or another id, where something is."""
        if asked.unit is not None and not self.settings.sticky:
            raise InvalidInput(f"unit must be left out, for experiment {self.name!r} is not sticky; got {asked.unit!r}")
        if asked.unit is None and self.settings.sticky:
            raise InvalidInput(f"unit must be given, for experiment {self.name!r} is sticky; got none")
        if asked.id is not None and self.settings.sticky:
            raise InvalidInput(f"id must be left out, for a unit's decision has its own; got {asked.id!r}")

    def _beyond(self, ids: Sequence[str]) -> set[str]:
        accounts = {id: Account(self.store.rule) for id in ids}
        for line in self.store.history(list(accounts), EVERYTHING):
            accounts[line.id].take(line)
        open_ones = {id: account.made for id, account in accounts.items() if account.made and not account.settled}
        found = zip(open_ones, self.store.decisions(list(open_ones.values())), strict=True)
        return {id for id, decision in found if isinstance(decision.context, Erased)}

    async def _kept_for(self, asked: DecideEntry) -> Decided | str:
        """The decision a unit has, if its arm is eligible here; else the id that its next one gets."""
        allowed = None if asked.eligible is None else set(asked.eligible)
        for turn in range(1, len(self.arms) + 2):
            id = f"~{asked.unit}" if turn == 1 else f"~{asked.unit}~{turn}"
            kept = await self.stored(id)
            if kept is None:
                return id
            if allowed is None or kept.arm in allowed:
                return kept
        raise NoEligibleArm(
            f"unit {asked.unit!r} has had a decision for every arm; none of {asked.eligible} is among them"
        )

    def _mask(self, eligible: list[str] | None) -> Bools | None:
        if eligible is None:
            return None
        mask = np.zeros(len(self.arms), dtype=np.bool_)
        for arm in eligible:
            mask[self._number("eligible", arm)] = True
        return mask

    def _number(self, what: str, arm: str) -> int:
        number = self._numbers.get(arm)
        if number is None:
            meant = hint(arm, self.arms)
            raise InvalidInput(f"{what} must be among the arms {list(self.arms)[:8]}; got {arm!r:.60}{meant}")
        return number

    def _incumbents(self, asked: DecideEntry, decision: Decision, ours: Odds, policy: Policy) -> Decision:
        """The decision of whoever acts while we watch: its arm, with its odds."""
        if asked.incumbent is None:
            raise InvalidInput("incumbent must be given with incumbent_odds, and in shadow mode always; got none")
        arm = self._number("incumbent", asked.incumbent)
        if decision.eligible is not None and not decision.eligible[arm]:
            raise InvalidInput(f"incumbent must be an eligible arm; got {asked.incumbent!r}")
        odds = np.zeros(len(self.arms))
        for name, share in (asked.incumbent_odds or {asked.incumbent: 1.0}).items():
            odds[self._number("incumbent_odds", name)] = share
        if abs(odds.sum() - 1) > 1e-9 or odds[arm] <= 0:
            raise InvalidInput(f"incumbent_odds must sum to 1, with some for {asked.incumbent!r}; got {odds.sum():.6g}")
        column = None if ours.advice is None else ours.advice[:, arm].astype(np.float64)
        bonus = complete(policy, ours._replace(propensities=odds)).bonus
        return decision._replace(arm=arm, propensities=odds, advice=column, bonus=bonus)

    async def _erase(self, age: float) -> None:
        """Every hour, erase contexts that are older."""
        while True:
            try:
                if self.learner.now.policy.moves:
                    await self.learner.save()  # what learns from contexts must not need them again
                    if self.learner.trouble or self.learner.torn:
                        raise StoreFailed(f"they are still to be learnt from; {self.learner.trouble}")
                await asyncio.to_thread(self.store.erase, self.clock() - age)
            except StoreFailed as error:  # again in an hour
                _log.warning("experiment %s could not erase contexts: %s", self.name, error)
            await asyncio.sleep(_HOUR)
