"""Rank: the actions of a call as an offer, and a decision as a ranking."""

from collections.abc import Collection, Mapping, Sequence

from oddsmith.errors import InvalidInput
from oddsmith.service.deciding import decide
from oddsmith.service.doors.door import Visit
from oddsmith.service.doors.personalizer.features import flat_features
from oddsmith.service.doors.personalizer.ids import event_id, text_of
from oddsmith.service.doors.personalizer.messages import Action, RankAnswer, Ranked, RankRequest
from oddsmith.service.experiment import Experiment
from oddsmith.service.messages import DecideEntry

__all__ = ["check_same", "offer_of", "rank", "ranking_of"]


async def rank(experiment: Experiment, visit: Visit) -> RankAnswer:
    """The ranking of a decision that is on disk."""
    request: RankRequest = visit.message
    arms = offer_of(request.actions)
    excluded = {text_of(one) for one in request.excluded_actions or ()}
    eligible = [arm for arm in arms if arm not in excluded]
    if not eligible:
        raise InvalidInput(f"excludedActions must leave at least one action; got all {len(arms)} of them")
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
    return RankAnswer(ranking_of(odds, list(arms), excluded, answer.arm), answer.id, answer.arm)


def offer_of(actions: Sequence[Action]) -> dict[str, object]:
    """The actions as arms with features; ids that are numbers as text."""
    arms: dict[str, object] = {}
    for action in actions:
        id = action.id if type(action.id) is str else text_of(action.id)
        if id in arms:
            raise InvalidInput(f"ids of actions must be distinct; got {id!r:.60} twice")
        arms[id] = flat_features(action.features, f"features of action {id!r:.60}", needed=True)
    return arms


def check_same(
    experiment: Experiment,
    event: str,
    *,
    odds: Mapping[str, float],
    arms: Mapping[str, object],
    eligible: Collection[str],
) -> None:
    """Refuses an event that was ranked before among other actions, by the odds of its first answer."""
    others = odds.keys() ^ arms.keys() if experiment.arms is None else arms.keys() - odds.keys()
    if others or any(share and arm not in eligible for arm, share in odds.items()):
        had = f"eventId {event!r} was ranked before with other actions"
        raise InvalidInput(f"{had}; send the same ones, or another eventId")


def ranking_of(odds: Mapping[str, float], arms: Sequence[str], excluded: Collection[str], drawn: str) -> list[Ranked]:
    """Actions that are excluded at their places with probability 0; in the others the drawn one, then by odds.

    >>> [one.id for one in ranking_of({"a": 0.0, "b": 0.7, "c": 0.1, "d": 0.2}, "abcd", {"a"}, "c")]
    ['a', 'c', 'b', 'd']
    """
    free = iter(sorted((arm for arm in arms if arm not in excluded), key=lambda arm: (arm != drawn, -odds[arm])))
    return [Ranked(arm, 0.0) if arm in excluded else Ranked(one := next(free), odds[one]) for arm in arms]
