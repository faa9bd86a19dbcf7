"""Targets: the propensities (T, K) that a policy in a fixed state gives to the arms in
each logged context.

If arms were passed in the call, propensities are in the order of each row's offer, and
0 after its last arm.
"""

from contextlib import closing

import numpy as np

from oddsmith.core.arrays import Array, Bools, Ints, whole
from oddsmith.core.decision import State
from oddsmith.core.errors import ExpertFailed, InvalidInput, OddsmithError
from oddsmith.core.names import hint
from oddsmith.core.policy import Policy, check_policy
from oddsmith.evaluation.rows import all_odds, certain_rows
from oddsmith.evaluation.slates import slates_of
from oddsmith.logs.by_policy import answers, for_policy, names_of, numbers_of
from oddsmith.logs.progress import LINE_EVERY_S, Bar
from oddsmith.logs.slates import has_slates
from oddsmith.logs.table import Log
from oddsmith.policies.control import Control

__all__ = [
    "arm_target",
    "control_target",
    "first_target",
    "policy_target",
    "uniform_target",
    "where_drawn",
    "where_offered",
]


def policy_target(log: Log, policy: Policy, state: State | None = None) -> Array:
    """Return the propensities (T, K) of `policy` in `state` (None: before any reward)
    for each context, among the eligible arms.

    The state does not learn while predicting: the target is one fixed policy, as
    estimators require. Do not pass a state that has learnt from this log's rewards,
    because its estimated value would be too high.

    >>> from oddsmith.experts.tables import TableExperts
    >>> from oddsmith.core.gts import GeneralizedThompsonSampling
    >>> policy = GeneralizedThompsonSampling(
    ...     TableExperts(np.array([[[0.2, 0.8]], [[0.6, 0.4]]])), gamma=0.1
    ... )
    >>> policy_target(
    ...     Log(arm=[0, 1, 1], reward=[1, 0, 0], context=np.array([0, 0, 1])), policy
    ... )
    array([[0.05, 0.95], [0.05, 0.95], [0.95, 0.05]])
    """
    check_policy(policy)
    question = for_policy(policy, log)
    if question.offered is not None:
        log.require("models")
    elif question.context is None and policy.bank is not None:
        raise InvalidInput(
            "column context: must be given to ask a policy's experts; got none"
        )
    own_state = state
    if own_state is None:
        own_state = policy.init()
    with closing(Bar("rows of the policy", len(log), every=LINE_EVERY_S)) as bar:
        odds = _policy_odds(question, policy, own_state, bar)
    fixed_arms = (None, question.arms)
    has_own_arms = log.offered is None and log.arms in fixed_arms
    if question.offered is not None or has_own_arms:
        return odds
    # Reorder from the policy's arms to each row's positions.
    numbers = numbers_of(log, question.arms or ())
    of_places = np.take_along_axis(odds, np.maximum(numbers, 0), axis=1)
    return np.where(numbers >= 0, of_places, 0.0)


def _policy_odds(log: Log, policy: Policy, state: State, bar: Bar) -> Array:
    """Return the policy's propensities (T, K) for all rows."""
    target = np.zeros((len(log), log.n_arms))
    done = 0
    batches = answers(policy, state, log)
    while done < len(log):
        try:
            places, answer = next(batches)
        except ExpertFailed as error:
            if not isinstance(error.__cause__, KeyError):
                raise
            way = "columns={'context': […]}, or --columns context=age,city"
            raise ExpertFailed(
                f"{error}, which the log's contexts do not have; name the columns: "
                f"{way}"
            ) from error
        except OddsmithError:
            raise
        # Convert any exception of a user's experts to an error with one sentence.
        except Exception as error:
            raised = f"{type(error).__name__}: {error}"
            if log.offered is None:
                raised = f"from row {done} on; {raised}"
            raise ExpertFailed(
                f"the policy must answer the log's contexts {raised:.180}"
            ) from error
        odds = answer.propensities
        width = log.n_arms
        if log.offered is not None:
            width = odds.shape[-1]
        shape = (len(places), width)
        if odds.shape not in (shape, (width,)):
            raise InvalidInput(
                f"the policy must give odds of the log's contexts, shape {shape}; got "
                f"{odds.shape}"
            )
        target[places, :width] = odds
        done += len(places)
        bar.reach(done)
    return target


