"""Rank calls: convert features to one flat dict of strings and numbers, make the
decision, and return the ranking."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from oddsmith.contexts.flat import flat
from oddsmith.core.errors import InvalidInput
from oddsmith.server.compat.personalizer.messages import (
    Action,
    RankAnswer,
    RankEntry,
    RankRequest,
    event_id,
    text_of,
)
from oddsmith.server.experiment.experiment import Experiment
from oddsmith.server.http.door import Visit
from oddsmith.server.http.routes.decide import decide
from oddsmith.server.messages.calls import DecideEntry

__all__ = ["check_same", "flat_features", "offer_of", "rank", "ranking_of"]

_NONE = type(None)
_PLAIN = frozenset((str, int, float, bool, _NONE))


def flat_features(
    objects: list[dict[str, Any]], where: str, *, needed: bool = False
) -> dict[str, Any]:
    """Return the features as one flat dict, in the format of `flat`. Error messages
    contain `where`.

    Names must not be empty, and lists must contain only numbers. If features are
    `needed`, at least one must not be null.

    >>> user = {"user": {"age": 31, "spent": [2.5, 0]}}
    >>> flat_features([user, {"hour": 9, "_tag": "x"}], "contextFeatures")
    {'user.age': 31, 'user.spent.0': 2.5, 'user.spent.1': 0, 'hour': 9}
    """
    record: dict[str, Any] = {}
    n_fields = 0
    kinds: set[type] = set()
    # fast path for the usual case: a single object of strings and numbers
    for one in objects:
        n_fields += len(one)
        kinds.update(map(type, one.values()))
        record = record | one if record else one
    is_flat = len(record) == n_fields and kinds <= _PLAIN
    names = "\n".join(("", *record, ""))
    if not is_flat or "\n_" in names or "\n\n" in names:
        record = flat(objects)
        _check(objects, where)
        if record:
            kinds = set(map(type, record.values()))
        elif kinds:
            kinds = {str}  # names that begin with _ are features, too
    if needed and not kinds - {_NONE}:
        raise InvalidInput(f"{where} must be at least one that is not null; got none")
    return record


def _check(features: Any, where: str) -> None:
    """Raise if a name is empty, or if a list contains anything but numbers; `flat` has
    checked the depth."""
    objects = features if isinstance(features, list) else [features]
    for one in objects:
        for name, value in one.items():
            if not name:
                raise InvalidInput(f"{where} must have names; got an empty one")
            if isinstance(value, dict):
                _check(value, where)
            elif isinstance(value, list):
                _check_numbers(name, value, where)


def _check_numbers(name: str, values: list[object], where: str) -> None:
    for value in values:
        if type(value) not in (int, float):
            raise InvalidInput(
                f"{where}: a list must hold numbers only, as that of {name!r:.60}; "
                f"got {value!r:.60}"
            )


async def rank(experiment: Experiment, visit: Visit) -> RankAnswer:
    """Make a decision, and return its ranking when the decision is on disk."""
    request: RankRequest = visit.message
    arms = offer_of(request.actions)
    excluded = {text_of(one) for one in request.excluded_actions or ()}
    eligible = [arm for arm in arms if arm not in excluded]
    if not eligible:
        raise InvalidInput(
            f"excludedActions must leave at least one action; got all {len(arms)} of "
            "them"
        )
    restriction = eligible if len(eligible) < len(arms) else None
    incumbent = eligible[0] if experiment.settings.shadow else None
    entry = DecideEntry(
        context=flat_features(request.context_features or [], "contextFeatures"),
        arms=arms,
        id=event_id(request.event_id, visit),
        eligible=restriction,
        deferred=bool(request.defer_activation),
        incumbent=incumbent,
        odds=True,
    )
    answer = await decide(experiment, entry, visit.sender)
    odds = answer.odds if isinstance(answer.odds, dict) else {}
    if not answer.new:
        check_same(experiment, answer.id, odds=odds, arms=arms, eligible=eligible)
    ranking = ranking_of(odds, list(arms), excluded, answer.arm)
    return RankAnswer(ranking, answer.id, answer.arm)


def offer_of(actions: Sequence[Action]) -> dict[str, object]:
    """Return the actions as arms with features; numeric ids become text."""
    arms: dict[str, object] = {}
    for action in actions:
        id = action.id if type(action.id) is str else text_of(action.id)
        if id in arms:
            raise InvalidInput(f"ids of actions must be distinct; got {id!r:.60} twice")
        arms[id] = flat_features(
            action.features, f"features of action {id!r:.60}", needed=True
        )
    return arms


def check_same(
    experiment: Experiment,
    event: str,
    *,
    odds: Mapping[str, float],
    arms: Mapping[str, object],
    eligible: Collection[str],
) -> None:
    """Raise if an event was ranked before with other actions, according to the
    propensities of its first answer."""
    if experiment.arms is None:
        has_others = odds.keys() != arms.keys()
    else:
        has_others = not arms.keys() <= odds.keys()
    drawable = {arm for arm, share in odds.items() if share}
    if has_others or not drawable <= set(eligible):
        raise InvalidInput(
            f"eventId {event!r} was ranked before with other actions; send the same "
            "ones, or another eventId"
        )


def ranking_of(
    odds: Mapping[str, float],
    arms: Sequence[str],
    excluded: Collection[str],
    drawn: str,
) -> list[RankEntry]:
    """Return the ranking: the drawn action comes first, then the other actions by
    decreasing propensity. Excluded actions stay at their places, with probability 0.

    >>> odds = {"a": 0.0, "b": 0.7, "c": 0.1, "d": 0.2}
    >>> [one.id for one in ranking_of(odds, "abcd", {"a"}, "c")]
    ['a', 'c', 'b', 'd']
    """
    free = [arm for arm in arms if arm not in excluded]
    free.sort(key=lambda arm: (arm != drawn, -odds[arm]))
    next_free = iter(free)
    ranking: list[RankEntry] = []
    for arm in arms:
        if arm in excluded:
            ranking.append(RankEntry(arm, 0.0))
        else:
            name = next(next_free)
            ranking.append(RankEntry(name, odds[name]))
    return ranking
