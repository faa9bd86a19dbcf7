"""Replay a log through a learning policy by rejection sampling, and compute the
posterior that other experts would have had."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from oddsmith.core import weights
from oddsmith.core.arrays import Array, Bools, Ints, number
from oddsmith.core.checks import check_losses, check_odds, check_state
from oddsmith.core.contexts import rows as rows_of
from oddsmith.core.decision import Decision, Odds, State
from oddsmith.core.draw import Uniforms
from oddsmith.core.errors import InvalidInput, OrderMatters
from oddsmith.core.gts import GeneralizedThompsonSampling
from oddsmith.core.names import hint
from oddsmith.core.offer import Offer
from oddsmith.core.policy import Policy, check_policy
from oddsmith.evaluation.rows import rewarded_rows
from oddsmith.evaluation.slates import slates_of
from oddsmith.logs.advice import decisions_for, named_advice
from oddsmith.logs.by_policy import for_policy, question_of
from oddsmith.logs.rules import times
from oddsmith.logs.table import Log

__all__ = ["Hindsight", "Replayed", "hindsight", "replay"]


class Replayed(NamedTuple):
    """The rows of a log that a replay accepted, as the policy's own history. The fields
    are the row numbers, rewards, decisions, the final state, and the experts whose
    predictions the decisions contain.

    `value` is the mean reward of the accepted rows, and `error` is its standard error.
    """

    rows: Ints
    rewards: Array
    decisions: list[Decision]
    state: State
    experts: tuple[str, ...] | None

    @property
    def value(self) -> float:
        """Return the mean reward; NaN if no row was accepted."""
        if len(self.rewards):
            return float(self.rewards.mean())
        return float("nan")

    @property
    def error(self) -> float:
        """Return the standard error of the mean reward; NaN for fewer than two rows."""
        n = len(self.rewards)
        if n < 2:
            return float("nan")
        error = self.rewards.std(ddof=1) / np.sqrt(n)
        return float(error)

    def log(self) -> Log:
        """Return the history as a log with the policy's own propensities."""
        return Log.of(self.decisions, self.rewards, experts=self.experts)


def replay(
    policy: Policy,
    log: Log,
    *,
    seed: int,
    floor: float | None = None,
    steps: int | None = None,
) -> Replayed:
    """Replay a log through a learning `policy` by rejection sampling (Li et al. 2011).

    A row with logged arm a is accepted with probability π(a) c / p(a), where π are the
    policy's current propensities, p are the logged propensities, and c = `floor` is a
    lower bound of all logged propensities. Other rows are skipped. The constant c does
    not depend on the context, so accepted rows have the same distribution of contexts
    as the log, and arms drawn from π. So the history has the distribution of a live run
    with the same number of steps. With a uniform logging policy this is the method of
    Li et al., with the random choice of the arm integrated out. About c · T rows are
    accepted; `steps` limits their number.

    The method applies if contexts and rewards are independent from row to row, and c is
    a lower bound for every eligible arm. If the log has the propensities of all arms,
    `floor` can be None and is computed; otherwise it must be given. Rows without a
    reward are left out.
    """
    check_policy(policy)
    if slates_of(log) is not None:
        why = "later slots of a slate depend on earlier ones"
        raise InvalidInput(
            f"log must have rows that are independent, and {why}: replay one slot, "
            "log[log.slot == 1]"
        )
    known = for_policy(policy, rewarded_rows(log))
    if known.offered is not None:
        known.require("models")
    elif known.context is None:
        raise InvalidInput("column context: must be given to replay a policy; got none")
    least = _floor(known, floor)
    uniforms = Uniforms(seed)
    state = policy.init()
    propensity = np.asarray(known.propensity)
    rows: list[int] = []
    decisions: list[Decision] = []
    contexts: Sequence[Any] = [None] * len(known)
    if known.context is not None:
        contexts = rows_of(known.context)
    is_known = ~np.isnan(log.reward)
    row_numbers = np.flatnonzero(is_known).tolist()
    for i, row in enumerate(row_numbers):
        question, eligible = question_of(known, contexts[i], i)
        step = len(rows) + 1
        odds = policy.odds(state, question, eligible=eligible, step=step)
        check_odds(policy, odds, eligible=eligible, step=step)
        decision = _logged_decision(odds, known, i, question, eligible, step)
        accepted = least * decision.propensity
        if uniforms(row) * propensity[i] >= accepted:
            continue
        reward = float(known.reward[i])
        state = policy.update(state, decision, reward)
        check_state(policy, state)
        rows.append(row)
        decisions.append(decision)
        if len(rows) == steps:
            break
    return Replayed(
        rows=np.array(rows, dtype=np.int64),
        rewards=log.reward[rows],
        decisions=decisions,
        state=state,
        experts=named_advice(policy),
    )


