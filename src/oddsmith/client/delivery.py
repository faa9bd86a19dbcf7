"""Send calls to the service. If it does not answer, use a fallback; if it answers, also
send the entries of the outbox."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

from oddsmith.agent.slate import slot_id
from oddsmith.client.answers import ServedDecision, ServedSlate, StoredEvent, one_of
from oddsmith.client.bodies import encode_body, without_none
from oddsmith.client.fallback import DOWN, Fallback, FirstAnswers, is_fallback
from oddsmith.client.outbox import Kind, Outbox, Reported
from oddsmith.client.tries import Patience, Request, Steps, persist
from oddsmith.core.errors import ServiceError

__all__ = ["Sending"]

T = TypeVar("T")
A = TypeVar("A", ServedDecision, ServedSlate)

# default number of retries if a call has a fallback; the pauses take about a second in
# total
_SOON = 4


@dataclass(frozen=True)
class Sending:
    """Base of all calls, with the experiment, the time limits, the outbox, and the
    first answers by id."""

    experiment: str | None
    patience: Patience
    outbox: Outbox = field(default_factory=Outbox)
    answers: FirstAnswers = field(default_factory=FirstAnswers)

    def _answer_or_fallback(
        self,
        steps: Steps[A],
        fall_back: Callable[[], A],
        earlier: A | None,
        id: str | None,
        activation: Callable[[A], dict[str, object]] | None,
    ) -> Steps[A]:
        """Return the answer to a deferred request and activate it; otherwise the
        `earlier` answer for the id; otherwise the fallback.

        A request without an answer may have been decided by the service. That decision
        was not shown, so it must never count. For an `id` chosen by the caller, an
        answer that is not new may be such a decision, so it is not activated here: the
        call that made it activated it if it was shown.
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
        timeout = max(1e-3, end - self.patience.clock())
        yield from self.activate_now(activation(answer), timeout)
        return answer

    def activate_now(self, about: Mapping[str, object], timeout: float) -> Steps[None]:
        """Activate a decision that is shown now. If the service does not answer, store
        the activation in the outbox."""
        patience = replace(self.patience, timeout=timeout)
        request = self._request("/v1/activate", about)
        try:
            yield from persist(request, dict, patience)
        except ServiceError:
            id = str(about.get("id", about.get("slate")))
            self.outbox.add("activation", id, encode_body(about))

    def _fall_back(
        self, fallback: Fallback, fields: Mapping[str, object], id: str
    ) -> ServedDecision:
        """Return the client's own decision under a new id, to be reported later."""
        report = {**fields, "id": id, "unit": None, "odds": False}
        report |= {"incumbent": fallback.arm, "incumbent_odds": fallback.odds}
        self.outbox.add("decision", id, encode_body(without_none(report)))
        return self._own_decision(id, fallback)

    def _fall_back_slate(
        self,
        slots: Sequence[tuple[dict[str, object], Fallback]],
        fields: Mapping[str, object],
        id: str,
    ) -> ServedSlate:
        """Return the client's own slate with an incumbent in each slot, to be reported
        later."""
        entries = []
        decisions = []
        for number, (slot, fallback) in enumerate(slots, 1):
            acting = {"incumbent": fallback.arm, "incumbent_odds": fallback.odds}
            entries.append(slot | acting)
            name = str(slot["name"])
            decision = self._own_decision(slot_id(id, name), fallback)
            decisions.append(decision._replace(slot=number, name=name))
        report = {**fields, "id": id, "slots": entries, "odds": False}
        parts = [decision.id for decision in decisions]
        self.outbox.add(
            "slate",
            id,
            encode_body(without_none(report)),
            parts=parts,
        )
        return ServedSlate(id, self.experiment or "", decisions, new=True)

    def _own_decision(self, id: str, fallback: Fallback) -> ServedDecision:
        propensity = fallback.odds[fallback.arm]
        return ServedDecision(
            id,
            self.experiment or "",
            fallback.arm,
            propensity=propensity,
            step=None,
            position=None,
            seen=None,
            new=True,
            odds=fallback.odds,
            fallback=True,
        )

    def _about(
        self, kind: Kind, id: str, fields: Mapping[str, object]
    ) -> Steps[StoredEvent]:
        """Send an event of a decision. If the decision is a fallback that is not
        reported yet, queue the event behind it."""
        route = "/v1/reward" if kind == "reward" else "/v1/activate"
        entry = encode_body(without_none(fields))
        steps = self._post(route, fields, StoredEvent)
        if not self.outbox.holds(id):
            return steps
        return self._behind(kind, id, entry, steps)

    def _behind(
        self, kind: Kind, id: str, entry: bytes, steps: Steps[StoredEvent]
    ) -> Steps[StoredEvent]:
        yield from self._report()
        if not self.outbox.holds(id):
            return (yield from steps)
        self.outbox.add(kind, id, entry)
        return StoredEvent(id, None, True, parked=True)

    def _report(self) -> Steps[Reported]:
        yield from self.outbox.send(self.experiment, self.patience)
        return self.outbox.counts()

    def _ask_deferred(
        self, fields: Mapping[str, object], read: Callable[[Any], T]
    ) -> Steps[T]:
        """Request a deferred decision that has a fallback. The decision counts only
        once its response has arrived. If no service is listening, give up soon."""
        patience = self.patience
        if patience.retries is None:
            patience = replace(patience, retries=_SOON)
        deferred = without_none({**fields, "deferred": True})
        return self._send("/v1/decide", deferred, read, patience)

    def _post(
        self, path: str, fields: Mapping[str, object], answer: Callable[..., T]
    ) -> Steps[T]:
        return self._send(path, without_none(fields), partial(one_of, answer))

    def _send(
        self,
        path: str,
        fields: dict[str, object],
        read: Callable[[Any], T],
        patience: Patience | None = None,
    ) -> Steps[T]:
        request = self._request(path, fields)
        steps = persist(request, read, patience or self.patience)
        return self.then_report(steps)

    def _request(self, path: str, fields: Mapping[str, object]) -> Request:
        about: dict[str, object] = {}
        if self.experiment is not None:
            about["experiment"] = self.experiment
        return Request("POST", path, encode_body(about | dict(fields)))

    def then_report(self, steps: Steps[T]) -> Steps[T]:
        """Make a call and then send part of the outbox, as one request with one try."""
        waits = bool(self.outbox)
        answer = yield from steps
        if waits:
            hasty = replace(self.patience, retries=0)
            yield from self.outbox.send(self.experiment, hasty, chunks=1)
        return answer

    def _get(
        self,
        path: str,
        read: Callable[[Any], T],
        patience: Patience | None = None,
        **parameters: object,
    ) -> Steps[T]:
        query = {"experiment": self.experiment} | parameters
        words = {name: str(value) for name, value in query.items() if value is not None}
        request = Request("GET", path, None, words)
        return persist(request, read, patience or self.patience)
