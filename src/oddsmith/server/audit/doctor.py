"""doctor: find problems of stores, and give advice. Each check is a function that finds
one kind of problem."""

import time
from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from oddsmith.contexts.rewards import RewardScale
from oddsmith.core.errors import OddsmithError
from oddsmith.core.names import count_of
from oddsmith.core.weights import posterior
from oddsmith.server.audit.chart import RECENT, Chart, chart_of
from oddsmith.server.experiment.clock_hold import ADVICE, last_mark
from oddsmith.server.store.address import public_address
from oddsmith.server.store.changes import window_of
from oddsmith.server.store.place import open_reader

__all__ = ["AILMENTS", "Finding", "Severity", "Symptom", "doctor"]

Severity: TypeAlias = Literal["ok", "notice", "problem"]

_DAY = 86_400.0
_MIB = 2**20
_REPLAY = 14e-6  # estimated seconds to apply an event to a state


class Symptom(NamedTuple):
    """A problem: its severity, its description, and advice (empty if there is none)."""

    level: Severity
    what: str
    advice: str = ""


def _check_unmatched(chart: Chart) -> Symptom:
    n = chart.unmatched
    total = chart.kinds["reward"]
    rewards = count_of(total, "reward")
    if not n:
        return Symptom("ok", f"every one of {rewards} has its decision")
    verb = "is for a decision that was" if n == 1 else "are for decisions that were"
    what = f"{n:,} of {rewards} ({n / total:.1%}) {verb} never made"
    advice = (
        "Send rewards with the id that the decision returned, and check whether "
        "clients of another experiment send their rewards here."
    )
    if n >= 10 and n > 0.05 * total:
        return Symptom("problem", what, advice)
    return Symptom("notice", what, advice)


def _check_waiting(chart: Chart) -> Symptom:
    window = window_of(chart.reading)
    n = chart.overdue
    total = chart.opened
    if window is not None:
        if not n:
            return Symptom(
                "ok", f"every reward window of {window:g} s was closed in time"
            )
        windows = count_of(total, "reward window")
        verb = "is" if n == 1 else "are"
        what = (
            f"{n:,} of {windows} of {window:g} s should have been closed, and {verb} "
            "open"
        )
        return Symptom(
            "problem",
            what,
            "Start the service: it writes the default rewards that are due.",
        )
    what = f"{n:,} of {count_of(total, 'decision')} had no reward for a day"
    if n <= 0.5 * total:
        return Symptom("ok", what)
    them = "it" if n == 1 else "them"
    what += f", and no window gives {them} a default"
    advice = (
        "Set window_s and default_reward in [service] if a missing reward means the "
        "lowest one: otherwise the policy learns only from decisions that were "
        "rewarded."
    )
    return Symptom("notice", what, advice)


def _check_learning(chart: Chart) -> Symptom:
    if len(chart.recent) == RECENT and chart.settled < chart.recent[0][0]:
        what = (
            f"the policy has learned from no reward for the last {RECENT:,} decisions"
        )
        return Symptom(
            "problem",
            what,
            "Check whether rewards are sent with the right ids, and read the "
            "service's log.",
        )
    if chart.folded is None:
        return Symptom(
            "notice",
            f"what the policy has learned is not known: {chart.why}",
            "Ask the service for /v1/posterior.",
        )
    return Symptom(
        "ok",
        f"{count_of(chart.folded.state.learnt, 'reward', 'has have')} been learnt from",
    )


def _check_frozen(chart: Chart) -> Symptom:
    if chart.folded is None or len(chart.names) < 2:
        return Symptom("ok", "there is no posterior over experts to freeze")
    weight = posterior(chart.folded.state.log_weights)
    leader = int(weight.argmax())
    what = f"expert {chart.names[leader]!r} leads with weight {weight[leader]:.4g}"
    judge = chart.reading.about.get("judge") or {}
    if 1 - weight[leader] > 1e-9 or judge.get("share", 0.0) > 0:
        return Symptom("ok", what)
    advice = (
        "That is right if rewards do not change over time; otherwise set share above "
        "0, so that other experts can gain weight again."
    )
    return Symptom(
        "notice",
        f"{what}: all others together have less than one in a thousand million",
        advice,
    )


