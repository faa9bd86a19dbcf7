"""Slates: several slots of one page, filled in order, with one decision per slot among
the remaining arms."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from hashlib import blake2b
from typing import Any

import numpy as np

from oddsmith.agent.call import Call, eligible_mask
from oddsmith.contexts.numbers import numbers
from oddsmith.contexts.offers import LONGEST_NAME, MOST_ARMS
from oddsmith.contexts.values import single
from oddsmith.core.arrays import Bools
from oddsmith.core.contexts import NamedRow, one, short_repr
from oddsmith.core.decision import Context, Decision
from oddsmith.core.errors import InvalidInput, NoEligibleArm
from oddsmith.core.names import OfferedArms
from oddsmith.core.offer import Offer

__all__ = [
    "Slot",
    "fill_slots",
    "remaining_call",
    "slate_of",
    "slot_context",
    "slot_id",
    "slots_of",
]

PLACE = "slot"
"""Key of the slot's number, from 1 on, in contexts."""


@dataclass(frozen=True, slots=True)
class Slot:
    """A place on a page: its name, its features, and the arms that it may show.
    `eligible` None means all arms.

    `features` are added to the context: a dict to a dict, numbers to numbers.

    >>> Slot("top", {"size": "large"}, eligible=["article-17", "article-18"]).name
    'top'
    """

    name: str
    features: Any = None
    _: KW_ONLY
    eligible: Any = None


def slot_id(slate: str, name: str) -> str:
    """Return the id of the decision about a slot, from the slate's id and the slot's
    name: 32 hexadecimal characters.

    >>> slot_id("visit-7", "top")
    '627d456a637c9a0ff23e2e61eefd30c4'
    >>> slot_id("visit-7", "top") != slot_id("visit-", "7top")
    True
    """
    key = f"{len(slate)}:{slate}{name}".encode()
    return blake2b(key, digest_size=16, person=b"slot of a slate").hexdigest()


def slots_of(slots: Any) -> tuple[Slot, ...]:
    """Return slots as a tuple. A list of `Slot` must have distinct names; for a number
    n, return n slots with the names 1 to n.

    >>> [slot.name for slot in slots_of(2)]
    ['1', '2']
    """
    is_number = isinstance(slots, int | np.integer) and not isinstance(slots, bool)
    if is_number and 0 < slots <= MOST_ARMS:
        return tuple(Slot(str(place)) for place in range(1, int(slots) + 1))
    if not isinstance(slots, list | tuple) or not 0 < len(slots) <= MOST_ARMS:
        allowed = (
            f"a whole number from 1 to {MOST_ARMS:,}, or a list of at most that many "
            "slots"
        )
        raise InvalidInput(f"slots must be {allowed}; got {short_repr(slots)}")
    names: set[str] = set()
    for slot in slots:
        if not isinstance(slot, Slot):
            raise InvalidInput(
                f"slots must be a list of Slot(name); got {short_repr(slot)} in it"
            )
        name = slot.name
        if not isinstance(name, str) or not 0 < len(name) <= LONGEST_NAME:
            raise InvalidInput(
                f"names of slots must be text of 1 to {LONGEST_NAME} characters; got "
                f"{short_repr(name)}"
            )
        if name in names:
            raise InvalidInput(
                f"names of slots must be distinct; got {name!r:.60} twice: rename one "
                "of them"
            )
        names.add(name)
    return tuple(slots)


def slate_of(
    call: Call,
    context: Context,
    slots: Sequence[Slot],
    restrict: Callable[[Call], Call] | None = None,
) -> list[Call]:
    """Return the call of each slot, which contains the slot's context, made from the
    caller's, and the mask of the arms that the slot may show. `restrict`, if given,
    removes further arms from a call.

    If a slot would have no arm left after some possible draw of the earlier slots, this
    raises before anything is drawn. An error after some draws only would make the
    propensities of the remaining draws wrong.
    """
    calls = []
    for place, slot in enumerate(slots, 1):
        mask = _mask(call, slot)
        joined = slot_context(context, place, slot)
        question = single(joined)
        if isinstance(call.question, Offer):
            question = replace(call.question, context=question)
        of_slot = replace(call, question=question, context=joined, mask=mask)
        calls.append(of_slot if restrict is None else restrict(of_slot))
    masks = [of_slot.mask for of_slot in calls]
    widths = [len(mask) for mask in masks if mask is not None]
    if call.names is not None:
        widths = [len(call.names)]
    if widths:
        every_arm = np.ones(widths[0], dtype=np.bool_)
        known_masks = [every_arm if mask is None else mask for mask in masks]
        _check_can_fill(call, slots, known_masks)
    return calls


def fill_slots(
    calls: Sequence[Call], decide: Callable[[Call, int], Decision]
) -> list[Decision]:
    """Return the decisions of all slots. `decide` returns the decision for the call of
    a slot and the slot's place, counted from 0."""
    decisions: list[Decision] = []
    width = 0
    for place, call in enumerate(calls):
        taken = [earlier.number for earlier in decisions]
        decision = decide(remaining_call(call, taken, width), place)
        decisions.append(decision)
        width = len(decision.propensities)
    return decisions


