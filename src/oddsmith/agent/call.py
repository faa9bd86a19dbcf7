"""Call: what one call of an agent asks of the policy, and its decision with the arms'
names."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from oddsmith.contexts.offers import offered
from oddsmith.contexts.values import single
from oddsmith.core.arrays import Bools
from oddsmith.core.contexts import is_table, length, rows, short_repr
from oddsmith.core.decision import Context, Decision
from oddsmith.core.errors import InvalidInput, NoEligibleArm
from oddsmith.core.names import Arms, OfferedArms, arm_names
from oddsmith.core.offer import Offer, OfferBatch
from oddsmith.core.policy import Policy

__all__ = [
    "Call",
    "call_of",
    "calls_of",
    "check_record",
    "check_takes_offers",
    "eligible_mask",
]

_NONE_LEFT = (
    "at least one arm must be eligible; got none that is also among the arms of the "
    "call"
)
# what is one name, one number or one entry of a mask
_SCALARS = (str, int, float, np.generic)


@dataclass(frozen=True, slots=True)
class Call:
    """The question for the policy, the mask of eligible arms, and what the decision
    records of the arms.

    `names` are those of the odds' columns, of each row where they differ; `features`
    what is known of arms that came with the call.
    """

    question: Any
    context: Any
    mask: Bools | None = None
    names: Any = None
    features: Any = None

    def named(
        self, decision: Decision, experts: tuple[str, ...] | None = None
    ) -> Decision:
        """The decision with the arm's name in `arm` and its number in `index`; as it is
        where arms have no names.

        `experts` are those whose advice it has, if it has any.
        """
        experts = None if decision.advice is None else experts
        if self.names is None:
            return decision if experts is None else decision._replace(advisers=experts)
        (
            step,
            context,
            eligible,
            number,
            propensities,
            advice,
            bonus,
            log_weights,
            *_,
        ) = decision
        drawn: Any
        arms: Any = None
        if isinstance(self.question, OfferBatch):
            drawn = np.array(
                [names[place] for names, place in zip(self.names, number, strict=True)]
            )
            arms = self.names
        else:
            names = arm_names(propensities.shape[-1], self.names)
            drawn = (
                names[number] if isinstance(number, int) else np.array(names)[number]
            )
            arms = names if isinstance(self.question, Offer) else None
        learnt = propensities, advice, bonus, log_weights
        return Decision(
            step,
            context,
            eligible,
            drawn,
            *learnt,
            number,
            arms,
            self.features,
            experts,
        )


def call_of(
    policy: Policy, names: Arms | None, context: Context, arms: object, eligible: object
) -> Call:
    """The call of one decision."""
    if isinstance(context, list | tuple):
        context = single(context)
    if arms is None:
        chosen = None if eligible is None else eligible_mask(names, eligible)
        return Call(context, context, chosen, names)
    offer = offered(context, arms)
    mask: Bools | None
    if names is not None:
        mask = names.mask(offer.arms, "arms")
        if eligible is not None:
            mask = mask & eligible_mask(names, eligible)
        if not mask.any():
            raise NoEligibleArm(_NONE_LEFT)
        return Call(context, context, mask, names, offer.features)
    check_takes_offers(policy)
    mask = (
        None if eligible is None else eligible_mask(OfferedArms(offer.arms), eligible)
    )
    return Call(offer, context, mask, offer.arms, offer.features)


def calls_of(
    policy: Policy,
    names: Arms | None,
    contexts: Context,
    arms: object,
    eligible: object,
) -> list[tuple[Any, Call]]:
    """The calls of a batch, each with the places of its rows: one, unless numbers of
    arms differ from row to row."""
    n = length(contexts)
    places = np.arange(n)
    if arms is None:
        return [
            (
                places,
                Call(
                    contexts,
                    contexts,
                    None if eligible is None else eligible_mask(names, eligible, n),
                    names,
                ),
            )
        ]
    each: list[object] | None = (
        list(arms)
        if isinstance(arms, list | tuple | np.ndarray) and _is_each(arms)
        else None
    )
    if each is not None and len(each) != n:
        raise InvalidInput(
            f"arms must be one offer for all, or one for each of {n} contexts; got "
            f"{len(each)}"
        )
    shared = offered(None, arms) if each is None else None
    listed = [single(context) for context in rows(contexts)]
    if shared is not None:
        offers = [Offer(context, shared.arms, shared.features) for context in listed]
    else:
        offers = [
            offered(context, one)
            for context, one in zip(listed, each or [], strict=True)
        ]
    masks = _masks(names, offers, eligible)
    if names is not None:
        mask = np.stack(
            [
                names.mask(offer.arms, "arms") & one
                for offer, one in zip(offers, masks, strict=True)
            ]
        )
        if n and not mask.any(axis=1).all():
            raise NoEligibleArm(_NONE_LEFT)
        return [
            (
                places,
                Call(
                    contexts,
                    contexts,
                    mask,
                    names,
                    [offer.features for offer in offers],
                ),
            )
        ]
    check_takes_offers(policy)
    sizes = np.array([len(offer.arms) for offer in offers])
    return [
        _of_size(np.flatnonzero(sizes == size), offers, masks, eligible is None)
        for size in np.unique(sizes)
    ]


def _of_size(
    places: Any, offers: Sequence[Offer], masks: Sequence[Bools], all_eligible: bool
) -> tuple[Any, Call]:
    """The call of those offers that have as many arms."""
    few = [offers[place] for place in places]
    features = (
        None
        if all(offer.features is None for offer in few)
        else [offer.features for offer in few]
    )
    mask = None if all_eligible else np.stack([masks[place] for place in places])
    batch = OfferBatch(tuple(few))
    return places, Call(
        batch, batch.context, mask, [offer.arms for offer in few], features
    )


def _is_each(arms: Any) -> bool:
    """Whether arms are a list with an offer for each row, not one for all."""
    first = arms[0] if getattr(arms, "ndim", 1) and len(arms) else None
    return isinstance(first, Mapping | list | tuple | np.ndarray) or is_table(first)


def _masks(
    names: Arms | None, offers: Sequence[Offer], eligible: object
) -> list[Bools]:
    """The eligible arms of each offer: of names or a mask for all, or of one for each
    row."""
    own = [OfferedArms(offer.arms) if names is None else names for offer in offers]
    if eligible is None:
        return [np.ones(len(one), dtype=np.bool_) for one in own]
    given = _listed(eligible)
    if _is_by_row(given, len(offers)):
        pairs = zip(own, given, strict=True)
        return [eligible_mask(one, one if few is None else few) for one, few in pairs]
    return [eligible_mask(one, given) for one in own]


def check_record(decision: Decision) -> None:
    """Refuses a decision about arms of the call whose parts do not belong together."""
    many = decision.propensities.ndim > 1
    names: Any = decision.arms if many else [decision.arms]
    drawn = zip(np.ravel(decision.arm), np.ravel(decision.number), strict=True)
    features: Any = (
        [decision.features] if not many else decision.features or [None] * len(names)
    )
    odds = decision.propensities if many else decision.propensities[None]
    if not len(names) == len(features) == len(odds) or not all(
        isinstance(row, tuple)
        and 0 <= number < len(row) <= len(p)
        and not p[len(row) :].any()
        and (decision.index is None or row[number] == arm)
        and isinstance(known, Mapping | None)
        for row, known, p, (arm, number) in zip(
            names, features, odds, drawn, strict=True
        )
    ):
        got = f"arms {short_repr(decision.arms)} and arm {short_repr(decision.arm)}"
        raise InvalidInput(
            "decision must have its arm among the arms offered, and features by name; "
            f"got {got}"
        )


def check_takes_offers(policy: Policy) -> None:
    """Refuses a policy that cannot choose among arms that come with the call."""
    if not policy.takes_offers:
        kind, bank = type(policy).__name__, policy.bank
        of = kind if bank is None else f"{kind} over {type(bank).__name__}"
        raise InvalidInput(
            f"{of} cannot choose among arms that come with the call: give it its arms "
            "when it is made"
        )


def eligible_mask(
    arms: Arms | None, eligible: object, rows: int | None = None
) -> Bools:
    """A boolean mask (K,), or (rows, K), from masks, or from names or numbers of
    arms."""
    given = _listed(eligible)
    if isinstance(given, np.ndarray) and given.dtype == np.bool_:
        mask = given
    elif all(isinstance(one, bool | np.bool_) for one in given):
        mask = np.array(given, dtype=np.bool_)
    elif rows is not None and _is_by_row(given, rows):
        masks = [eligible_mask(arms, arms if one is None else one) for one in given]
        if len({one.shape for one in masks}) > 1:
            raise InvalidInput(
                "eligible must be masks of as many arms in every row; got some of "
                "other lengths"
            )
        mask = np.stack(masks)
    else:
        mask = _chosen(arms, list(given))
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


def _listed(eligible: Any) -> Any:
    """Masks, names or numbers as an array or a list; what says something else is
    refused."""
    if isinstance(eligible, np.ndarray) and eligible.ndim:
        return eligible
    if isinstance(eligible, str | int | np.integer) and not isinstance(eligible, bool):
        return [eligible]
    if is_table(eligible):
        return eligible.to_numpy()
    if (
        isinstance(eligible, Mapping)
        or not hasattr(eligible, "__iter__")
        or getattr(eligible, "ndim", 1) == 0
    ):
        raise InvalidInput(
            "eligible must be a mask, or names or numbers of arms; got "
            f"{short_repr(eligible)}"
        )
    return list(eligible)


def _is_by_row(given: Any, n: int) -> bool:
    """Whether each of n rows has eligible arms of its own: masks, names, numbers, or
    None for all arms."""
    if not len(given) or any(isinstance(one, _SCALARS) for one in given):
        return False
    if len(given) != n:
        raise InvalidInput(
            f"eligible must be one mask, or one for each row; got {len(given)} for {n} "
            "rows"
        )
    return True


def _chosen(arms: Arms | None, chosen: list[object]) -> Bools:
    """The mask of arms that are named, or numbered."""
    if arms is None:
        raise InvalidInput(
            "eligible must be a boolean mask where arms have no names; got "
            f"{chosen!r:.60}"
        )
    if unknown := [arm for arm in chosen if not isinstance(arm, _SCALARS)]:
        raise InvalidInput(
            f"eligible must name arms of {list(arms)[:8]}; got {unknown[0]!r:.60}"
        )
    return arms.mask(chosen)
