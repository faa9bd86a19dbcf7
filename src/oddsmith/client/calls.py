"""Every call of the service: what is sent for it, and how its answer is read."""

import json
import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, TypeVar
from urllib.parse import quote

import numpy as np

from oddsmith.client.answers import PosteriorWeights, ServedDecision, StoredEvent, one_of, read_batch
from oddsmith.client.tries import Patience, Request, Steps, Try, persist
from oddsmith.contexts import is_table, one, plain, shown, simple
from oddsmith.errors import InvalidInput, OddsmithError
from oddsmith.offer import offered

__all__ = ["Calls", "new_id"]

T = TypeVar("T")

_USUAL = frozenset((str, int, bool, type(None)))
_LOOK = 0.1  # seconds between two looks at whether it is ready


def new_id() -> str:
    """A new id: the time, which keeps neighbours in the log near each other, and 64 random bits."""
    return f"{time.time_ns() // 1_000_000:011x}{secrets.token_hex(8)}"


@dataclass(frozen=True)
class Calls:
    """The calls of one client, each as the steps that make it (`tries`)."""

    experiment: str | None
    patience: Patience

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
    ) -> Steps[ServedDecision]:
        """Draw an arm for a context (JSON, arrays or a row of a data frame); the same id again gets the first answer.

        `arms` are those of this call: a dict of name to features, a list of names, or a data frame with a row for each,
        named by its column `arm` or, in pandas, by its index. What is missing in contexts and features, None, NaN or
        NA, is sent as null. `odds` asks for those of all arms, which come by themselves up to 100 arms.
        `eligible` restricts the arms. `unit` is the user, or another unit, of a sticky experiment. A `deferred`
        decision counts once it is activated. In shadow mode `incumbent` is the arm that acts, drawn with
        `incumbent_odds` (or 1).
        """
        own = new_id() if unit is None else None  # a unit's decision has an id of its own
        fields = {"id": id or own, "context": _json(context), "eligible": eligible, "unit": unit, "odds": odds}
        fields |= {"deferred": deferred or None, "incumbent": incumbent, "incumbent_odds": incumbent_odds}
        fields |= {"arms": _offered(arms)}
        return self._post("/v1/decide", fields, ServedDecision)

    def decide_batch(
        self, decisions: Iterable[Mapping[str, object]], *, arms: object = None
    ) -> Steps[list[ServedDecision | OddsmithError]]:
        """Up to 1,000 decisions with one commit, each a dict with the arguments of `decide`; answered in order.

        `arms` are those of all entries that have none of their own.

        An entry that is refused is an exception in the list, returned and not raised: the others stand.
        """
        given = [_entry("decisions", entry, "context") for entry in decisions]
        given = [entry | {"context": _json(entry["context"])} for entry in given]
        given = [entry | {"arms": _offered(entry["arms"])} if "arms" in entry else entry for entry in given]
        entries = [entry if "unit" in entry else {"id": new_id()} | entry for entry in given]
        for_all: dict[str, object] = {} if arms is None else {"arms": _offered(arms)}
        return self._send("/v1/decide/batch", {"decisions": entries} | for_all, partial(read_batch, ServedDecision))

    def reward(self, id: str, reward: float, *, key: str = "") -> Steps[StoredEvent]:
        """The reward of a decision, in the units of the policy file; now, in a month, or before the decision.

        The same again has no effect; another value is a `Conflict`. Where parts are summed, `key` tells them apart.
        """
        return self._post("/v1/reward", {"id": id, "reward": reward, "key": key or None}, StoredEvent)

    def reward_batch(self, rewards: Iterable[Mapping[str, object]]) -> Steps[list[StoredEvent | OddsmithError]]:
        """Up to 1,000 rewards with one commit, each a dict with the arguments of `reward`; answered in order.

        An entry that is refused is an exception in the list, returned and not raised: the others stand.
        """
        entries = [_entry("rewards", entry, "id", "reward") for entry in rewards]
        return self._send("/v1/reward/batch", {"rewards": entries}, partial(read_batch, StoredEvent))

    def correct(self, id: str, reward: float, *, key: str | None = None) -> Steps[StoredEvent]:
        """Another value in place of a decision's reward, any number of times; `key` names this correction."""
        return self._post("/v1/correct", {"id": id, "reward": reward, "key": key or new_id()}, StoredEvent)

    def activate(self, id: str) -> Steps[StoredEvent]:
        """A deferred decision was shown: from now on it counts."""
        return self._post("/v1/activate", {"id": id}, StoredEvent)

    def add_expert(self, expert: str, *, share: float, key: str | None = None) -> Steps[StoredEvent]:
        """An expert on the bench of the policy file joins, with this share of the weight; `key` names the change."""
        fields = {"expert": expert, "change": "added", "share": share, "key": key or new_id()}
        return self._post("/v1/experts", fields, StoredEvent)

    def retire_expert(self, expert: str, *, key: str | None = None) -> Steps[StoredEvent]:
        """Retire an expert; the others share its weight in proportion. `key` names the change."""
        return self._post("/v1/experts", {"expert": expert, "change": "retired", "key": key or new_id()}, StoredEvent)

    def experiments(self) -> Steps[dict[str, Any]]:
        """The experiments that the key may read, whether each is ready, and the version of the service."""
        return persist(Request("GET", "/v1/experiments"), dict, self.patience)

    def decisions(
        self, *, before: int | None = None, limit: int = 50, arm: str | None = None, reward: str | None = None
    ) -> Steps[dict[str, Any]]:
        """A page of decisions, the newest first; the next one is asked for with the `before` of this one.

        `arm` and `reward` ("none" or "some") choose among 5,000 decisions a page.
        """
        return self._get("/v1/decisions", dict, before=before, limit=limit, arm=arm, reward=reward)

    def changes(self, *, after: int = 0, wait: float = 25.0) -> Steps[dict[str, Any]]:
        """The positions of log and state, once the state is beyond `after`, or after `wait` seconds, at most 25."""
        longer = replace(self.patience, timeout=self.patience.timeout + 2 * wait)  # a try has half of it
        query = {"experiment": self.experiment, "after": after, "wait": wait}
        given = {name: str(value) for name, value in query.items() if value is not None}
        return persist(Request("GET", "/v1/changes", None, given), dict, longer)

    def decision(self, id: str, *, explain: bool = False) -> Steps[dict[str, Any]]:
        """All that the log knows of a decision; with `explain`, every expert's vote and weight."""
        return self._get(f"/v1/decisions/{quote(id, safe='')}", dict, explain="true" if explain else None)

    def posterior(self) -> Steps[PosteriorWeights]:
        """How likely each expert is the one to follow."""
        return self._get("/v1/posterior", partial(one_of, PosteriorWeights))

    def stats(self, *, skip: int = 0, limit: int = 100) -> Steps[dict[str, Any]]:
        """Counts and positions: events, arms (`limit` of them, the most drawn first, after `skip`), experts."""
        return self._get("/v1/stats", dict, skip=skip, limit=limit)

    def series(self, *, range: Literal["hour", "day", "week", "all"] = "day") -> Steps[dict[str, Any]]:
        """Sums by time, in all and by arm: buckets of the last hour, day or week of decisions, or of all time."""
        return self._get("/v1/series", dict, range=range)

    def posterior_history(self) -> Steps[dict[str, Any]]:
        """The weight of each expert on the way, at most 200 points, and what happened to experts, arms and rewards."""
        return self._get("/v1/posterior/history", dict)

    def values(self) -> Steps[dict[str, Any]]:
        """What was served is worth, and what each arm, even odds and in shadow mode the policy would have been."""
        return self._get("/v1/values", dict)

    def checks(self) -> Steps[dict[str, Any]]:
        """Whether all is well: odds, experts, rewards, troubles, the guarantee, and in shadow mode when to switch."""
        return self._get("/v1/checks", dict)

    def ready(self, *, wait: float = 0.0) -> Steps[bool]:
        """Whether the service can decide; while it cannot, ask again for up to `wait` seconds."""
        end, pause = self.patience.clock() + wait, 0.0
        while True:
            reply = yield Try(Request("GET", "/readyz"), pause, self.patience.timeout)
            if reply.status == 200:
                return True
            pause = _LOOK
            if self.patience.clock() + pause > end:
                return False

    def _post(self, path: str, fields: Mapping[str, object], answer: Callable[..., T]) -> Steps[T]:
        given = {name: value for name, value in fields.items() if value is not None or name == "context"}
        return self._send(path, given, partial(one_of, answer))

    def _send(self, path: str, fields: dict[str, object], read: Callable[[Any], T]) -> Steps[T]:
        about: dict[str, object] = {} if self.experiment is None else {"experiment": self.experiment}
        return persist(Request("POST", path, _written(about | fields)), read, self.patience)

    def _get(self, path: str, read: Callable[[Any], T], **asked: object) -> Steps[T]:
        query = {"experiment": self.experiment} | asked
        given = {name: str(value) for name, value in query.items() if value is not None}
        return persist(Request("GET", path, None, given), read, self.patience)


