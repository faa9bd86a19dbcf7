"""OddsmithProvider: a provider for `openfeature-sdk` that reads flags from an oddsmith
service and sends rewards with `track`."""

import logging
import threading
from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

from oddsmith.client.bodies import encode_body
from oddsmith.client.calls import Calls
from oddsmith.client.clients import Client
from oddsmith.client.tries import Request, persist
from oddsmith.contexts.flat import flat
from oddsmith.core.errors import (
    InvalidInput,
    MissingExtra,
    OddsmithError,
    ServiceError,
    import_extra,
)

__all__ = ["OddsmithProvider"]

if TYPE_CHECKING:
    from openfeature.evaluation_context import EvaluationContext
    from openfeature.flag_evaluation import FlagResolutionDetails
    from openfeature.track import TrackingEventDetails


_log = logging.getLogger(__name__)
_UNITS = 10_000  # maximum number of units whose decisions are remembered


def _sdk(module: str) -> Any:
    """Import a module of the SDK."""
    return import_extra(
        f"openfeature.{module}", "OddsmithProvider needs", "openfeature"
    )


try:
    _Provider = _sdk("provider").AbstractProvider
except MissingExtra:  # ignored here; creating a provider raises the error again
    _Provider = object


class _FlagDecision(NamedTuple):
    """A flag's decision for a unit, and whether it already counts."""

    experiment: str
    id: str
    counts: bool


