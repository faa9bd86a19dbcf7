"""How calls go out: behind what waits to be reported, and with a fallback where the
service does not answer."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

from oddsmith.agent.slate import slot_id
from oddsmith.client.answers import ServedDecision, ServedSlate, StoredEvent, one_of
from oddsmith.client.bodies import given, written
from oddsmith.client.fallback import DOWN, Fallback
from oddsmith.client.outbox import Kind, Outbox, Reported
from oddsmith.client.tries import Patience, Request, Steps, persist
from oddsmith.core.errors import ServiceError

__all__ = ["Sending"]

T = TypeVar("T")

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

    def _heard_or(
        self,
        steps: Steps[T],
        fall_back: Callable[[], T],
        shown: Callable[[T], dict[str, object]] | None,
    ) -> Steps[T]:
        """The answer to what was asked as deferred, activated by what `shown` says of
        it; else the fallback.

        A request without an answer may have been decided. What it decided was not
        shown, so it must not count: it is never activated.
        """
        end = self.patience.clock() + self.patience.timeout
        try:
            answer = yield from steps
        except ServiceError as error:
            if error.status not in DOWN:
                raise
            return fall_back()
        if shown is not None:
            left = replace(
                self.patience, timeout=max(1e-3, end - self.patience.clock())
            )
            about = shown(answer)
            try:
                yield from persist(self._request("/v1/activate", about), dict, left)
            except ServiceError:  # it was shown all the same
                self.outbox.keep(
                    "activation",
                    str(about.get("id", about.get("slate"))),
                    written(about),
                )
        return answer

    def _fall_back(
        self, fallback: Fallback, fields: Mapping[str, object], id: str
    ) -> ServedDecision:
        """The decision that was made here, under an id of its own, to be reported."""
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
        return self._then_report(steps) if self.outbox else steps

    def _request(self, path: str, fields: dict[str, object]) -> Request:
        about: dict[str, object] = (
            {} if self.experiment is None else {"experiment": self.experiment}
        )
        return Request("POST", path, written(about | fields))

    def _then_report(self, steps: Steps[T]) -> Steps[T]:
        """A call, and after its answer a part of what is to be reported: one request,
        tried once."""
        answer = yield from steps
        yield from self.outbox.send(
            self.experiment, replace(self.patience, retries=0), chunks=1
        )
        return answer

    def _get(self, path: str, read: Callable[[Any], T], **asked: object) -> Steps[T]:
        query = {"experiment": self.experiment} | asked
        words = {name: str(value) for name, value in query.items() if value is not None}
        return persist(Request("GET", path, None, words), read, self.patience)