def uniform_target(log: Log, n_arms: int | None = None) -> Array:
    """Return the propensities (T, K) of a uniform draw among the eligible arms.

    >>> uniform_target(
    ...     Log(arm=[0, 2], reward=[1, 0], eligible=[[1, 1, 1], [0, 1, 1]])
    ... ).tolist()
    [[0.3333333333333333, 0.3333333333333333, 0.3333333333333333], [0.0, 0.5, 0.5]]
    """
    if log.eligible is None:
        n = n_arms or log.n_arms
        return np.full((len(log), n), 1.0 / n)
    counts = log.eligible.sum(axis=1, keepdims=True)
    odds: Array = log.eligible / counts
    return odds


def first_target(log: Log) -> Array:
    """Return the propensities (T, K) of always drawing the first eligible arm, in the
    order in which the caller offered them.

    >>> first_target(
    ...     Log(arm=[0, 2], reward=[1, 0], eligible=[[1, 1, 1], [0, 1, 1]])
    ... ).tolist()
    [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
    """
    odds = np.zeros((len(log), log.n_arms))
    first: Ints = np.zeros(len(log), np.int64)
    if log.eligible is not None:
        first = log.eligible.argmax(axis=1)
    odds[np.arange(len(log)), first] = 1.0
    return odds


def arm_target(log: Log, arm: int | str, n_arms: int | None = None) -> Array:
    """Return the propensities (T, K) of always drawing one arm, given by number or
    name. Every row must have offered this arm.

    >>> arm_target(Log(arm=[0, 1], reward=[1, 0]), 1).tolist()
    [[0.0, 1.0], [0.0, 1.0]]
    >>> arm_target(
    ...     Log(arm=[0, 1], reward=[1, 0], offered=[["a"], ["b", "a"]]), "a"
    ... ).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    if isinstance(arm, str):
        return _named_target(log, arm)
    n = n_arms or log.n_arms
    odds = np.zeros((len(log), n))
    number = whole("arm", arm, low=0, high=n - 1)
    odds[:, number] = 1.0
    return odds


def control_target(
    log: Log, control: Control | Policy | str | None = None, state: State | None = None
) -> Array:
    """Return the propensities (T, K) of a control: `arm:NAME`, `first`, `uniform`,
    `incumbent`, `logged` (the logging policy), or a policy in a state.

    If a row did not offer the arm, the first arm of the row replaces it. `incumbent`
    and None stand for the column `control` of the log, which is NaN in rows without a
    control.

    >>> log = Log(
    ...     arm=[0, 1], reward=[1, 0], propensity=[0.5, 0.2], arms=["old", "new"]
    ... )
    >>> control_target(log, "arm:old").tolist()
    [[1.0, 0.0], [1.0, 0.0]]
    >>> control_target(log, "logged").tolist()
    [[0.5, 0.5], [0.8, 0.2]]
    """
    if control == "logged":
        odds = all_odds(log)
        if odds is None:
            raise InvalidInput(
                "control logged needs the odds of all arms; the log has those of "
                "drawn arms"
            )
        return odds
    own = None if control is None else Control.of(control)
    if own is None or own.kind == "incumbent":
        if log.control is None:
            raise InvalidInput(
                "control incumbent needs the column control of the log; got none"
            )
        if log.holdout is None:
            return log.control
        has_control = ~np.isnan(log.holdout)
        return np.where(has_control[:, None], log.control, np.nan)
    if own.kind == "uniform":
        return uniform_target(log)
    if own.policy is not None:
        return policy_target(log, own.policy, state)
    first = first_target(log)
    if own.arm is None:
        return first
    odds = _arm_mask(log, own.arm).astype(np.float64)
    is_offered = odds.sum(axis=1) > 0
    return np.where(is_offered[:, None], odds, first)


def where_offered(log: Log, arm: str) -> Log:
    """Return the rows of the log that offered an arm, by its name. A log of slates must
    be restricted to one slot first.

    >>> len(
    ...     where_offered(
    ...         Log(arm=[0, 1], reward=[1, 0], offered=[["a"], ["b", "a"]]), "b"
    ...     )
    ... )
    1
    """
    rows = np.asarray(_arm_mask(log, arm).any(axis=1))
    if rows.all():
        return log
    # In a slate, which arms a slot offers depends on earlier draws, so selecting rows
    # would bias the estimate.
    if slates_of(log) is not None:
        alone = ""
        if np.asarray(log.slot == 0).any():
            alone = "; --slot 0: decisions that stand alone"
        raise InvalidInput(
            f"rows that offered {arm!r:.40} must be of one slot, for in later ones it "
            "may be taken: restrict the log to a slot first (log[log.slot == 2], "
            f"--slot 2{alone})"
        )
    return log[rows]


def where_drawn(log: Log) -> Log:
    """Return the log without rows in which one arm had propensity 1 although others
    were eligible, as with an incumbent or a fallback.

    The selection depends only on propensities, which are known before the draw. So
    estimates for the remaining rows stay unbiased. A log of slates must be restricted
    to one slot first.

    >>> len(
    ...     where_drawn(
    ...         Log(arm=[0, 1], reward=[1, 0], propensities=[[1, 0], [0.5, 0.5]])
    ...     )
    ... )
    1
    """
    certain = certain_rows(log)
    # Later propensities of a slate depend on earlier draws.
    in_slate = certain & (log.slot != 0)
    if slates_of(log) is not None and in_slate.any():
        raise InvalidInput(
            "rows with one arm that had all odds must be of one slot to be left out, "
            "for in later ones that may depend on earlier arms: restrict the log to a "
            "slot first (log[log.slot == 2], --slot 2)"
        )
    if certain.any():
        return log[~certain]
    return log


def _named_target(log: Log, arm: str) -> Array:
    odds = _arm_mask(log, arm).astype(np.float64)
    absent = np.asarray(odds.sum(axis=1) == 0)
    if not absent.any():
        return odds
    reason = ""
    if has_slates(log):
        reason = " (a slot before may have taken it)"
    if slates_of(log) is not None:
        restrict = _one_slot(log, absent)
    else:
        rest = (~absent).sum()
        restrict = f"the other {rest:,} rows (where_offered, --where-offered)"
    without = f"{absent.sum():,} of {len(log):,} rows"
    raise InvalidInput(
        f"target arm:{arm} must be an arm that every row offered; {without} did "
        f"not{reason}: restrict the log to {restrict}"
    )


def _one_slot(log: Log, absent: Bools) -> str:
    """Return the rows of a log with slates for which one arm can be a target: the rows
    of one slot, or the decisions outside slates."""
    slot = "one slot, where it was left (--slot N --where-offered)"
    alone = np.asarray(log.slot == 0)
    # No decision outside of slates has the arm, or there are no such decisions.
    if absent[alone].all():
        return slot
    option = "--slot 0"
    if absent[alone].any():
        option = "--slot 0 --where-offered"
    rows = (alone & ~absent).sum()
    return (
        f"the {rows:,} decisions that stand alone and offered it ({option}), or to "
        f"{slot}"
    )


def _arm_mask(log: Log, arm: str) -> Bools:
    """Return a mask (T, K) of the arm with this name. For slates, and for arms that
    were passed in the call, the mask is true only in rows where the arm was
    eligible."""
    names = names_of(log)
    if arm not in names:
        some = ", ".join(names[:8])
        more = ""
        if len(names) > 8:
            more = " …"
        raise InvalidInput(
            f"target arm:NAME must name one of the log's arms, {some}{more}; got "
            f"{arm!r}{hint(arm, names)}"
        )
    number = names.index(arm)
    mask: Bools = numbers_of(log, names) == number
    is_fixed = log.offered is None and log.slate is None
    if is_fixed or log.eligible is None:
        return mask
    return mask & log.eligible
