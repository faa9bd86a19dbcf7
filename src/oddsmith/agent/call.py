"""Call: the input of a policy for one call of an agent."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from oddsmith.contexts.offers import make_offer
from oddsmith.contexts.rules import Rule, barred_arms
from oddsmith.contexts.values import single
from oddsmith.core.arrays import Array, Bools
from oddsmith.core.contexts import is_table, length, one, rows, short_repr
from oddsmith.core.decision import Context, Decision
from oddsmith.core.errors import InvalidInput, NoEligibleArm
from oddsmith.core.names import Arms, OfferedArms, arm_names
from oddsmith.core.offer import Offer, OfferBatch
from oddsmith.core.policy import Policy

__all__ = [
    "Call",
    "bar_arms",
    "call_of",
    "calls_of",
    "check_record",
    "check_takes_offers",
    "eligible_mask",
    "rows_without_barred",
    "without_barred",
]

_NONE_LEFT = (
    "at least one arm must be eligible; got none that is also among the arms of the "
    "call"
)
# Types of a single arm name, arm number or mask entry.
_SCALARS = (str, int, float, np.generic)


@dataclass(frozen=True, slots=True)
class Call:
    """The context or offer for the policy, the mask of eligible arms, and the arms that
    the decision records.

    `names` are the arms, in the order of the propensities; in a batch of offers, one
    tuple per row. `features` describe arms that are passed in the call.
    """

    question: Any
    context: Any
    mask: Bools | None = None
    names: Any = None
    features: Any = None

    def name_arm(
        self, decision: Decision, experts: tuple[str, ...] | None = None
    ) -> Decision:
        """Return the decision with the name of its arm in `arm` and the number in
        `index`. Without names of arms, `arm` stays a number.

        `experts` are recorded as the advisers if the decision has advice.
        """
        if decision.advice is None:
            experts = None
        if self.names is None:
            return decision._replace(advisers=experts) if experts else decision
        number = decision.number
        arm: Any
        if isinstance(self.question, OfferBatch):
            pairs = zip(self.names, number, strict=True)
            arm = np.array([names[place] for names, place in pairs])
            offered_names = self.names
        else:
            names = arm_names(decision.propensities.shape[-1], self.names)
            is_batch = not isinstance(number, int)
            arm = np.array(names)[number] if is_batch else names[number]
            offered_names = names if isinstance(self.question, Offer) else None
        return decision._replace(
            arm=arm,
            index=number,
            arms=offered_names,
            features=self.features,
            advisers=experts,
        )


def call_of(
    policy: Policy, names: Arms | None, context: Context, arms: object, eligible: object
) -> Call:
    """Return the call of one decision."""
    if isinstance(context, list | tuple):
        context = single(context)
    mask: Bools | None = None
    if arms is None:
        if eligible is not None:
            mask = eligible_mask(names, eligible)
        return Call(context, context, mask, names)
    offer = make_offer(context, arms)
    if names is None:
        check_takes_offers(policy)
        if eligible is not None:
            mask = eligible_mask(OfferedArms(offer.arms), eligible)
        return Call(offer, context, mask, offer.arms, offer.features)
    mask = names.mask(offer.arms, "arms")
    if eligible is not None:
        mask = mask & eligible_mask(names, eligible)
    if not mask.any():
        raise NoEligibleArm(_NONE_LEFT)
    return Call(context, context, mask, names, offer.features)


def calls_of(
    policy: Policy,
    names: Arms | None,
    contexts: Context,
    arms: object,
    eligible: object,
) -> list[tuple[Any, Call]]:
    """Return the calls of a batch, each with the numbers of its rows. If rows offer
    different numbers of arms, there is one call for each number of arms; otherwise
    there is one call."""
    n = length(contexts)
    places = np.arange(n)
    mask: Bools | None = None
    if arms is None:
        if eligible is not None:
            mask = eligible_mask(names, eligible, n)
        return [(places, Call(contexts, contexts, mask, names))]
    offers = _offers(contexts, arms, n)
    masks = _masks(names, offers, eligible)
    if names is None:
        check_takes_offers(policy)
        sizes = np.array([len(offer.arms) for offer in offers])
        calls = []
        for size in np.unique(sizes):
            places = np.flatnonzero(sizes == size)
            same_size = [offers[place] for place in places]
            if eligible is not None:
                mask = np.stack([masks[place] for place in places])
            calls.append((places, _batch_call(same_size, mask)))
        return calls
    arm_masks = [names.mask(offer.arms, "arms") for offer in offers]
    mask = np.stack(arm_masks) & np.stack(masks)
    if n and not mask.any(axis=1).all():
        raise NoEligibleArm(_NONE_LEFT)
    features = [offer.features for offer in offers]
    return [(places, Call(contexts, contexts, mask, names, features))]


def _offers(contexts: Context, arms: Any, n: int) -> list[Offer]:
    """Return the offer of each context: `arms` is one offer for all contexts, or a list
    of one per context."""
    single_contexts = [single(context) for context in rows(contexts)]
    if not _is_each(arms):
        shared = make_offer(None, arms)
        return [replace(shared, context=context) for context in single_contexts]
    if len(arms) != n:
        raise InvalidInput(
            f"arms must be one offer for all, or one for each of {n} contexts; got "
            f"{len(arms)}"
        )
    return list(map(make_offer, single_contexts, arms))


def _batch_call(offers: Sequence[Offer], mask: Bools | None) -> Call:
    """Return the call of offers with equally many arms."""
    features: Any = [offer.features for offer in offers]
    if all(known is None for known in features):
        features = None
    batch = OfferBatch(tuple(offers))
    names = [offer.arms for offer in offers]
    return Call(batch, batch.context, mask, names, features)


def _is_each(arms: Any) -> bool:
    """Return whether `arms` is a list with one offer per row."""
    if not isinstance(arms, list | tuple | np.ndarray):
        return False
    if getattr(arms, "ndim", 1) == 0 or not len(arms):
        return False
    first = arms[0]
    return isinstance(first, Mapping | list | tuple | np.ndarray) or is_table(first)


def _masks(
    names: Arms | None, offers: Sequence[Offer], eligible: object
) -> list[Bools]:
    """Return the eligible arms of each offer. `eligible` applies to all rows, or has
    one entry per row."""
    names_by_row: list[Arms] = []
    for offer in offers:
        names_by_row.append(OfferedArms(offer.arms) if names is None else names)
    if eligible is None:
        return [np.ones(len(row), dtype=np.bool_) for row in names_by_row]
    given = _eligible_entries(eligible)
    if not _is_by_row(given, len(offers)):
        return [eligible_mask(row, given) for row in names_by_row]
    masks = []
    for row, own in zip(names_by_row, given, strict=True):
        masks.append(eligible_mask(row, row if own is None else own))
    return masks


def without_barred(call: Call, rules: Sequence[Rule]) -> Call:
    """Return a call without the arms that the rules bar. Raise if no arm is left."""
    if not rules:
        return call
    context = one(call.context)
    return bar_arms(call, barred_arms(rules, context, call.names, call.features))


def rows_without_barred(call: Call, rules: Sequence[Rule]) -> Call:
    """Return a batch of calls, each without the arms that rules bar."""
    if not rules:
        return call
    contexts = rows(call.context)
    names = call.names
    if not isinstance(call.question, OfferBatch):
        names = [call.names] * len(contexts)
    features = call.features
    if features is None:
        features = [None] * len(contexts)
    masks = []
    for place, context in enumerate(contexts):
        mask = np.ones(len(names[place]), dtype=np.bool_)
        if call.mask is not None:
            mask = call.mask[place]
        of_row = Call(context, context, mask, names[place], features[place])
        free = without_barred(of_row, rules).mask
        masks.append(mask if free is None else free)
    return replace(call, mask=np.stack(masks))


def bar_arms(call: Call, barred: Mapping[int, str]) -> Call:
    """Return a call without the `barred` arms, a dict of arm number to reason. Raise if
    no arm is left."""
    if not barred:
        return call
    mask = np.ones(len(call.names), dtype=np.bool_)
    if call.mask is not None:
        mask = call.mask.copy()
    mask[list(barred)] = False
    if not mask.any():
        reasons = [f"{call.names[place]} ({why})" for place, why in barred.items()]
        raise NoEligibleArm(
            "at least one arm must be eligible; got none: not eligible are "
            f"{', '.join(reasons[:8])}"
        )
    return replace(call, mask=mask)


def check_record(decision: Decision) -> None:
    """Raise if a decision with its own arms is inconsistent."""
    names: Any = [decision.arms]
    features: Any = [decision.features]
    odds = np.atleast_2d(decision.propensities)
    if decision.propensities.ndim > 1:
        names = decision.arms
        features = decision.features or [None] * len(names)
    arms = np.ravel(decision.arm)
    numbers = np.ravel(decision.number)
    fits = len(names) == len(features) == len(odds) == len(arms) == len(numbers)
    if fits:
        for row, arm, number, p in zip(names, arms, numbers, odds, strict=True):
            has_arm = _is_arm_of(row, number, p)
            if not has_arm or (decision.index is not None and row[number] != arm):
                fits = False
    if not fits or not all(isinstance(known, Mapping | None) for known in features):
        got = f"arms {short_repr(decision.arms)} and arm {short_repr(decision.arm)}"
        raise InvalidInput(
            "decision must have an arm that was offered, and features by name; "
            f"got {got}"
        )


def _is_arm_of(names: Any, number: int, propensities: Array) -> bool:
    """Return whether a number is that of an arm, and all propensities after the last
    arm are 0."""
    if not isinstance(names, tuple) or len(names) > len(propensities):
        return False
    return 0 <= number < len(names) and not propensities[len(names) :].any()


def check_takes_offers(policy: Policy) -> None:
    """Raise if a policy cannot choose among arms that are passed in the call."""
    if policy.takes_offers:
        return
    kind = type(policy).__name__
    if policy.bank is not None:
        kind = f"{kind} over {type(policy.bank).__name__}"
    raise InvalidInput(
        f"{kind} cannot choose among arms that are passed in the call: give it its "
        "arms when it is created"
    )


def eligible_mask(
    arms: Arms | None, eligible: object, rows: int | None = None
) -> Bools:
    """Return a boolean mask (K,), or (rows, K), from masks or from names or numbers of
    arms."""
    given = _eligible_entries(eligible)
    if isinstance(given, np.ndarray) and given.dtype == np.bool_:
        mask = given
    elif all(isinstance(one, bool | np.bool_) for one in given):
        mask = np.array(given, dtype=np.bool_)
    elif rows is not None and _is_by_row(given, rows):
        masks = [eligible_mask(arms, arms if one is None else one) for one in given]
        if len({row.shape for row in masks}) > 1:
            raise InvalidInput(
                "eligible masks must have the same length in all rows; got "
                "different lengths"
            )
        mask = np.stack(masks)
    else:
        mask = _mask_of_names(arms, list(given))
    if mask.size == 0:
        raise NoEligibleArm("at least one arm must be eligible; got none")
    if mask.ndim != 1 and (rows is None or mask.ndim != 2 or len(mask) != rows):
        raise InvalidInput(
            f"eligible must be one mask, or one for each row; got shape {mask.shape}"
        )
    if arms is not None and mask.shape[-1] != len(arms):
        raise InvalidInput(
            f"eligible must be a mask of the {len(arms)} arms; got shape {mask.shape}"
        )
    return mask


def _eligible_entries(eligible: Any) -> Any:
    """Return masks, names or numbers as an array or a list; raise for anything else."""
    if isinstance(eligible, np.ndarray) and eligible.ndim:
        return eligible
    if isinstance(eligible, str | int | np.integer) and not isinstance(eligible, bool):
        return [eligible]
    if is_table(eligible):
        return eligible.to_numpy()
    is_scalar = not hasattr(eligible, "__iter__") or getattr(eligible, "ndim", 1) == 0
    if is_scalar or isinstance(eligible, Mapping):
        raise InvalidInput(
            "eligible must be a mask, or names or numbers of arms; got "
            f"{short_repr(eligible)}"
        )
    return list(eligible)


def _is_by_row(given: Any, n: int) -> bool:
    """Return whether each of n rows has its own eligible arms: masks, names, numbers,
    or None for all arms."""
    if not len(given) or any(isinstance(one, _SCALARS) for one in given):
        return False
    if len(given) != n:
        raise InvalidInput(
            f"eligible must be one mask, or one for each row; got {len(given)} for {n} "
            "rows"
        )
    return True


def _mask_of_names(arms: Arms | None, chosen: list[object]) -> Bools:
    """Return the mask of arms given by name or by number."""
    if arms is None:
        raise InvalidInput(
            "eligible must be a boolean mask where arms have no names; got "
            f"{chosen!r:.60}"
        )
    for arm in chosen:
        if not isinstance(arm, _SCALARS):
            raise InvalidInput(
                f"eligible must name arms of {list(arms)[:8]}; got {arm!r:.60}"
            )
    return arms.mask(chosen)