class Hindsight(NamedTuple):
    """The posterior (N,) of N experts after the log, and their `log_weights` (T + 1, N)
    before the first row and after each row.

    `losses` are mean losses on the drawn arms over the rows in which an expert was
    available (NaN: none).
    """

    names: tuple[str, ...]
    posterior: Array
    losses: Array
    log_weights: Array

    @property
    def winner(self) -> str:
        """The expert with the largest posterior, the first if several are equal."""
        return self.names[int(self.posterior.argmax())]


def hindsight(
    policy: GeneralizedThompsonSampling,
    log: Log,
    *,
    since: Mapping[str, object] | None = None,
) -> Hindsight:
    """Return the exact posterior that `policy` would have if its experts had made
    predictions for the log's decisions.

        w_i ∝ p_i Π_t exp(-η ℓ(f_i(x_t, a_t), r_t))

    `since` states from which row (a number) or time on an expert is available. Before
    this row, the expert is treated like one without a prediction: it is charged the
    mixed loss of the available experts, so it keeps its share of the prior. If the log
    has no predictions of an expert of this name, the expert predicts now, from the
    contexts. The result is exact for any logging policy, because only the drawn arms
    are scored; but experts are tested only on the arms that were drawn.

    The policy must have fixed experts, share = 0 and discount = 1.
    """
    if not isinstance(policy, GeneralizedThompsonSampling) or not policy.orderless:
        raise OrderMatters(
            "hindsight needs a GeneralizedThompsonSampling with fixed experts, share=0 "
            "and discount=1"
        )
    known = log.rewarded()
    decisions = decisions_for(policy, policy.init(), known)
    is_rewarded = ~np.isnan(log.reward)
    present = _present(policy, log, since or {})[is_rewarded]
    given = np.asarray(decisions.advice)
    advice = np.where(present, given, np.nan)
    losses = policy.loss(advice, known.reward[:, None])
    losses = check_losses(policy, losses, advice, decisions.step)
    bonus = policy.optimism * decisions.bonus if policy.optimism else 0.0  # type: ignore[operator]
    factors = -policy.eta * losses + bonus
    return _hindsight(policy, factors, losses)


def _hindsight(
    policy: GeneralizedThompsonSampling, factors: Array, losses: Array
) -> Hindsight:
    """Return the weights after each row. An expert that is not available in a row
    counts as having made no prediction."""
    asleep = np.isnan(factors)
    n, experts = factors.shape
    path = np.empty((n + 1, experts))
    path[0] = policy.init().log_weights
    steps = zip(factors, asleep, strict=True)
    for t, (row, sleepers) in enumerate(steps):
        charges = row
        if sleepers.any():
            own = np.where(sleepers, 0.0, row)
            charges = weights.charge(own, path[t], sleepers)
        path[t + 1] = weights.reweigh(path[t], charges)
    scored = (~asleep).sum(axis=0)
    total = np.where(asleep, 0.0, losses).sum(axis=0)
    unknown = np.full(len(total), np.nan)
    mean = np.divide(total, scored, out=unknown, where=scored > 0)
    names = tuple(policy.experts.names)
    posterior = weights.posterior(path[-1])
    return Hindsight(names, posterior, mean, path)