def _check_exploring(chart: Chart) -> Symptom:
    judge = chart.reading.about.get("judge") or {}
    if judge.get("gamma") != 0 or np.any(np.asarray(judge.get("floors", 0.0)) > 0):
        return Symptom("ok", "arms are explored, as far as the store shows")
    advice = (
        "Set gamma above 0: without exploration, the log cannot show what other "
        "policies would have earned."
    )
    return Symptom("notice", "gamma is 0, so no arm is explored", advice)


def _check_odds(chart: Chart) -> Symptom:
    drawn = [decision.propensity for _, decision in chart.recent]
    least = min(drawn, default=1.0)
    if least >= 1e-3:
        if not drawn:
            return Symptom("ok", "no arm has been drawn yet")
        last = count_of(len(drawn), "decision")
        return Symptom(
            "ok",
            f"the smallest propensity of a drawn arm is {least:.3g}, among the last "
            f"{last}",
        )
    advice = (
        "Raise gamma or floors: in an evaluation, one such row weighs as much as a "
        "thousand others."
    )
    return Symptom("notice", f"an arm was drawn with propensity {least:.3g}", advice)


def _check_draws(chart: Chart) -> Symptom:
    other = chart.other_draws
    if other:
        checked = count_of(len(other) + chart.redrawn, "decision")
        what = (
            f"of the last {checked} that this store drew, {len(other):,} have an arm "
            "that does not follow from their propensities, seed and id, the first at "
            f"position {other[0]:,}"
        )
        advice = (
            "Do not trust any value of this store, and run oddsmith verify, which "
            "lists all of these decisions."
        )
        return Symptom("problem", what, advice)
    if not chart.redrawn:
        return Symptom(
            "ok", "the store has drawn no arm itself, so there is nothing to check"
        )
    last = count_of(chart.redrawn, "draw")
    return Symptom(
        "ok", f"the last {last} of this store follow from propensities, seed and id"
    )


def _check_asleep(chart: Chart) -> Symptom:
    decisions = [decision for _, decision in chart.recent]
    rows = [one.advice for one in decisions if one.advice is not None]
    width = max(map(len, rows), default=0)
    names = chart.names or [f"expert {i}" for i in range(width)]
    last = count_of(len(rows), "decision")
    worst = ""
    share = 0.0
    for i in range(width):
        if chart.present is not None and not chart.present[i]:
            continue  # the expert was retired
        silent = float(np.mean([np.isnan(row[i]) for row in rows if len(row) > i]))
        if silent > share:
            worst = names[i]
            share = silent
    if share <= 0.2:
        return Symptom(
            "ok",
            f"no expert failed to predict in more than {share:.0%} of the last {last}",
        )
    what = f"expert {worst!r} made no prediction in {share:.0%} of the last {last}"
    advice = (
        "See /v1/stats for the errors that it raises, and check whether timeout_ms "
        "is too short for it; or retire it."
    )
    return Symptom("problem" if share == 1 else "notice", what, advice)


def _check_choices(chart: Chart) -> Symptom:
    if chart.choices is None or len(chart.names) < 2:
        return Symptom("ok", "there are no votes of several experts to compare")
    sentence = str(chart.choices)
    what = sentence[0].lower() + sentence[1:-1]
    if chart.choices.low <= 0:
        return Symptom("ok", what)
    advice = (
        'Weigh experts by the rewards that their choices earn: kind = "hedged". Also '
        "check what their predictions were trained on."
    )
    return Symptom("notice", what, advice)


def _check_rewards(chart: Chart) -> Symptom:
    low, high = chart.reading.about.get("reward", (0.0, 1.0))
    values = np.array(chart.rewards)
    n = len(values)
    if not n:
        return Symptom("ok", "0 rewards, nothing unusual")
    values = RewardScale(low, high).value(values)
    if n >= 100 and values.min() == values.max():
        what = f"all {n:,} rewards are {values[0]:g} (of {low:g} to {high:g})"
        advice = (
            "Nothing can be learned from rewards that never differ: check the values "
            "that are sent, and low and high in [reward]."
        )
        return Symptom("problem", what, advice)
    if n >= 1000:
        before = values[:-500]
        last = values[-500:]
        error = np.sqrt(before.var() / len(before) + last.var() / len(last))
        if abs(last.mean() - before.mean()) > 6 * error > 0:
            what = (
                f"the last 500 rewards are {last.mean():.3g} on average, those before "
                f"{before.mean():.3g}"
            )
            advice = (
                "Check whether the measurement of rewards has changed, or the "
                "behaviour of users."
            )
            return Symptom("notice", what, advice)
    rewards = f"{count_of(n, 'reward')}, {values.mean():.3g} on average"
    return Symptom("ok", f"{rewards}, nothing unusual")


