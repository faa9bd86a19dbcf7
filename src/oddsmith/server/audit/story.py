"""story: what became of one decision, event by event, and what it counts with."""

from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from math import isnan
from typing import Any, NamedTuple

from oddsmith.contexts.rewards import RewardScale
from oddsmith.core.decision import Decision
from oddsmith.core.errors import InvalidInput
from oddsmith.core.exact_json import encode
from oddsmith.server.fold.accounts import Account, Count
from oddsmith.server.store.changes import arms_at
from oddsmith.server.store.events import metric_of
from oddsmith.server.store.protocol import Erased, Line, Reading, decision_line
from oddsmith.server.store.slates import asked_as_decision

__all__ = ["Happening", "Story", "story_of"]

_ALL = 2**62  # beyond any position
_WORDS = {
    "decision": "decided",
    "activation": "shown",
    "reward": "rewarded",
    "default": "default",
    "correction": "corrected",
    "metric": "metric",
    "metric_correction": "metric corrected",
}
"""What to call the events that make up a decision's reward. An event of another kind
changes nothing, and is called by its kind."""


class Happening(NamedTuple):
    """An event of a decision: where it stands, when it came and from which key, what it
    is, its value, and what it did.

    `sender` is the name of the key that sent it, where that is known.
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
    """What became of a decision. Values are in the units that rewards are sent in.

    Without its decision, of which only later events are there, the fields about it are
    None. `counts_since` is the position from which on it counts, and `reward` what
    with, from position `reward_since` on (later, where a late reward counts as it
    arrives); `context` is "erased" where it was.
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
    context: object = None
    reward: float | None = None
    counts_since: int | None = None
    reward_since: int | None = None

    def record(self) -> dict[str, object]:
        """The story as JSON."""
        return asdict(self) | {"happenings": [one._asdict() for one in self.happenings]}

    def __str__(self) -> str:
        """The story in sentences."""
        if self.position is None or self.odds is None or self.propensity is None:
            return f"There is no decision {self.id!r} yet: what came for it waits."
        drawn = "an incumbent's choice, by its odds" if self.shadow else "drawn"
        odds = ", ".join(
            f"{arm} {share:.4g}" for arm, share in list(self.odds.items())[:8]
        )
        more = ", …" if len(self.odds) > 8 else ""
        parts = [
            f"Decision {self.id!r} is {self.arm}, {drawn} with {self.propensity:.4g} "
            f"({odds}{more})."
        ]
        made = self.happenings[[one.what for one in self.happenings].index("decided")]
        sender = f" for {made.sender!r}" if made.sender else ""
        by = f"by the state after position {self.seen or 0:,}"
        parts.append(
            f"It was made{sender} {made.time}, at position {self.position:,}, {by}."
        )
        shown = any(one.what == "shown" for one in self.happenings)
        if self.deferred:
            parts.append(
                "It was deferred, and shown later."
                if shown
                else "It was deferred, and never shown."
            )
        if self.counts_since is not None and self.reward is not None:
            since = self.reward_since or self.counts_since
            late = (
                f"; it has counted since position {self.counts_since:,}"
                if since > self.counts_since
                else ""
            )
            parts.append(
                f"It counts with {self.reward:.12g}, from position {since:,} on{late}."
            )
        else:
            parts.append("It does not count yet.")
        if self.context == "erased":
            parts.append("Its context was erased.")
        return " ".join(parts)


def story_of(reading: Reading, id: str) -> Story:
    """The story of the decision with this id."""
    lines = reading.history([id], _ALL)
    name = str(reading.about.get("experiment", ""))
    if not lines:
        if slots := reading.of_slate(id):
            raise asked_as_decision(id, [line.id for line in slots])
        raise InvalidInput(
            f"id must be that of a decision of {name or 'the store'}; got {id!r:.80}, "
            "which is of none"
        )
    scale = RewardScale(*reading.about.get("reward", (0.0, 1.0)))
    account, happenings = Account.of(reading), []
    for line in lines:
        happenings.append(_happening(account, line, scale))
    made = decision_line(lines)
    if made is None:
        return Story(id, name, tuple(happenings))
    (decision,), (evidence,) = (
        reading.decisions([made.position]),
        reading.evidence([made.position]),
    )
    return Story(
        id,
        name,
        tuple(happenings),
        arm=decision.arm,
        propensity=decision.propensity,
        odds=_odds(decision, decision.arms or arms_at(reading, made.seen or 0)),
        position=made.position,
        seen=made.seen,
        step=decision.step,
        deferred=bool(made.deferred),
        shadow=evidence.shadow,
        context="erased"
        if isinstance(decision.context, Erased)
        else encode(decision.context),
        reward=scale.value(account.value)
        if account.settled and not isnan(account.value)
        else None,
        counts_since=account.settled or None,
        reward_since=account.counts[-1].position if account.settled else None,
    )


def _odds(decision: Decision, arms: Any) -> dict[str, float]:
    """The odds by the arms' names, or by their numbers where the store has none."""
    shares = decision.propensities.tolist()
    names = (
        [str(arm) for arm in arms]
        if arms and len(arms) == len(shares)
        else [str(i) for i in range(len(shares))]
    )
    return dict(zip(names, shares, strict=True))


def _happening(account: Account, line: Line, scale: RewardScale) -> Happening:
    """What a line did; the account takes it."""
    before, late = account.counts, account.default is not None
    account.take(line)
    settles = account.settled == line.position
    value = line.value
    if value is not None and not line.of_metric:
        value = scale.value(value)
    what = _WORDS.get(line.kind, line.kind)
    if line.kind == "reward" and late:
        what = "rewarded late"
    effect = _effect(account, line, settles, before, scale)
    return Happening(
        line.position, _moment(line.time), what, value, line.key, line.sender, effect
    )


def _moment(time: float) -> str:
    """A time for people, to the second.

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
        now, was = scale.value(account.value), scale.value(before[-1].value)
        return (
            f"counts with {now:.12g} in place of {was:.12g}, from position "
            f"{account.counts[-1].position:,} on"
        )
    if not account.made:
        return "waits for its decision"
    if account.deferred and not account.shown:
        return "counts once it is shown"
    if line.kind in ("decision", "activation"):
        return "waits for a reward"
    return "is added up when the window closes"
