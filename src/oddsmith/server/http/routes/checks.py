"""Routes for health checks of an experiment: its propensities, experts, rewards and
faults. The statistics are updated together with the state."""

from collections.abc import Collection, Sequence

from oddsmith.core.experts import Experts
from oddsmith.core.names import count_of as counted_things
from oddsmith.evaluation.draws import ALARM, Standing
from oddsmith.experts.guard.guard import Guarded
from oddsmith.experts.prediction_clip import ClipCount
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

# maximum number of experts that are listed by name; the heaviest ones are listed
_NAMED_EXPERTS = 50
# an expert is not compared if it has fewer rewards than this share of the largest
# number of rewards of any expert
_COMPARED = 0.5
_ALPHA = 0.05
_DECISIVE = 0.0001


async def checks(experiment: Experiment, _: m.Query) -> f.ChecksAnswer:
    """Return the results of all health checks of an experiment."""
    settings = experiment.settings
    hold_up = await hold_up_of(experiment) if settings.shared else None
    # The state may be updated in place: hold the lock so that we never read a
    # half-finished update.
    async with experiment.follower.learning:
        follower = experiment.follower
        sums = follower.sums
        now = follower.now
        weights = experiment.weights()
        choices = choices_sentence(experiment)
        clips = last_clips(experiment.advice_of(now.policy), now.policy, now.state)
    found = sums.checks
    calibration = _calibration(sums, weights)
    retired: set[str] = set()
    if now.policy.bank is not None:
        retired = set(weights) - set(active_experts(now.policy))
    served_as_logged = _served_check(found.bets.summary())
    guarantee = promise(
        now.policy,
        experiment.arms,
        found.shown,
        shadow=sums.shadow,
        actions=experiment.operator.controls.position > 0,
    )
    return f.ChecksAnswer(
        experiment.name,
        now.position,
        served_as_logged=served_as_logged,
        calibration=calibration,
        calibration_sentence=_calibration_sentence(calibration, found.counted, retired),
        choices_sentence=choices,
        rewarded=_reward_check(sums, settings.window),
        open_windows=open_windows(sums, settings),
        last_decision_t=found.last_decision,
        last_reward_t=found.last_reward,
        last_learnt_t=found.last_learnt,
        trouble=follower.trouble,
        store_trouble=experiment.store.write_trouble,
        warning=warning_of(experiment, hold_up),
        asleep=_failure_counts(now.experts),
        guarantee=guarantee,
        switch=switch_of(sums, experiment.scale) if settings.shadow else None,
        clipped={one.expert: _clip_check(one) for one in clips},
        clipped_sentence=_clipped_sentence(clips),
    )


def _failure_counts(bank: Experts | None) -> dict[str, int]:
    """Return the number of failures by expert."""
    counts: dict[str, int] = {}
    if isinstance(bank, Guarded):
        for name, kinds in bank.failures().items():
            total = sum(kinds.values())
            if total:
                counts[name] = total
    return counts


def _clip_check(one: ClipCount) -> f.ClipCheck:
    low, high = one.clip
    return f.ClipCheck(one.clipped, one.n, low, high)


def _served_check(standing: Standing) -> f.ServedCheck:
    """Return whether the frequencies of the arms agree with the logged propensities, as
    a word and a sentence."""
    n = standing.n
    p_value = standing.p_value
    if not n:
        return f.ServedCheck(0, 1.0, 1.0, "well", "No decision was shown yet.")
    p_text = f"p = {p_value:.2g}" if p_value >= 1e-6 else "p < 0.000001"
    if p_value > ALARM:
        word = "well"
        sentence = (
            f"{n:,} decisions give no evidence against the logged odds ({p_text}; an "
            f"alarm needs {ALARM:g})."
        )
    else:
        word = "look"
        claim = "There is evidence that arms do not follow"
        if p_value <= _DECISIVE:
            word = "broken"
            claim = "Arms do not follow"
        often = ""
        if standing.strength < 0.9:
            often = f" in about {standing.strength:.0%} of decisions"
        sentence = (
            f"{claim} the logged odds ({p_text}): it looks as if "
            f"{standing.suspect}{often}. The alarm ends after {standing.clears_in:,} "
            "more decisions without such evidence."
        )
    return f.ServedCheck(n, standing.e_value, p_value, word, sentence)


def _calibration(sums: Sums, weights: dict[str, float]) -> list[f.ExpertCheck]:
    """For each expert, return whether the rewards refute its predictions. Experts are
    sorted by decreasing weight."""
    results = sorted(
        sums.checks.calibration.results(),
        key=lambda one: -weights.get(one.expert, 0.0),
    )
    found: list[f.ExpertCheck] = []
    for one in results[:_NAMED_EXPERTS]:
        is_refuted = one.e_value >= 1 / _ALPHA
        check = f.ExpertCheck(one.expert, one.loss, one.n, one.e_value, is_refuted)
        found.append(check)
    return found


def _clipped_sentence(clips: Sequence[ClipCount]) -> str:
    """Return a sentence that names experts with clipped predictions and gives advice;
    empty if there are none."""
    if not clips:
        return ""
    rest = ""
    if len(clips) > 1:
        others = counted_things(len(clips) - 1, "other expert", "is are")
        rest = f" {others} clipped, too."
    return f"Of the last predictions of drawn arms, {clips[0]}{rest}"


def _calibration_sentence(
    found: list[f.ExpertCheck], counted: int, retired: Collection[str] = ()
) -> str:
    """Return a sentence about how many experts are refuted, and whether a refuted
    expert has the smallest mean loss.

    Losses over different rewards cannot be compared, but an expert must not be left out
    because a few predictions are missing. So experts are compared if they have at least
    half as many rewards as the expert with the most. The sentence contains the number
    of experts that are left out. Retired experts are not compared with active ones.
    """
    if not found:
        return "No expert has been scored yet."
    n_refuted = sum(one.refuted for one in found)
    experts = "expert predicts" if len(found) == 1 else "experts predict"
    active = [one for one in found if one.expert not in retired] or found
    most = max(one.n for one in active)
    compared = [one for one in active if one.n >= _COMPARED * most]
    best = min(compared, key=lambda one: one.loss)
    over = f" over {best.n:,} of {most:,}" if best.n < most else ""
    fate = "is refuted" if best.refuted else "is consistent with the rewards"
    rest = ""
    n_others = len(active) - len(compared)
    if n_others:
        others = counted_things(n_others, "expert", "was were")
        rest = f"; {others} asked for less than half as many, too few to compare"
    return (
        f"{n_refuted} of {len(found)} {experts} other means than {counted:,} rewards "
        f"have (each at level {_ALPHA:g}); the best, {best.expert} with mean loss "
        f"{best.loss:.4g}{over}, {fate}{rest}."
    )


def _reward_check(sums: Sums, window: float | None) -> f.RewardedCheck:
    """Count the decisions whose window had closed by the last event, and how many of
    these decisions have a reward instead of the default."""
    found = sums.checks
    recent = young(sums, window)
    due = found.shown - recent.shown
    rewarded = found.counted - found.defaults - recent.rewarded
    share = rewarded / due if due > 0 else None
    return f.RewardedCheck(due, rewarded, share)


ROUTES = (
    Route(
        "GET",
        "/v1/checks",
        checks,
        "Health checks of an experiment.",
        READ,
        m.Query,
        f.ChecksAnswer,
    ),
)