def _logged_decision(
    odds: Odds, log: Log, i: int, question: Any, eligible: Bools | None, step: int
) -> Decision:
    """Return the logged arm of a row as a decision of the policy, with the policy's
    propensities and advice."""
    arm = int(log.arm[i])
    shape = odds.propensities.shape
    if len(shape) != 1 or arm >= shape[0]:
        raise InvalidInput(
            f"policy must give odds of the log's {log.n_arms} arms for one context; "
            f"got shape {shape}"
        )
    advice = None
    if odds.advice is not None:
        advice = odds.advice[:, arm].astype(np.float64)
    decision = Decision(
        step=step,
        context=question,
        eligible=eligible,
        arm=arm,
        propensities=odds.propensities,
        advice=advice,
        bonus=odds.bonus,
        log_weights=odds.log_weights,
    )
    if not isinstance(question, Offer):
        return decision
    return decision._replace(
        context=question.context, arms=question.arms, features=question.features
    )


def _floor(log: Log, floor: float | None) -> float:
    """Return a lower bound for all propensities of the logging policy."""
    has_floor = floor is not None or log.kind == "exact" or _uniform(log)
    if log.propensity is None:
        log.require("weights")
    elif not has_floor:
        log.require("odds")
    least = float(np.min(log.propensity))  # type: ignore[arg-type]
    if log.propensities is not None:
        odds = log.propensities
        if log.eligible is not None:
            odds = np.where(log.eligible, odds, np.inf)
        least = float(odds.min())
    if least == 0:
        raise InvalidInput(
            "column propensities: must be above 0 for every eligible arm to replay a "
            "policy; got 0"
        )
    if floor is None:
        return least
    number("floor", floor, low=0, high=1, open_low=True)
    if floor > least:
        raise InvalidInput(
            f"floor must be at most the log's least odds, {least:g}; got {floor!r}"
        )
    return floor


def _uniform(log: Log) -> bool:
    """Return whether every drawn arm had propensity 1/K, where K is the number of named
    or eligible arms. All other arms then had this propensity, too."""
    if log.propensity is None:
        return False
    if log.arms is None and log.eligible is None and log.offered is None:
        return False
    n_arms = np.asarray(log.n_arms)
    if log.eligible is not None:
        n_arms = log.eligible.sum(axis=1)
    return bool(np.allclose(log.propensity * n_arms, 1, rtol=0, atol=1e-6))


def _present(
    policy: GeneralizedThompsonSampling, log: Log, since: Mapping[str, object]
) -> Bools:
    """Return a mask (T, N) of the experts that are available in each row."""
    names = list(policy.experts.names)
    shape = (len(log), len(names))
    present = np.ones(shape, dtype=np.bool_)
    for name, start in since.items():
        if name not in names:
            raise InvalidInput(
                f"since must name experts of {names[:8]}; got {name!r}"
                f"{hint(str(name), names)}"
            )
        column = names.index(name)
        if isinstance(start, int | np.integer) and not isinstance(start, bool):
            present[: int(start), column] = False
            continue
        if log.time is None:
            raise InvalidInput(
                "since must be numbers of rows where the log has no column time; got "
                f"{start!r}"
            )
        try:
            present[:, column] = log.time >= times([start])[0]
        except (TypeError, InvalidInput) as error:
            raise InvalidInput(
                f"since must be rows or times like 2026-03-01; got {start!r} for "
                f"{name!r}"
            ) from error
    has_expert = present.any(axis=1)
    if not has_expert.all():
        row = int(has_expert.argmin())
        raise InvalidInput(
            f"since must leave an expert in the pool at every row; row {row} has none"
        )
    return present