class OddsmithProvider(_Provider):  # type: ignore[misc,valid-type]
    """A provider for `openfeature.api.set_provider` that uses the service at `url`; see
    docs/howto/feature-flags.md.

    A flag is a sticky experiment, and `targeting_key` is its unit. The decision of an
    evaluation counts once the client has received it or, with `deferred`, once an event
    is tracked. `track` sends a reward, `details.value` or 1, for the decisions that
    this provider returned for the unit. For an event in `exposures`, it sends no reward
    and only marks these decisions as shown. If the last evaluation of a flag for the
    unit failed, the program showed its default, so `track` sends nothing. If `events`
    are given, events with other names are ignored. The details of an event can have two
    attributes: `flag` restricts the event to one flag, and `key` identifies a part of a
    reward that is summed.
    """

    def __init__(
        self,
        url: str,
        *,
        key: str | None = None,
        timeout: float = 5.0,
        retries: int | None = 1,
        deferred: bool = False,
        exposures: Collection[str] = ("exposure",),
        events: Collection[str] | None = None,
    ) -> None:
        if isinstance(events, str):
            raise InvalidInput(
                f"events must be a set of names; got {events!r:.60}: give "
                f"{{{events!r:.60}}}"
            )
        self._errors = _sdk("exception")
        self._answers = _sdk("flag_evaluation")
        super().__init__()
        self._client = Client(url, key=key, timeout=timeout, retries=retries)
        self._deferred = deferred
        self._exposures = frozenset(exposures)
        self._events = None if events is None else frozenset(events) | self._exposures
        # Decisions by unit and flag; None if the program's default value was returned.
        self._decisions: OrderedDict[str, dict[str, _FlagDecision | None]]
        self._decisions = OrderedDict()
        self._lock = threading.Lock()

    def get_metadata(self) -> Any:
        """Return the provider's name."""
        return _sdk("provider").Metadata(name="oddsmith")

    def shutdown(self) -> None:
        """Close the connections."""
        self._client.close()

    def resolve_boolean_details(
        self,
        flag_key: str,
        default_value: bool,
        evaluation_context: "EvaluationContext | None" = None,
    ) -> "FlagResolutionDetails[bool]":
        """Evaluate a flag whose values are true and false."""
        return self._resolve(flag_key, evaluation_context, bool)

    def resolve_string_details(
        self,
        flag_key: str,
        default_value: str,
        evaluation_context: "EvaluationContext | None" = None,
    ) -> "FlagResolutionDetails[str]":
        """Evaluate a flag whose values are texts, for instance names of arms."""
        return self._resolve(flag_key, evaluation_context, str)

    def resolve_integer_details(
        self,
        flag_key: str,
        default_value: int,
        evaluation_context: "EvaluationContext | None" = None,
    ) -> "FlagResolutionDetails[int]":
        """Evaluate a flag whose values are integers."""
        return self._resolve(flag_key, evaluation_context, int)

    def resolve_float_details(
        self,
        flag_key: str,
        default_value: float,
        evaluation_context: "EvaluationContext | None" = None,
    ) -> "FlagResolutionDetails[float]":
        """Evaluate a flag whose values are numbers."""
        return self._resolve(flag_key, evaluation_context, float)

    def resolve_object_details(
        self,
        flag_key: str,
        default_value: Sequence[Any] | Mapping[str, Any],
        evaluation_context: "EvaluationContext | None" = None,
    ) -> "FlagResolutionDetails[Any]":
        """Evaluate a flag whose values are objects or lists."""
        return self._resolve(flag_key, evaluation_context, (dict, list))

    def track(
        self,
        tracking_event_name: str,
        evaluation_context: "EvaluationContext | None" = None,
        tracking_event_details: "TrackingEventDetails | None" = None,
    ) -> None:
        """Send the reward or exposure for the unit's decisions; an error is only
        logged.

        If another process requested the unit's decision, it is fetched if `flag` is
        named, because the unit keeps its decision. That decision must count already,
        because only the other process knows whether it was shown.
        """
        if self._events is not None and tracking_event_name not in self._events:
            return
        attributes: Mapping[str, Any] = {}
        reward = 1.0
        if tracking_event_details is not None:
            attributes = tracking_event_details.attributes
            if tracking_event_details.value is not None:
                reward = tracking_event_details.value
        is_exposure = tracking_event_name in self._exposures
        try:
            unit = self._unit_of(evaluation_context)
            flag = attributes.get("flag")
            key = str(attributes.get("key", ""))
            for decision in self._decisions_of(unit, evaluation_context, flag):
                self._send(unit, decision, None if is_exposure else reward, key)
        # An error while tracking must not interrupt the program, for instance a
        # purchase.
        except Exception as error:
            _log.warning(
                "event %r could not be tracked: %s", tracking_event_name, error
            )

    def _send(
        self, unit: str, decision: _FlagDecision, reward: float | None, key: str
    ) -> None:
        calls = Calls(decision.experiment, self._client._calls.patience)
        if not decision.counts:
            self._client._drive(calls.activate(decision.id))
            counting = decision._replace(counts=True)
            self._remember(unit, decision.experiment, counting)
        if reward is not None:
            self._client._drive(calls.reward(decision.id, reward, key=key))

    def _decisions_of(
        self, unit: str, context: "EvaluationContext | None", flag: object
    ) -> list[_FlagDecision]:
        """Return the decisions of the unit that an event refers to."""
        with self._lock:
            by_flag = dict(self._decisions.get(unit, {}))
        if flag is None and by_flag:
            return [decision for decision in by_flag.values() if decision is not None]
        if not isinstance(flag, str):
            raise InvalidInput(
                f"unit {unit!r:.60} has no flag in this provider; name it: "
                "details.add('flag', …)"
            )
        decision = by_flag[flag] if flag in by_flag else self._look_up(flag, context)
        if decision is None:
            raise InvalidInput(
                f"unit {unit!r:.60} last received the default of flag {flag!r:.60}, "
                "which is not an arm of the service"
            )
        return [decision]

    def _look_up(self, flag: str, context: "EvaluationContext | None") -> _FlagDecision:
        """Fetch the decision of a unit that another process requested."""
        answer = self._ask(flag, context)
        decision = _decision_in(answer)
        if not decision.counts:  # retry, because the response may have been lost
            raise InvalidInput(
                f"unit {self._unit_of(context)!r:.60} never received flag "
                f"{flag!r:.60}, or the other process did not track its exposure"
            )
        return decision

    def _resolve(
        self, flag: str, context: "EvaluationContext | None", kind: Any
    ) -> Any:
        unit = self._unit_of(context)
        try:
            answer = self._evaluate(flag, context, kind)
            decision = _decision_in(answer)
            if not self._deferred:
                decision = self._activate(decision)
        except Exception:  # the SDK then returns the default value
            self._remember(unit, flag, None)
            raise
        self._remember(unit, flag, decision)
        metadata = dict(answer["metadata"])
        metadata.pop("counts", None)
        reason = self._answers.Reason(answer["reason"])
        return self._answers.FlagResolutionDetails(
            value=answer["value"],
            reason=reason,
            variant=answer["variant"],
            flag_metadata=metadata,
        )

    def _evaluate(
        self, flag: str, context: "EvaluationContext | None", kind: Any
    ) -> dict[str, Any]:
        """Evaluate a flag whose value must have this type."""
        try:
            answer = self._ask(flag, context)
        except InvalidInput as error:
            raise self._errors.InvalidContextError(str(error)) from error
        except ServiceError as error:
            if error.status == 404:
                raise self._errors.FlagNotFoundError(str(error)) from error
            raise self._errors.GeneralError(str(error)) from error
        except OddsmithError as error:
            raise self._errors.GeneralError(str(error)) from error
        value = answer["value"]
        if kind is float and type(value) is int:
            value = float(value)
            answer["value"] = value
        is_wrong_bool = kind is int and isinstance(value, bool)
        if not isinstance(value, kind) or is_wrong_bool:
            raise self._errors.TypeMismatchError(
                f"flag {flag!r:.60} has values like {value!r:.60}"
            )
        return answer

    def _activate(self, decision: _FlagDecision) -> _FlagDecision:
        """Activate the decision, because its value has arrived and will be shown."""
        if not decision.counts:
            calls = self._client._calls
            about = {"experiment": decision.experiment, "id": decision.id}
            # The service has erased the context: keep the arm, although the decision
            # does not count any more.
            with suppress(InvalidInput):
                self._client._drive(calls.activate_now(about, calls.patience.timeout))
        return decision._replace(counts=True)

    def _ask(self, flag: str, context: "EvaluationContext | None") -> dict[str, Any]:
        """Request a flag with a deferred decision, so that a lost response does not
        count as shown."""
        attributes = _flat_context(context)
        attributes["targetingKey"] = self._unit_of(context)
        body = encode_body({"context": attributes})
        path = f"/ofrep/v1/evaluate/flags/{quote(flag, safe='')}"
        request = Request("POST", path, body, {"deferred": "true"})
        calls = self._client._calls
        steps = persist(request, dict[str, Any], calls.patience)
        return self._client._drive(calls.then_report(steps))

    def _unit_of(self, context: "EvaluationContext | None") -> str:
        """Return the unit, which every evaluation and event needs."""
        unit = None if context is None else context.targeting_key
        if not unit:
            raise self._errors.TargetingKeyMissingError(
                "targeting_key must be given: it is the unit, which keeps its arm"
            )
        return str(unit)

    def _remember(self, unit: str, flag: str, decision: _FlagDecision | None) -> None:
        with self._lock:
            self._decisions.setdefault(unit, {})[flag] = decision
            self._decisions.move_to_end(unit)
            if len(self._decisions) > _UNITS:
                self._decisions.popitem(last=False)


def _decision_in(answer: Mapping[str, Any]) -> _FlagDecision:
    metadata = answer["metadata"]
    return _FlagDecision(
        metadata["experiment"], metadata["decision_id"], metadata["counts"]
    )


def _flat_context(context: "EvaluationContext | None") -> dict[str, Any]:
    """Return the attributes as one flat dict; times become text."""
    if context is None:
        return {}
    attributes = dict(flat(dict(context.attributes)))
    for name, value in attributes.items():
        if isinstance(value, datetime):
            attributes[name] = value.isoformat()
    return attributes