def _check_refused(chart: Chart) -> Symptom:
    n = 0 if chart.folded is None else len(chart.folded.refused)
    if not n:
        return Symptom("ok", "no reward was refused by the policy")
    advice = (
        "Keep predictions away from 0 and 1 (set clip), so that no reward is "
        "impossible according to all experts."
    )
    them = "it" if n == 1 else "them"
    return Symptom(
        "problem",
        f"{count_of(n, 'reward', 'was were')} ignored, because the policy rejected "
        f"{them}",
        advice,
    )


def _check_corrections(chart: Chart) -> Symptom:
    n = chart.kinds["correction"]
    rewards = chart.kinds["reward"] + chart.kinds["default"]
    if n < 10 or n <= 0.01 * rewards:
        what = f"{count_of(n, 'correction')} of {count_of(rewards, 'reward')}"
        return Symptom("ok", what)
    advice = (
        "After each correction, all later events are folded again: send rewards when "
        "they are final, or use a window."
    )
    return Symptom(
        "notice",
        f"{n:,} corrections of {rewards:,} rewards ({n / rewards:.1%}) are many",
        advice,
    )


def _check_clock(chart: Chart) -> Symptom:
    mark = last_mark(chart.reading)
    if mark is not None and chart.now < mark.end:
        return Symptom("problem", mark.sentence, f"{ADVICE}.")
    if chart.future:
        advice = (
            "Correct the clock of the machine that serves: windows and the erasure "
            "of contexts depend on it."
        )
        return Symptom(
            "problem",
            f"{count_of(chart.future, 'event', 'is are')} from the future",
            advice,
        )
    if chart.backwards:
        what = (
            "the time of events decreases at "
            f"{count_of(chart.backwards, 'position')}, first at "
            f"{chart.first_backwards:,}"
        )
        return Symptom(
            "notice",
            what,
            "Synchronize the clocks of the machines (NTP), because reward windows "
            "depend on them.",
        )
    if chart.silence > _DAY:
        what = (
            f"no event was written for {chart.silence / _DAY:.1f} days before "
            f"position {chart.silence_at:,}"
        )
        return Symptom(
            "notice",
            what,
            "Check whether the service or its clients were down at that time.",
        )
    return Symptom("ok", "the times of events increase, without a long gap")


def _check_snapshots(chart: Chart) -> Symptom:
    broken = chart.broken_snapshots
    if broken:
        what = (
            f"{count_of(len(broken), 'snapshot', 'is are')} damaged, the last at "
            f"position {broken[-1]:,}"
        )
        return Symptom(
            "problem",
            what,
            "No event is lost, because the state is computed from the log; check the "
            "disk.",
        )
    n = chart.since_snapshot
    if n <= 200_000:
        return Symptom("ok", f"a restart would read {count_of(n, 'event')}")
    what = (
        f"the last snapshot is {n:,} events old: a restart would take about "
        f"{n * _REPLAY:.0f} s or more"
    )
    return Symptom(
        "notice",
        what,
        "Check whether the service can write snapshots, and the setting "
        "snapshot_every.",
    )


def _check_file(chart: Chart) -> Symptom:
    if chart.file is None:
        return Symptom("ok", "the store is not a file")
    if chart.file.broken is not None:
        advice = (
            "Stop the service, save a copy of the damaged file, and restore the last "
            "good backup."
        )
        return Symptom(
            "problem", f"the file is damaged: {chart.file.broken:.120}", advice
        )
    return Symptom("ok", f"the file is sound, {chart.file.size / _MIB:,.1f} MiB")


