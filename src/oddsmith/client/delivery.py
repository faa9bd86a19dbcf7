"""How calls go out: behind what waits to be reported, and with a fallback where the
service does not answer."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

from oddsmith.agent.slate import slot_id
from oddsmith.client.answers import ServedDecision, ServedSlate, StoredEvent, one_of
from oddsmith.client.bodies import given, written
from oddsmith.client.fallback import DOWN, Fallback, FirstAnswers, is_fallback
from oddsmith.client.outbox import Kind, Outbox, Reported
from oddsmith.client.tries import Patience, Request, Steps, persist
from oddsmith.core.errors import ServiceError

__all__ = ["Sending"]

T = TypeVar("T")
A = TypeVar("A", ServedDecision, ServedSlate)

# tries after the first, about a second of pauses, where there is a fallback and
# `retries` is None
_SOON = 4


@dataclass(frozen=True)
class Sending:
    """What every call needs: the experiment, how long it is tried, and what waits to be
    reported."""

    experiment: str | None
    patience: Patience
    outbox: Outbox = field(default_factory=Outbox)
    answers: FirstAnswers = field(default_factory=FirstAnswers)

    def _heard_or(
        self,
        steps: Steps[A],
        fall_back: Callable[[], A],
        earlier: A | None,
        id: str | None,
        activation: Callable[[A], dict[str, object]] | None,
    ) -> Steps[A]:
        """Return the answer to a deferred request, and activate it; else the `earlier`
        answer for the id; else the fallback.

        A request without an answer may have been decided. That decision was not shown,
        so it must never count. Under an `id` of the caller's, an answer that is not new
        may be such a decision: it is not activated here. The call that made it has
        done so if it was shown.
        """
        end = self.patience.clock() + self.patience.timeout
        if earlier is not None and is_fallback(earlier):
            return earlier
        try:
            answer = yield from steps
        except ServiceError as error:
            if error.status not in DOWN:
                raise
            answer = fall_back() if earlier is None else earlier
            self.answers.add(id, answer)
            return answer
        self.answers.add(id, answer)
        if activation is None or (id is not None and not answer.new):
            return answer
        left = max(1e-3, end - self.patience.clock())
        yield from self.activate_now(activation(answer), left)
        return answer

    def activate_now(self, about: Mapping[str, object], timeout: float) -> Steps[None]:
        """Activate a decision that is shown now; what cannot be sent waits."""
        patience = replace(self.patience, timeout=timeout)
        try:
            yield from persist(self._request("/v1/activate", about), dict, patience)
        except ServiceError:
            id = str(about.get("id", about.get("slate")))
            self.outbox.keep("activation", id, written(about))

    def _fall_back(
        self, fallback: Fallback, fields: Mapping[str, object], id: str
    ) -> ServedDecision:
        """The decision that was made here, under a new id, to be reported."""
        report = {**fields, "id": id, "unit": None, "odds": False}
        report |= {"incumbent": fallback.arm, "incumbent_odds": fallback.odds}
        self.outbox.keep("decision", id, written(given(report)))
        return self._served(id, fallback)

    def _fall_back_slate(
        self,
        slots: Sequence[tuple[dict[str, object], Fallback]],
        fields: Mapping[str, object],
        id: str,
    ) -> ServedSlate:
        """The slate that was made here, to be reported with an incumbent in each
        slot."""
        listed = [
            slot | {"incumbent": arm, "incumbent_odds": odds}
            for slot, (arm, odds) in slots
        ]
        names = [str(slot["name"]) for slot, _ in slots]
        ids = [slot_id(id, name) for name in names]
        self.outbox.keep(
            "slate",
            id,
            written(given({**fields, "id": id, "slots": listed, "odds": False})),
            parts=ids,
        )
        named = zip(ids, names, slots, strict=True)
        served = [
            self._served(one, shown, slot=n, name=name)
            for n, (one, name, (_, shown)) in enumerate(named, 1)
        ]
        return ServedSlate(id, self.experiment or "", served, new=True)

    def _served(self, id: str, fallback: Fallback, **slot: Any) -> ServedDecision:
        arm, odds = fallback
        facts: Any = {
            "step": None,
            "position": None,
            "seen": None,
            "new": True,
            "odds": odds,
            "fallback": True,
        }
        return ServedDecision(
            id, self.experiment or "", arm, odds[arm], **facts, **slot
        )

    def _about(
        self, kind: Kind, id: str, fields: Mapping[str, object]
    ) -> Steps[StoredEvent]:
        """Send what is about a decision; where that is a fallback which is not reported
        yet, behind it."""
        route = "/v1/reward" if kind == "reward" else "/v1/activate"
        entry, steps = written(given(fields)), self._post(route, fields, StoredEvent)
        if not self.outbox.holds(id):
            return steps
        return self._behind(kind, id, entry, steps)

    def _behind(
        self, kind: Kind, id: str, entry: bytes, steps: Steps[StoredEvent]
    ) -> Steps[StoredEvent]:
        yield from self._report()
        if not self.outbox.holds(id):
            return (yield from steps)
        self.outbox.keep(kind, id, entry)
        return StoredEvent(id, None, True, parked=True)

    def _report(self) -> Steps[Reported]:
        yield from self.outbox.send(self.experiment, self.patience)
        return self.outbox.reported()

    def _asked(
        self, fields: Mapping[str, object], read: Callable[[Any], T]
    ) -> Steps[T]:
        """A decision that has a fallback: deferred until its answer is here, soon given
        up where nothing listens."""
        soon = (
            replace(self.patience, retries=_SOON)
            if self.patience.retries is None
            else self.patience
        )
        return self._send("/v1/decide", given({**fields, "deferred": True}), read, soon)

    def _post(
        self, path: str, fields: Mapping[str, object], answer: Callable[..., T]
    ) -> Steps[T]:
        return self._send(path, given(fields), partial(one_of, answer))

    def _send(
        self,
        path: str,
        fields: dict[str, object],
        read: Callable[[Any], T],
        patience: Patience | None = None,
    ) -> Steps[T]:
        steps = persist(self._request(path, fields), read, patience or self.patience)
        return self.then_report(steps)

    def _request(self, path: str, fields: Mapping[str, object]) -> Request:
        about: dict[str, object] = (
            {} if self.experiment is None else {"experiment": self.experiment}
        )
        return Request("POST", path, written(about | dict(fields)))

    def then_report(self, steps: Steps[T]) -> Steps[T]:
        """A call, and after its answer a part of what is to be reported: one request,
        tried once."""
        waits = bool(self.outbox)
        answer = yield from steps
        if waits:
            hasty = replace(self.patience, retries=0)
            yield from self.outbox.send(self.experiment, hasty, chunks=1)
        return answer

    def _get(self, path: str, read: Callable[[Any], T], **asked: object) -> Steps[T]:
        query = {"experiment": self.experiment} | asked
        words = {name: str(value) for name, value in query.items() if value is not None}
        return persist(Request("GET", path, None, words), read, self.patience)
