"""Whether an experiment is well: its odds, experts, rewards and troubles, by sums that are folded beside its state."""

from oddsmith.evaluation.served import Standing
from oddsmith.experts.guarded import Guarded
from oddsmith.service import figure_messages as f
from oddsmith.service import messages as m
from oddsmith.service.choosing import choices_sentence
from oddsmith.service.experiment import Experiment
from oddsmith.service.open_windows import open_windows, young
from oddsmith.service.promises import promise
from oddsmith.service.switching import switch_of
from oddsmith.service.vitals import hold_up_of, lag_warning
from oddsmith.storage.sums import Sums

__all__ = ["checks"]

_CALIBRATED = 50  # experts that are told, the heaviest first
_ALPHA, _DECISIVE = 0.05, 0.0001


async def checks(experiment: Experiment, _: m.Query) -> f.ChecksAnswer:
    """Whether all is well."""
    hold_up = await hold_up_of(experiment) if experiment.settings.shared else None
    async with experiment.follower.learning:  # a state that is written in place is read between two updates
        follower, weights = experiment.follower, experiment.weights()
        sums, now = follower.sums, follower.now
        choices = choices_sentence(experiment)
    found, calibrated = sums.checks, _calibration(sums, weights)
    failures = now.experts.failures() if isinstance(now.experts, Guarded) else {}
    return f.ChecksAnswer(
        experiment.name,
        now.position,
        _served(found.bets.told()),
        calibrated,
        _calibration_sentence(calibrated, found.counted),
        choices,
        _rewarded(sums, experiment.settings.window),
        open_windows(sums, experiment.settings),
        found.last_decision,
        found.last_reward,
        found.last_learnt,
        follower.trouble,
        experiment.store.write_trouble,
        lag_warning(experiment, hold_up),
        {name: total for name, kinds in failures.items() if (total := sum(kinds.values()))},
        promise(now.policy, experiment.arms, found.shown, shadow=sums.shadow),
        switch_of(sums, experiment.scale) if experiment.settings.shadow else None,
    )


def _served(standing: Standing) -> f.ServedCheck:
    n, e_value, p_value, suspect, strength = standing
    if not n:
        return f.ServedCheck(0, 1.0, 1.0, "well", "No decision was shown yet.")
    shown = f"p = {p_value:.2g}" if p_value >= 1e-6 else "p < 0.000001"
    if p_value > _ALPHA:
        sentence = f"Nothing in {n:,} decisions says that arms do not follow the logged odds ({shown})."
        return f.ServedCheck(n, e_value, p_value, "well", sentence)
    claim = "Arms do not follow" if p_value <= _DECISIVE else "There is evidence that arms do not follow"
    often = f" in about {strength:.0%} of decisions" if strength < 0.9 else ""
    sentence = f"{claim} the logged odds ({shown}): it looks as if {suspect}{often}."
    return f.ServedCheck(n, e_value, p_value, "broken" if p_value <= _DECISIVE else "look", sentence)


def _calibration(sums: Sums, weights: dict[str, float]) -> list[f.ExpertCheck]:
    """What the rewards say about each expert, the heaviest first."""
    told = sorted(sums.checks.calibration.told(), key=lambda one: -weights.get(one.expert, 0.0))
    return [f.ExpertCheck(*one, one.e_value >= 1 / _ALPHA) for one in told[:_CALIBRATED]]


def _calibration_sentence(told: list[f.ExpertCheck], counted: int) -> str:
    if not told:
        return "No expert has been scored yet."
    longest = max(one.n for one in told)  # losses over other rewards cannot be compared
    refuted = sum(one.refuted for one in told)
    best = min((one for one in told if one.n == longest), key=lambda one: one.loss)
    fate = "is refuted" if best.refuted else "is consistent with the rewards"
    experts = "expert predicts" if len(told) == 1 else "experts predict"
    return (
        f"{refuted} of {len(told)} {experts} other means than {counted:,} rewards have (each at level {_ALPHA:g}); "
        f"the best of those asked longest, {best.expert} with mean loss {best.loss:.4g}, {fate}."
    )


def _rewarded(sums: Sums, window: float | None) -> f.RewardedCheck:
    """Of the decisions whose window had closed by the last event, how many have a reward of their own."""
    found = sums.checks
    still = young(sums, window)
    due, rewarded = found.shown - still.shown, found.counted - found.defaults - still.rewarded
    return f.RewardedCheck(due, rewarded, rewarded / due if due > 0 else None)
