"""Features in the lists of objects that Personalizer's programs send, as one flat dict
of words and numbers."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from oddsmith.contexts.flat import flat
from oddsmith.core.errors import InvalidInput
from oddsmith.server.compat.personalizer.messages import (
    Action,
    RankAnswer,
    Ranked,
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
    """The features as `flat` makes them; a refusal says `where` they are.

    Names must not be empty, and lists hold numbers only. `needed`: at least one must be
    there that is not null.

    >>> flat_features(
    ...     [{"user": {"age": 31, "spent": [2.5, 0]}}, {"hour": 9, "_tag": "x"}],
    ...     "contextFeatures",
    ... )
    {'user.age': 31, 'user.spent.0': 2.5, 'user.spent.1': 0, 'hour': 9}
    """
    record: dict[str, Any] = {}
    size, kinds = 0, set[type]()
    for one in objects:  # mostly one, of words and numbers
        size += len(one)
        kinds.update(map(type, one.values()))
        record = record | one if record else one
    names = "\n".join(("", *record, ""))
    if len(record) < size or not kinds <= _PLAIN or "\n_" in names or "\n\n" in names:
        record = flat(objects)
        _check(objects, where)
        # names that begin with _ are features, too
        kinds = set(map(type, record.values())) or (kinds and {str})
    if needed and not kinds - {_NONE}:
        raise InvalidInput(f"{where} must be at least one that is not null; got none")
    return record


def _check(inner: Any, where: str) -> None:
    """Refuses names that are empty, and lists of something else than numbers; `flat`
    has seen how deep they are."""
    for one in inner if isinstance(inner, list) else [inner]:
        for name, value in one.items():
            if not name:
                raise InvalidInput(f"{where} must have names; got an empty one")
            if isinstance(value, dict):
                _check(value, where)
            elif isinstance(value, list) and not all(
                type(entry) in (int, float) for entry in value
            ):
                odd = next(entry for entry in value if type(entry) not in (int, float))
                raise InvalidInput(
                    f"{where}: a list must hold numbers only, as that of {name!r:.60}; "
                    f"got {odd!r:.60}"
                )


async def rank(experiment: Experiment, visit: Visit) -> RankAnswer:
    """The ranking of a decision that is on disk."""
    request: RankRequest = visit.message
    arms = offer_of(request.actions)
    excluded = {text_of(one) for one in request.excluded_actions or ()}
    eligible = [arm for arm in arms if arm not in excluded]
    if not eligible:
        raise InvalidInput(
            f"excludedActions must leave at least one action; got all {len(arms)} of "
            "them"
        )
    answer = await decide(
        experiment,
        DecideEntry(
            context=flat_features(request.context_features or [], "contextFeatures"),
            arms=arms,
            id=event_id(request.event_id, visit),
            eligible=eligible if len(eligible) < len(arms) else None,
            deferred=bool(request.defer_activation),
            incumbent=eligible[0] if experiment.settings.shadow else None,
            odds=True,
        ),
        visit.sender,
    )
    odds = answer.odds if isinstance(answer.odds, dict) else {}
    if not answer.new:
        check_same(experiment, answer.id, odds=odds, arms=arms, eligible=eligible)
    return RankAnswer(
        ranking_of(odds, list(arms), excluded, answer.arm), answer.id, answer.arm
    )


def offer_of(actions: Sequence[Action]) -> dict[str, object]:
    """The actions as arms with features; ids that are numbers as text."""
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
    """Refuses an event that was ranked before among other actions, by the odds of its
    first answer."""
    others = (
        odds.keys() ^ arms.keys()
        if experiment.arms is None
        else arms.keys() - odds.keys()
    )
    if others or any(share and arm not in eligible for arm, share in odds.items()):
        had = f"eventId {event!r} was ranked before with other actions"
        raise InvalidInput(f"{had}; send the same ones, or another eventId")


def ranking_of(
    odds: Mapping[str, float],
    arms: Sequence[str],
    excluded: Collection[str],
    drawn: str,
) -> list[Ranked]:
    """Actions that are excluded at their places with probability 0; in the others the
    drawn one, then by odds.

    >>> [
    ...     one.id
    ...     for one in ranking_of(
    ...         {"a": 0.0, "b": 0.7, "c": 0.1, "d": 0.2}, "abcd", {"a"}, "c"
    ...     )
    ... ]
    ['a', 'c', 'b', 'd']
    """
    free = iter(
        sorted(
            (arm for arm in arms if arm not in excluded),
            key=lambda arm: (arm != drawn, -odds[arm]),
        )
    )
    return [
        Ranked(arm, 0.0) if arm in excluded else Ranked(one := next(free), odds[one])
        for arm in arms
    ]
