"""Whether an experiment is well: its odds, experts, rewards and troubles, by sums that
are folded beside its state."""

from collections.abc import Collection, Sequence

from oddsmith.core.names import count_of as counted_things
from oddsmith.core.prediction_clip import ClipCount
from oddsmith.evaluation.draws import ALARM, Standing
from oddsmith.experts.guard.guard import Guarded
from oddsmith.policies.roster import active_experts
from oddsmith.server.experiment.experiment import Experiment
from oddsmith.server.http.routes.route import (
    READ,
    Route,
)
from oddsmith.server.messages import calls as m
from oddsmith.server.messages import figures as f
from oddsmith.server.monitor.choice import choices_sentence
from oddsmith.server.monitor.clips import last_clips
from oddsmith.server.monitor.open_windows import open_windows, young
from oddsmith.server.monitor.promises import promise
from oddsmith.server.monitor.shadow import switch_of
from oddsmith.server.monitor.vitals import hold_up_of, warning_of
from oddsmith.server.statistics import Sums

__all__ = ["ROUTES", "checks"]

_CALIBRATED = 50  # experts that are told, the heaviest first
_COMPARED = 0.5  # of the rewards of the expert asked most
_ALPHA = 0.05
_DECISIVE = 0.0001


async def checks(experiment: Experiment, _: m.Query) -> f.ChecksAnswer:
    """Whether all is well."""
    hold_up = await hold_up_of(experiment) if experiment.settings.shared else None
    # a state that is written in place is read between two updates
    async with experiment.follower.learning:
        follower, weights = experiment.follower, experiment.weights()
        sums, now = follower.sums, follower.now
        choices = choices_sentence(experiment)
        advice = experiment.advice_of(now.policy)
        clips = last_clips(advice, now.policy, now.state)
    found, calibrated = sums.checks, _calibration(sums, weights)
    retired = (
        ()
        if now.policy.bank is None
        else set(weights) - set(active_experts(now.policy))
    )
    failures = now.experts.failures() if isinstance(now.experts, Guarded) else {}
    return f.ChecksAnswer(
        experiment.name,
        now.position,
        _served(found.bets.summary()),
        calibrated,
        _calibration_sentence(calibrated, found.counted, retired),
        choices,
        _rewarded(sums, experiment.settings.window),
        open_windows(sums, experiment.settings),
        found.last_decision,
        found.last_reward,
        found.last_learnt,
        follower.trouble,
        experiment.store.write_trouble,
        warning_of(experiment, hold_up),
        {
            name: total
            for name, kinds in failures.items()
            if (total := sum(kinds.values()))
        },
        promise(now.policy, experiment.arms, found.shown, shadow=sums.shadow),
        switch_of(sums, experiment.scale) if experiment.settings.shadow else None,
        {one.expert: f.ClipCheck(one.clipped, one.n, *one.clip) for one in clips},
        _clipped_sentence(clips),
    )


def _served(standing: Standing) -> f.ServedCheck:
    n, e_value, p_value, suspect, strength, clears_in = standing
    if not n:
        return f.ServedCheck(0, 1.0, 1.0, "well", "No decision was shown yet.")
    shown = f"p = {p_value:.2g}" if p_value >= 1e-6 else "p < 0.000001"
    if p_value > ALARM:
        sentence = (
            f"Nothing in {n:,} decisions says that arms do not follow the logged odds "
            f"({shown}; an alarm needs {ALARM:g})."
        )
        return f.ServedCheck(n, e_value, p_value, "well", sentence)
    word = "broken" if p_value <= _DECISIVE else "look"
    claim = (
        "Arms do not follow"
        if word == "broken"
        else "There is evidence that arms do not follow"
    )
    often = f" in about {strength:.0%} of decisions" if strength < 0.9 else ""
    sentence = (
        f"{claim} the logged odds ({shown}): it looks as if {suspect}{often}. The "
        f"alarm ends after {clears_in:,} more decisions without such evidence."
    )
    return f.ServedCheck(n, e_value, p_value, word, sentence)


def _calibration(sums: Sums, weights: dict[str, float]) -> list[f.ExpertCheck]:
    """What the rewards say about each expert, the heaviest first."""
    told = sorted(
        sums.checks.calibration.results(), key=lambda one: -weights.get(one.expert, 0.0)
    )
    return [
        f.ExpertCheck(*one, one.e_value >= 1 / _ALPHA) for one in told[:_CALIBRATED]
    ]


def _clipped_sentence(clips: Sequence[ClipCount]) -> str:
    """What the experts with clipped predictions are, and what to do; empty if there are
    none."""
    if not clips:
        return ""
    first = str(clips[0])
    more = counted_things(len(clips) - 1, "other expert", "is are")
    rest = f" {more} clipped, too." if len(clips) > 1 else ""
    return f"Of the last predictions of drawn arms, {first}{rest}"


def _calibration_sentence(
    told: list[f.ExpertCheck], counted: int, retired: Collection[str] = ()
) -> str:
    """How many experts are refuted, and whether the one of least mean loss is.

    Losses over other rewards cannot be compared, but sleeping now and then must not
    hide the best expert: those asked for at least half as many rewards as the one asked
    most are compared, and the others are counted. Retired experts are not compared with
    those that act.
    """
    if not told:
        return "No expert has been scored yet."
    acting = [one for one in told if one.expert not in retired] or told
    most = max(one.n for one in acting)
    compared = [one for one in acting if one.n >= _COMPARED * most]
    best = min(compared, key=lambda one: one.loss)
    experts = "expert predicts" if len(told) == 1 else "experts predict"
    over = f" over {best.n:,} of {most:,}" if best.n < most else ""
    fate = "is refuted" if best.refuted else "is consistent with the rewards"
    seldom = counted_things(len(acting) - len(compared), "expert", "was were")
    rest = (
        f"; {seldom} asked for less than half as many, too few to compare"
        if len(compared) < len(acting)
        else ""
    )
    return (
        f"{sum(one.refuted for one in told)} of {len(told)} {experts} other means than "
        f"{counted:,} rewards have (each at level {_ALPHA:g}); the best, {best.expert} "
        f"with mean loss {best.loss:.4g}{over}, {fate}{rest}."
    )


def _rewarded(sums: Sums, window: float | None) -> f.RewardedCheck:
    """Of the decisions whose window had closed by the last event, how many have a
    reward of their own."""
    found = sums.checks
    still = young(sums, window)
    due, rewarded = (
        found.shown - still.shown,
        found.counted - found.defaults - still.rewarded,
    )
    return f.RewardedCheck(due, rewarded, rewarded / due if due > 0 else None)


ROUTES = (
    Route(
        "GET",
        "/v1/checks",
        checks,
        "Whether all is well.",
        READ,
        m.Query,
        f.ChecksAnswer,
    ),
)
