"""The service's promise written down once more, in plain Python: what the posterior is
after a list of events."""

from math import exp, fsum, isnan, log
from typing import Any

from oddsmith.server.store import (
    Action,
    Activation,
    ConfigurationChange,
    Correction,
    DecisionMade,
    DefaultReward,
    Event,
    ExpertChange,
    Reward,
)

ETA = 0.5


def posterior_of(
    names: list[str], prior: list[float], share: float, events: list[Event]
) -> dict[str, float]:
    """Each expert's weight after these events, which are in the order of their
    positions."""
    weights, prior = list(prior), list(prior)
    roster = list(names)
    counted = dict(_settled(events))
    for position, event in enumerate(events):
        if isinstance(event, ExpertChange):
            roster, weights, prior = _changed(roster, weights, prior, event)
        elif position in counted:
            made, value, before = counted[position]
            if before is not None:
                weights = _turned(weights, made, before, value)
                continue
            weights = _learnt(weights, made, value)
            weights = [
                (1 - share) * w + share * p for w, p in zip(weights, prior, strict=True)
            ]
    return dict(zip(roster, weights, strict=True))


def _settled(events: list[Event]) -> Any:
    """(place, (decision, value, value before)) of every decision that counts, and of
    every late reward."""
    about: dict[str, list[tuple[int, Event]]] = {}
    for position, event in enumerate(events):
        if not isinstance(event, ExpertChange | ConfigurationChange | Action):
            about.setdefault(event.id, []).append((position, event))
    for mine in about.values():
        made = [(p, e) for p, e in mine if isinstance(e, DecisionMade)]
        heard = [(p, e.value) for p, e in mine if isinstance(e, Reward | DefaultReward)]
        if not made or not heard:
            continue
        place, decision = made[0]
        shown = (
            [p for p, e in mine if isinstance(e, Activation)]
            if decision.deferred
            else [place]
        )
        if not shown:
            continue
        rewards = [e.value for _, e in mine if isinstance(e, Reward)]
        corrections = [e.value for _, e in mine if isinstance(e, Correction)]
        settled = max(place, shown[0], heard[0][0])
        late = [(p, e.value) for p, e in mine if isinstance(e, Reward) and p > settled]
        if (
            corrections
            or not late
            or isinstance(mine[[p for p, _ in mine].index(heard[0][0])][1], Reward)
        ):
            value = (
                corrections[-1]
                if corrections
                else rewards[0]
                if rewards
                else heard[0][1]
            )
            yield settled, (decision.decision, value, None)
            continue
        yield settled, (decision.decision, heard[0][1], None)
        if late[0][1] != heard[0][1]:
            yield late[0][0], (decision.decision, late[0][1], heard[0][1])


def _learnt(weights: list[float], decision: Any, reward: float) -> list[float]:
    """Every expert's weight times exp(-eta loss); sleepers times the mean of the
    others."""
    heavier = [
        w * f for w, f in zip(weights, _factors(weights, decision, reward), strict=True)
    ]
    return [w / fsum(heavier) for w in heavier]


def _turned(
    weights: list[float], decision: Any, before: float, reward: float
) -> list[float]:
    """Every expert's weight times what the reward is worth over what the one before it
    was."""
    pairs = zip(
        _factors(weights, decision, reward),
        _factors(weights, decision, before),
        strict=True,
    )
    heavier = [w * new / old for w, (new, old) in zip(weights, pairs, strict=True)]
    return [w / fsum(heavier) for w in heavier]


def _factors(weights: list[float], decision: Any, reward: float) -> list[float]:
    said = [float(p) for p in decision.advice] + [float("nan")] * (
        len(weights) - len(decision.advice)
    )
    factors = [
        float("nan")
        if isnan(p)
        else exp(ETA * (reward * log(p) + (1 - reward) * log(1 - p)))
        for p in said
    ]
    voice = (
        list(weights)
        if decision.log_weights is None
        else [exp(w) for w in decision.log_weights]
    )
    voice += [0.0] * (len(weights) - len(voice))
    awake = [i for i, p in enumerate(said) if not isnan(p)]
    total = fsum(voice[i] for i in awake)
    if any(isnan(f) for f in factors):
        if total == 0:
            return [1.0] * len(weights)
        mean = fsum(voice[i] * factors[i] for i in awake) / total
        factors = [mean if isnan(f) else f for f in factors]
    return factors


def _changed(
    roster: list[str], weights: list[float], prior: list[float], event: ExpertChange
) -> Any:
    if event.change == "added":
        if event.expert not in roster:
            roster, weights, prior = (
                [*roster, event.expert],
                [*weights, 0.0],
                [*prior, 0.0],
            )
        place = roster.index(event.expert)
        if weights[place] > 0 or event.share is None:
            return roster, weights, prior
        mixed = [
            [(1 - event.share) * value for value in values]
            for values in (weights, prior)
        ]
        for values in mixed:
            values[place] = event.share
        return roster, *mixed
    left = [
        [
            0.0 if name == event.expert else value
            for name, value in zip(roster, values, strict=True)
        ]
        for values in (weights, prior)
    ]
    if not all(fsum(values) > 0 for values in left):
        return roster, weights, prior
    return roster, *([value / fsum(values) for value in values] for values in left)
