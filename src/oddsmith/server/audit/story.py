"""story: list all events of one decision, and compute its reward."""

from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, NamedTuple

from oddsmith.contexts.rewards import RewardScale
from oddsmith.core.decision import PAUSED, Decision
from oddsmith.core.errors import InvalidInput
from oddsmith.core.exact_json import encode
from oddsmith.server.fold.accounts import Account, Count
from oddsmith.server.store.changes import arms_at
from oddsmith.server.store.events import metric_of
from oddsmith.server.store.protocol import Erased, Line, Reading, decision_line
from oddsmith.server.store.slates import asked_as_decision

__all__ = ["Happening", "Story", "story_of"]

_ALL = 2**62  # larger than any position
_WORDS = {
    "decision": "decided",
    "activation": "shown",
    "reward": "rewarded",
    "default": "default",
    "correction": "corrected",
    "metric": "metric",
    "metric_correction": "metric corrected",
}
"""Displayed names of the events that determine a reward. Other events are shown with
their kind."""


class Happening(NamedTuple):
    """An event of a decision, and a description of its effect.

    `sender` is the name of the API key that sent it, if it is known.
    """

    position: int
    time: str
    what: str
    value: float | None
    key: str
    sender: str | None
    effect: str


@dataclass(frozen=True)
class Story:
    """The history of a decision, with values in the caller's units.

    If the store has events of this id, but not the decision, the fields about the
    decision are None. `counts_since` is the position from which the decision counts.
    `reward_since` is the position from which its present `reward` counts, which is
    later if a late reward counts when it arrives. `context` is "erased" if the context
    was erased.
    """

    id: str
    experiment: str
    happenings: tuple[Happening, ...]
    arm: object = None
    propensity: float | None = None
    odds: dict[str, float] | None = None
    position: int | None = None
    seen: int | None = None
    step: int | None = None
    deferred: bool = False
    shadow: bool = False
    paused: bool = False
    barred: dict[str, str] = field(default_factory=dict)
    context: object = None
    reward: float | None = None
    counts_since: int | None = None
    reward_since: int | None = None

    def record(self) -> dict[str, object]:
        """Return the story as JSON."""
        return asdict(self) | {"happenings": [one._asdict() for one in self.happenings]}

    def __str__(self) -> str:
        """Format the story as sentences."""
        if self.position is None or self.odds is None or self.propensity is None:
            return f"There is no decision {self.id!r} yet: its events wait for it."
        how = "an incumbent's choice, by its odds" if self.shadow else "drawn"
        odds = [f"{arm} {share:.4g}" for arm, share in self.odds.items()]
        if len(odds) > 8:
            odds = [*odds[:8], "…"]
        happenings = {one.what: one for one in self.happenings}
        made = happenings["decided"]
        sender = f" for {made.sender!r}" if made.sender else ""
        parts = [
            f"Decision {self.id!r} is {self.arm}, {how} with {self.propensity:.4g} "
            f"({', '.join(odds)}).",
            f"It was made{sender} {made.time}, at position {self.position:,}, by the "
            f"state after position {self.seen or 0:,}.",
        ]
        if self.deferred:
            end = "shown later" if "shown" in happenings else "never shown"
            parts.append(f"It was deferred, and {end}.")
        parts.append(self._reward_sentence())
        if self.paused:
            parts.append("The control decided, because the experiment was paused.")
        if self.barred:
            reasons = [f"{arm} ({why})" for arm, why in self.barred.items()]
            parts.append(f"Not eligible: {', '.join(reasons)}.")
        if self.context == "erased":
            parts.append("Its context was erased.")
        return " ".join(parts)

    def _reward_sentence(self) -> str:
        if self.counts_since is None or self.reward is None:
            return "It does not count yet."
        since = self.reward_since or self.counts_since
        sentence = f"It counts with {self.reward:.12g}, from position {since:,} on"
        if since > self.counts_since:
            sentence += f"; it has counted since position {self.counts_since:,}"
        return f"{sentence}."