def _check_disk(chart: Chart) -> Symptom:
    if chart.file is None:
        return Symptom("ok", "the store is not a file")
    if chart.file.read_only:
        return Symptom(
            "ok",
            "the folder is read-only: the store can be read, and no service can write "
            "to it here",
        )
    size = chart.file.size
    log = chart.file.log_size
    free = chart.file.free
    if free < 256 * _MIB or free < log:
        return Symptom(
            "problem",
            f"the disk has {free / _MIB:,.0f} MiB left",
            "Make room: a full disk refuses events.",
        )
    if log > 64 * _MIB and log > 0.5 * size:
        what = (
            f"the write-ahead log has {log / _MIB:,.0f} MiB, the store "
            f"{size / _MIB:,.0f} MiB"
        )
        return Symptom(
            "notice",
            what,
            "Another program has had the file open for reading for a long time: end "
            "it, so that the write-ahead log can be emptied.",
        )
    return Symptom("ok", f"the disk has {free / _MIB:,.0f} MiB left")


def _check_lock(chart: Chart) -> Symptom:
    writers = chart.reading.writers()
    if not writers:
        return Symptom("ok", "no process writes to it")
    verb = "writes" if len(writers) == 1 else "write"
    return Symptom("ok", f"{' and '.join(writers)} {verb} to it")


def _check_statistics(chart: Chart) -> Symptom:
    if not chart.statistics:
        return Symptom("ok", "no statistic of the dashboard has failed")
    advice = (
        "Decisions and learning continue. Report this to the developers of oddsmith; "
        "a later version computes the statistics again from the log."
    )
    return Symptom("notice", chart.statistics, advice)


def _check_restored(chart: Chart) -> Symptom:
    backup = chart.reading.backup
    if backup is None:
        return Symptom("ok", "the store is not a backup, and was not restored from one")
    if backup.restored is None:
        return Symptom(
            "ok",
            f"it is a backup of {_date(backup.time)}, up to position {backup.head:,}",
        )
    what = (
        f"it was restored from a backup after position {backup.head:,} on "
        f"{_date(backup.restored)}"
    )
    what += "; later events of the original store are missing here"
    if not chart.lost:
        return Symptom("ok", what)
    n = len(chart.lost)
    listed = ", ".join(map(repr, chart.lost[:5]))
    if n > 5:
        listed = f"{listed} and {n - 5:,} more"
    what += (
        f". {count_of(n, 'decision', 'is are')} missing for which events came since "
        f"then: {listed}"
    )
    advice = (
        "They were lost, or their ids are wrong: let clients send those decisions "
        "again, and all other events since the backup."
    )
    return Symptom("notice", what, advice)


def _date(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M} UTC"


_STORE = (
    _check_file,
    _check_disk,
    _check_lock,
    _check_clock,
    _check_snapshots,
    _check_statistics,
    _check_restored,
)
_LEARNING = (
    _check_unmatched,
    _check_waiting,
    _check_learning,
    _check_frozen,
    _check_exploring,
    _check_odds,
    _check_draws,
    _check_asleep,
)
_REWARDS = (_check_choices, _check_rewards, _check_refused, _check_corrections)
AILMENTS = {
    check.__name__.removeprefix("_check_"): check
    for check in (*_STORE, *_LEARNING, *_REWARDS)
}
"""The checks by name, in the order of the report."""


class Finding(NamedTuple):
    """The result of one check of one store, with advice if there is a problem."""

    place: str
    check: str
    level: Severity
    what: str
    advice: str

    def __str__(self) -> str:
        finding = f"{self.level:8}{self.check:12}{self.what}."
        return f"{finding} {self.advice}" if self.advice else finding


def doctor(
    places: Sequence[str], *, now: float | None = None, experiment: str | None = None
) -> list[Finding]:
    """Return the findings of all checks on each store; `now` defaults to the current
    time.

    `experiment` selects one experiment of a database; a file must contain it.
    """
    moment = time.time() if now is None else now
    findings: list[Finding] = []
    for place in places:
        findings += _examine(place, moment, experiment)
    return findings


def _examine(place: str, now: float, experiment: str | None) -> list[Finding]:
    address = public_address(place)
    findings: list[Finding] = []
    try:
        with closing(open_reader(place, experiment)) as reading:
            chart = chart_of(reading, place, now)
            for name, check in AILMENTS.items():
                findings.append(Finding(address, name, *check(chart)))
    except OddsmithError as error:
        what = f"it cannot be read: {error}"
        advice = (
            "Give the path of a store; if the store is damaged, restore the last "
            "good backup."
        )
        return [Finding(address, "file", "problem", what, advice)]
    return findings