def remaining_call(call: Call, taken: Sequence[int], width: int) -> Call:
    """Return the call of a slot without the arms of earlier slots. `width` is the total
    number of arms."""
    if not taken:
        return call
    mask = np.ones(width, dtype=np.bool_) if call.mask is None else call.mask.copy()
    mask[list(taken)] = False
    # Without names, the number of arms is known only after the first draw.
    if not mask.any():
        raise NoEligibleArm(
            "slots must not outnumber the arms that may be shown; got more than "
            f"{len(taken)} slots"
        )
    return replace(call, mask=mask)


def _mask(call: Call, slot: Slot) -> Bools | None:
    """Return the eligible arms of a slot, or None for all arms."""
    if slot.eligible is None:
        return call.mask
    names = call.names
    if isinstance(call.question, Offer):
        names = OfferedArms(names)
    try:
        own = eligible_mask(names, slot.eligible)
    except InvalidInput as error:
        raise InvalidInput(f"slot {slot.name!r:.40}: {error}") from error
    if call.mask is None:
        return own
    if len(own) != len(call.mask):
        raise InvalidInput(
            f"slot {slot.name!r:.40}: eligible must be a mask of {len(call.mask)} "
            f"arms; got {len(own)}"
        )
    return own & call.mask


def _check_can_fill(call: Call, slots: Sequence[Slot], masks: Sequence[Bools]) -> None:
    """Raise if a slot has no arm, or may have none left after earlier draws."""
    n_arms = int(np.logical_or.reduce(masks).sum())
    if len(slots) > n_arms > 0:
        raise InvalidInput(
            f"slots must not outnumber the arms that may be shown, {n_arms}; got "
            f"{len(slots)}"
        )
    for place, (slot, mask) in enumerate(zip(slots, masks, strict=True)):
        own = np.flatnonzero(mask).tolist()
        if not own:
            raise NoEligibleArm(
                f"slot {slot.name!r:.40} must have an eligible arm; got none"
            )
        if len(own) > place or not _all_taken(masks[:place], mask):
            continue
        arms = own[:8]
        if call.names is not None:
            arms = [call.names[arm] for arm in arms]
        raise InvalidInput(
            f"slot {slot.name!r:.40} may be left without an arm, because earlier "
            f"slots can take all of {arms!r:.80}: give it more arms, or move it "
            "before them"
        )


def _all_taken(before: Sequence[Bools], mask: Bools) -> bool:
    """Return whether the earlier slots can take all arms of a mask, that is, whether
    some matching of slots and arms covers the mask."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import maximum_bipartite_matching

    may_take = csr_array(np.stack(before)[:, mask].T)
    slot_of_arm = maximum_bipartite_matching(may_take, perm_type="column")
    return bool((slot_of_arm >= 0).all())


def slot_context(context: Any, place: int, slot: Slot) -> Any:
    """Return the context of a slot: the caller's context with the number and the
    features of the slot."""
    row = one(context)
    features = one(slot.features)
    if row is None or isinstance(row, Mapping):
        return _join_names(row, place, slot.name, features)
    table = single(row)
    if not isinstance(table, np.ndarray) or not table.ndim:
        raise InvalidInput(
            "context of slots must be a dict, a row of numbers or None, so that the "
            f"slot's number can be added; got {short_repr(context)}"
        )
    added = _slot_numbers(place, slot.name, features)
    if isinstance(row, list | tuple):
        return [*row, *added]
    columns = np.broadcast_to(added, (*table.shape[:-1], len(added)))
    return np.concatenate([numbers(table), columns], axis=-1)


def _join_names(
    row: Mapping[str, Any] | None, place: int, slot: str, features: Any
) -> dict[str, Any]:
    """Return the context with the number and the features of the slot; raise for
    duplicate names."""
    kind = NamedRow if isinstance(row, NamedRow) else dict
    context = row or {}
    if features is None:
        features = {}
    if not isinstance(features, Mapping):
        raise InvalidInput(
            f"slot {slot!r:.40}: features must be a dict, like the context; got "
            f"{short_repr(features)}"
        )
    if PLACE in context:
        raise InvalidInput(
            f"context must not use the name {PLACE!r}, which is reserved for the "
            "slot's number: rename it"
        )
    for name in features:
        if name in context or name == PLACE:
            raise InvalidInput(
                f"slot {slot!r:.40}: names of features must differ from those of the "
                f"context; got {name!r:.60}, which the context has"
            )
    return kind({**context, PLACE: place, **features})


def _slot_numbers(place: int, slot: str, features: Any) -> list[float]:
    """Return the number of the slot, followed by its features as numbers."""
    if features is None:
        return [place]
    if isinstance(features, Mapping | str | bytes):
        raise InvalidInput(
            f"slot {slot!r:.40}: features must be numbers, like the context; got "
            f"{short_repr(features)}"
        )
    values = np.atleast_1d(numbers(features)).tolist()
    # Do not convert lists to arrays, because a list may contain None for a missing
    # number.
    return [place, *(features if isinstance(features, list) else values)]