def _offered(arms: object) -> object:
    """Arms of a call as JSON has them: names with their features, or names alone."""
    if arms is None:
        return None
    offer = offered(None, arms)
    return list(offer.arms) if offer.features is None else {arm: _json(offer.features[arm]) for arm in offer.arms}


def _json(context: object) -> object:
    """A context or an arm's features as JSON has them, None where a value is missing.

    >>> _json({"age": float("nan"), "sizes": np.array([1.5, np.nan])})
    {'age': None, 'sizes': [1.5, None]}
    """
    if is_table(context):
        raise InvalidInput(f"context must be one dict, row or array; got {shown(context)}: give one of its rows")
    try:
        return _known(one(context))
    except RecursionError as error:
        raise InvalidInput("context must not hold itself, or dicts and lists in each other without end") from error


def _known(value: object) -> object:
    """A value and those within it, None where one is missing."""
    if type(value) in _USUAL:
        return value
    if isinstance(value, Mapping):
        return {name: _known(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_known(inner) for inner in value]
    if isinstance(value, np.ndarray):
        return _known(value.tolist())
    return simple(plain(value))


def _entry(what: str, entry: object, *needed: str) -> dict[str, object]:
    if not isinstance(entry, Mapping) or not set(needed) <= set(entry):
        raise InvalidInput(f"{what} must be dicts with {' and '.join(needed)}; got {entry!r:.60}")
    return {name: value for name, value in entry.items() if value is not None or name == "context"}


def _written(fields: Mapping[str, object]) -> bytes:
    """The body in JSON, which has no word for what is not a finite number."""
    try:
        return json.dumps(fields, default=_plain, allow_nan=False, separators=(",", ":")).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"what is sent must be JSON with finite numbers; {error}") from error


def _plain(value: object) -> object:
    """Arrays and their numbers as lists and numbers."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"got {type(value).__name__}")
