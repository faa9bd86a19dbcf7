"""All calls of the service: create their requests and parse the responses."""

import secrets
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal
from urllib.parse import quote

from oddsmith.agent.slate import slot_id
from oddsmith.client.answers import (
    AppliedAction,
    PosteriorWeights,
    RecordedDecision,
    ServedDecision,
    ServedSlate,
    StoredEvent,
    one_of,
    read_batch,
    read_record,
    read_slate,
    read_slate_records,
)
from oddsmith.client.bodies import (
    context_json,
    entry_of,
    offered_json,
    reward_entry,
    slots_json,
    without_none,
)
from oddsmith.client.delivery import Sending
from oddsmith.client.fallback import read_fallback, read_slate_fallback
from oddsmith.client.outbox import Reported
from oddsmith.client.tries import Request, Steps, Try, persist
from oddsmith.core.errors import InvalidInput, OddsmithError

__all__ = ["Calls", "new_id"]

_LOOK = 0.1  # seconds between two requests to the readiness endpoint


def new_id() -> str:
    """Return a new id. It consists of the time, so that ids of neighbours in the log
    are similar, and of 64 random bits."""
    return f"{time.time_ns() // 1_000_000:011x}{secrets.token_hex(8)}"


class Calls(Sending):
    """The calls of one client. Each is a generator of tries (see the module
    `tries`)."""

    def decide(
        self,
        context: object,
        *,
        arms: object = None,
        id: str | None = None,
        eligible: Sequence[str] | None = None,
        unit: str | None = None,
        deferred: bool = False,
        incumbent: str | None = None,
        incumbent_odds: Mapping[str, float] | None = None,
        odds: bool | None = None,
        fallback: str | Mapping[str, float] | None = None,
    ) -> Steps[ServedDecision]:
        """Draw an arm for a context (JSON, arrays or a row of a data frame). Repeating
        an id returns the first decision.

        `arms` contains the arms of this call: a dict of name to features, a list of
        names, or a data frame with a row for each arm, whose names are in the column
        `arm` or, in pandas, in the index. Missing values in contexts and features
        (None, NaN or NA) are sent as null. `odds` requests the propensities of all
        arms, which are included by default up to 100 arms. `eligible` restricts the
        arms. `unit` is the user, or another unit, of a sticky experiment. A `deferred`
        decision counts once it is activated. In shadow mode `incumbent` is the arm that
        acts, drawn with `incumbent_odds` (or 1). If the service is down, the result is
        `fallback`: an arm, or one drawn from a dict of propensities. The client reports
        it later as an incumbent's decision (`report`). A fallback has an id of its own:
        send rewards with the `id` of the result.
        """
        # If a unit is given, the service creates the id of the decision.
        own_id = new_id() if unit is None else None
        fields = {
            "id": id or own_id,
            "context": context_json(context),
            "eligible": eligible,
            "unit": unit,
            "odds": odds,
            "deferred": deferred or None,
            "incumbent": incumbent,
            "incumbent_odds": incumbent_odds,
            "arms": offered_json(arms),
        }
        allowed = fields["arms"] if eligible is None else eligible
        if fallback is None:
            return self._post("/v1/decide", fields, ServedDecision)
        if incumbent is not None or incumbent_odds is not None:
            raise InvalidInput(
                "fallback must be left out if an incumbent acts, because the "
                "incumbent's arm is shown"
            )
        _check_id_is_free(id, deferred)
        choice = read_fallback(fallback, allowed)  # type: ignore[arg-type]
        steps = self._ask_deferred(fields, partial(one_of, ServedDecision))
        earlier = self.answers.find(ServedDecision, id, allowed)  # type: ignore[arg-type]
        return self._answer_or_fallback(
            steps,
            lambda: self._fall_back(choice, fields, new_id()),
            earlier,
            id,
            None if deferred else lambda decision: {"id": decision.id},
        )

    def decide_slate(
        self,
        context: object,
        *,
        arms: object = None,
        slots: object = 3,
        id: str | None = None,
        eligible: Sequence[str] | None = None,
        unit: str | None = None,
        deferred: bool = False,
        odds: bool | None = None,
        fallback: Sequence[str] | Mapping[str, float] | None = None,
    ) -> Steps[ServedSlate]:
        """Decide for each slot of a page in one commit. Repeating an id returns the
        first decisions.

        `slots` is the number of slots, or a list of `Slot` or of dicts, which may
        contain the `incumbent` of a slot. Each slot has its own reward, by the id of
        its decision. `unit` is the visitor, if a holdout is by unit. `fallback` is a
        list with an arm for each slot, or a dict of propensities from which the slots
        are drawn in order, each from the remaining arms. The other arguments are those
        of `decide`.
        """
        fields = {
            "id": id or new_id(),
            "unit": unit,
            "context": context_json(context),
            "eligible": eligible,
            "odds": odds,
            "arms": offered_json(arms),
            "slots": slots_json(slots),
            "deferred": deferred or None,
        }
        allowed = fields["arms"] if eligible is None else eligible
        if fallback is None:
            return self._send("/v1/decide", without_none(fields), read_slate)
        _check_id_is_free(id, deferred)
        choices = read_slate_fallback(fallback, fields["slots"], allowed)  # type: ignore[arg-type]
        steps = self._ask_deferred(fields, read_slate)
        earlier = self.answers.find(ServedSlate, id, allowed)  # type: ignore[arg-type]
        return self._answer_or_fallback(
            steps,
            lambda: self._fall_back_slate(choices, fields, new_id()),
            earlier,
            id,
            None if deferred else lambda slate: {"slate": slate.slate},
        )

    def decide_batch(
        self, decisions: Iterable[Mapping[str, object]], *, arms: object = None
    ) -> Steps[list[ServedDecision | OddsmithError]]:
        """Make up to 1,000 decisions in one commit. Each is a dict with the arguments
        of `decide`; results are in order.

        `arms` applies to all entries that have no arms of their own.

        A rejected entry is returned as an exception in the list; the other decisions
        are stored.
        """
        fields: dict[str, object] = {
            "decisions": [_decision_entry(entry) for entry in decisions]
        }
        if arms is not None:
            fields["arms"] = offered_json(arms)
        read = partial(read_batch, ServedDecision)
        return self._send("/v1/decide/batch", fields, read)

    def reward(
        self,
        id: str | None = None,
        reward: float | None = None,
        *,
        metrics: Mapping[str, float] | None = None,
        key: str = "",
        slate: str | None = None,
        slot: str | int | None = None,
    ) -> Steps[StoredEvent]:
        """Send the reward of a decision in the units of the policy file, amounts of its
        metrics, or both. They may arrive before the decision, or much later.

        `slate` and the slot's name or number also identify a slot's decision, in place
        of `id`. Repeating a reward has no effect; another value is a `Conflict`. If
        rewards of several parts are summed, `key` identifies the part.
        """
        fields = {
            "id": id,
            "slate": slate,
            "slot": slot,
            "reward": reward,
            "metrics": metrics,
            "key": key or None,
        }
        decision_id = id
        if id is None and slate is not None and slot is not None:
            decision_id = slot_id(slate, str(slot))
        if decision_id is None:
            return self._post("/v1/reward", fields, StoredEvent)
        return self._about("reward", decision_id, fields)

    def reward_batch(
        self, rewards: Iterable[Mapping[str, object]]
    ) -> Steps[list[StoredEvent | OddsmithError]]:
        """Send up to 1,000 rewards in one commit. Each is a dict with the arguments of
        `reward`; results are in order.

        A rejected entry is returned as an exception in the list; the other rewards are
        stored.
        """
        entries = [reward_entry(entry) for entry in rewards]
        read = partial(read_batch, StoredEvent)
        return self._send("/v1/reward/batch", {"rewards": entries}, read)

    def correct(
        self,
        id: str,
        reward: float | None = None,
        *,
        metrics: Mapping[str, float] | None = None,
        key: str | None = None,
    ) -> Steps[StoredEvent]:
        """Correct a decision's reward or amounts of its metrics, any number of times.
        `key` identifies the correction."""
        fields = {
            "id": id,
            "reward": reward,
            "metrics": metrics,
            "key": key or new_id(),
        }
        return self._post("/v1/correct", fields, StoredEvent)

    def activate(
        self,
        id: str | None = None,
        *,
        slate: str | None = None,
        slot: str | int | None = None,
    ) -> Steps[StoredEvent]:
        """Activate a deferred decision, so that it counts from now on. For a slot, give
        its `slate` and the slot's name or number."""
        fields = {"id": id, "slate": slate, "slot": slot}
        if id is None and slate is not None and slot is not None:
            id = slot_id(slate, str(slot))
        if id is None:
            return self._post("/v1/activate", fields, StoredEvent)
        return self._about("activation", id, without_none(fields))

    def activate_slate(self, slate: str) -> Steps[StoredEvent]:
        """Activate all decisions of a deferred slate, so that they count from now
        on."""
        return self._about("activation", slate, {"slate": slate})

    def report(self) -> Steps[Reported]:
        """Send fallback decisions that are not in the log yet to the service, with
        their rewards and activations.

        Every successful call sends some of them, and `close` sends the rest. Entries
        that cannot be sent now stay in the client.
        """
        return self._report()

    def add_expert(
        self, expert: str, *, share: float, key: str | None = None
    ) -> Steps[StoredEvent]:
        """Add a spare expert of the policy file with this share of the weight. `key`
        identifies the change."""
        fields = {
            "expert": expert,
            "change": "added",
            "share": share,
            "key": key or new_id(),
        }
        return self._post("/v1/experts", fields, StoredEvent)

    def retire_expert(
        self, expert: str, *, key: str | None = None
    ) -> Steps[StoredEvent]:
        """Retire an expert; its weight is distributed over the others. `key` identifies
        the change."""
        fields = {"expert": expert, "change": "retired", "key": key or new_id()}
        return self._post("/v1/experts", fields, StoredEvent)

    def act(
        self,
        action: str,
        fields: Mapping[str, object] | None = None,
        *,
        reason: str,
        request_id: str | None = None,
    ) -> Steps[AppliedAction]:
        """Write an action of an operator, such as `act("pause_arm", {"arm": "tech"},
        reason="sold out")`. The key needs the scope `operate`.

        `fields` contains the fields of the action: `arm`, `share`, `floors`, `caps`,
        `gamma` or `verdict`. None for bounds or gamma restores the values of the policy
        file.
        """
        body = {
            "action": action,
            "reason": reason,
            "request_id": request_id or new_id(),
        }
        read = partial(one_of, AppliedAction)
        return self._send("/v1/actions", body | dict(fields or {}), read)

    def actions(self) -> Steps[dict[str, Any]]:
        """Return the current restrictions, and the actions of the log, newest first."""
        return self._get("/v1/actions", dict)

    def experiments(self) -> Steps[dict[str, Any]]:
        """Return the experiments that the key may read, whether each is ready, and the
        version of the service."""
        return persist(Request("GET", "/v1/experiments"), dict, self.patience)

    def decisions(
        self,
        *,
        before: int | None = None,
        limit: int = 50,
        arm: str | None = None,
        reward: str | None = None,
    ) -> Steps[dict[str, Any]]:
        """Return a page of decisions, newest first. Pass the `before` of a page to get
        the next page.

        `arm` and `reward` ("none" or "some") select decisions, among 5,000 decisions
        per page.
        """
        return self._get(
            "/v1/decisions", dict, before=before, limit=limit, arm=arm, reward=reward
        )

    def changes(self, *, after: int = 0, wait: float = 25.0) -> Steps[dict[str, Any]]:
        """Return the positions of log and state, as soon as the state is beyond
        `after`, or after `wait` (at most 25) seconds."""
        # each try has half of this time
        timeout = self.patience.timeout + 2 * wait
        patience = replace(self.patience, timeout=timeout)
        return self._get("/v1/changes", dict, patience, after=after, wait=wait)

    def decision(self, id: str, *, explain: bool = False) -> Steps[RecordedDecision]:
        """Return the log's record of a decision. With `explain`, include the experts'
        votes, weights and predictions, and the value of their choices."""
        path = f"/v1/decisions/{quote(id, safe='')}"
        return self._get(path, read_record, explain="true" if explain else None)

    def slate(self, slate: str) -> Steps[list[RecordedDecision]]:
        """Return the log's records of the decisions of a slate, in the order of its
        slots."""
        path = f"/v1/decisions/{quote(slate, safe='')}"
        return self._get(path, read_slate_records)

    def posterior(self) -> Steps[PosteriorWeights]:
        """Return the posterior weight of each expert."""
        return self._get("/v1/posterior", partial(one_of, PosteriorWeights))

    def stats(self, *, skip: int = 0, limit: int = 100) -> Steps[dict[str, Any]]:
        """Return counts and positions: events, experts, and up to `limit` arms after
        `skip`, most drawn first."""
        return self._get("/v1/stats", dict, skip=skip, limit=limit)

    def series(
        self, *, range: Literal["hour", "day", "week", "all"] = "day"
    ) -> Steps[dict[str, Any]]:
        """Return sums over time, in total and by arm, in buckets for the last hour, day
        or week of decisions, or for all time."""
        return self._get("/v1/series", dict, range=range)

    def posterior_history(self) -> Steps[dict[str, Any]]:
        """Return the history of expert weights (at most 200 points), and the changes of
        experts, arms and rewards."""
        return self._get("/v1/posterior/history", dict)

    def results(self) -> Steps[dict[str, Any]]:
        """Compare the policy and each arm with the control, by metric."""
        return self._get("/v1/results", dict)

    def values(self) -> Steps[dict[str, Any]]:
        """Return estimated values of the served decisions, of each arm, of uniform
        random arms and, in shadow mode, of the policy."""
        return self._get("/v1/values", dict)

    def checks(self) -> Steps[dict[str, Any]]:
        """Return health checks of propensities, experts, rewards, errors, the guarantee
        and, in shadow mode, when to switch."""
        return self._get("/v1/checks", dict)

    def ready(self, *, wait: float = 0.0) -> Steps[bool]:
        """Return whether the service is ready; poll for up to `wait` seconds."""
        end = self.patience.clock() + wait
        request = Request("GET", "/readyz")
        pause = 0.0
        while True:
            reply = yield Try(request, pause, self.patience.timeout)
            if reply.status == 200:
                return True
            pause = _LOOK
            if self.patience.clock() + pause > end:
                return False


def _decision_entry(entry: object) -> dict[str, object]:
    """Return an entry of a batch of decisions, with a new id unless it has an id or a
    unit."""
    fields = entry_of("decisions", entry, "context")
    fields["context"] = context_json(fields["context"])
    if "arms" in fields:
        fields["arms"] = offered_json(fields["arms"])
    if "unit" in fields:
        return fields
    return {"id": new_id()} | fields


def _check_id_is_free(id: str | None, deferred: bool) -> None:
    # A repeated id must not be activated after a fallback: the service may have drawn
    # another arm for it.
    if id is not None and deferred:
        raise InvalidInput(
            f"id must be left out if a deferred decision has a fallback; got {id!r:.60}"
        )