def story_of(reading: Reading, id: str) -> Story:
    """Return the story of the decision with this id."""
    lines = reading.history([id], _ALL)
    name = str(reading.about.get("experiment", ""))
    if not lines:
        slots = reading.of_slate(id)
        if slots:
            raise asked_as_decision(id, [line.id for line in slots])
        raise InvalidInput(
            f"id must be that of a decision of {name or 'the store'}; got {id!r:.80}, "
            "which has no events"
        )
    low, high = reading.about.get("reward", (0.0, 1.0))
    scale = RewardScale(low, high)
    account = Account.of(reading)
    happenings = tuple(_happening(account, line, scale) for line in lines)
    made = decision_line(lines)
    if made is None:
        return Story(id, name, happenings)
    (decision,) = reading.decisions([made.position])
    (evidence,) = reading.evidence([made.position])
    context: object = "erased"
    if not isinstance(decision.context, Erased):
        context = encode(decision.context)
    odds = _odds(decision, decision.arms or arms_at(reading, made.seen or 0))
    names = list(odds)
    story = Story(
        id,
        name,
        happenings,
        arm=decision.arm,
        propensity=decision.propensity,
        odds=odds,
        position=made.position,
        seen=made.seen,
        step=decision.step,
        deferred=bool(made.deferred),
        shadow=evidence.shadow,
        paused=decision.group == PAUSED,
        barred={names[place]: why for place, why in evidence.barred.items()},
        context=context,
    )
    if not account.settled:
        return story
    return replace(
        story,
        reward=scale.value(account.value),
        counts_since=account.settled,
        reward_since=account.counts[-1].position,
    )


def _odds(decision: Decision, arms: Any) -> dict[str, float]:
    """Return the propensities by the arm's name, or by its number if the store has no
    names."""
    shares = decision.propensities.tolist()
    names = range(len(shares))
    if arms and len(arms) == len(shares):
        names = arms
    return dict(zip(map(str, names), shares, strict=True))


def _happening(account: Account, line: Line, scale: RewardScale) -> Happening:
    """Add an event to the account of the decision, and return the event with its
    effect."""
    before = account.counts
    is_late = account.default is not None
    account.take(line)
    settles = account.settled == line.position
    value = line.value
    if value is not None and not line.of_metric:
        value = scale.value(value)
    what = _WORDS.get(line.kind, line.kind)
    if line.kind == "reward" and is_late:
        what = "rewarded late"
    effect = _effect(account, line, settles, before, scale)
    return Happening(
        line.position, _moment(line.time), what, value, line.key, line.sender, effect
    )


def _moment(time: float) -> str:
    """Format a time, to the second.

    >>> _moment(1_750_000_000.5), _moment(1e12)
    ('2025-06-15 15:06:40 UTC', 'second 1e+12')
    """
    try:
        return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (OverflowError, ValueError, OSError):
        return f"second {time:g}"


def _effect(
    account: Account,
    line: Line,
    settles: bool,
    before: tuple[Count, ...],
    scale: RewardScale,
) -> str:
    if line.of_metric:
        return f"is an amount of {metric_of(line.key)}"
    if line.kind not in _WORDS:
        return "changes nothing"
    if settles:
        return f"counts with {scale.value(account.value):.12g} from here on"
    if before:
        if account.counts == before:
            return "changes nothing"
        now = scale.value(account.value)
        old = scale.value(before[-1].value)
        return (
            f"counts with {now:.12g} in place of {old:.12g}, from position "
            f"{account.counts[-1].position:,} on"
        )
    if not account.made:
        return "waits for its decision"
    if account.deferred and not account.shown:
        return "counts once it is shown"
    if line.kind in ("decision", "activation"):
        return "waits for a reward"
    return "is added to the sum when the window closes"
