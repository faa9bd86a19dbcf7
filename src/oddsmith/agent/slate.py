"""Slates: several slots of one page, filled in order, each a decision of its own among
the arms that are left."""

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

__all__ = ["Slot", "filled", "left", "slate_of", "slot_context", "slot_id", "slots_of"]

PLACE = "slot"
"""The name that a slot's number, from 1 on, has in contexts."""


@dataclass(frozen=True, slots=True)
class Slot:
    """A place on a page: its name, what is known of it, and the arms that it may show
    (all, if None).

    `features` are joined to the context: a dict beside a dict, numbers behind numbers.

    >>> Slot("top", {"size": "large"}, eligible=["article-17", "article-18"]).name
    'top'
    """

    name: str
    features: Any = None
    _: KW_ONLY
    eligible: Any = None


def slot_id(slate: str, name: str) -> str:
    """The id of the decision about a slot, by the slate's id and the slot's name: 32
    hexadecimal characters.

    >>> slot_id("visit-7", "top")
    '627d456a637c9a0ff23e2e61eefd30c4'
    >>> slot_id("visit-7", "top") != slot_id("visit-", "7top")
    True
    """
    hashed = blake2b(
        f"{len(slate)}:{slate}{name}".encode(),
        digest_size=16,
        person=b"slot of a slate",
    )
    return hashed.hexdigest()


def slots_of(slots: object) -> tuple[Slot, ...]:
    """The slots: so many, named by their numbers, or those of a list, with distinct
    names.

    >>> [slot.name for slot in slots_of(2)]
    ['1', '2']
    """
    if (
        isinstance(slots, int | np.integer)
        and not isinstance(slots, bool)
        and 0 < slots <= MOST_ARMS
    ):
        return tuple(Slot(str(place)) for place in range(1, int(slots) + 1))
    if not isinstance(slots, list | tuple) or not 0 < len(slots) <= MOST_ARMS:
        allowed = f"a whole number from 1 to {MOST_ARMS:,}, or a list of so many slots"
        raise InvalidInput(f"slots must be {allowed}; got {short_repr(slots)}")
    if wrong := [slot for slot in slots if not isinstance(slot, Slot)]:
        raise InvalidInput(
            f"slots must be a list of Slot(name); got {short_repr(wrong[0])} in it"
        )
    names = [slot.name for slot in slots]
    for name in names:
        if not isinstance(name, str) or not 0 < len(name) <= LONGEST_NAME:
            raise InvalidInput(
                f"names of slots must be text of 1 to {LONGEST_NAME} characters; got "
                f"{short_repr(name)}"
            )
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InvalidInput(
            f"names of slots must be distinct; got {twice!r:.60} twice: rename one of "
            "them"
        )
    return tuple(slots)


def slate_of(call: Call, context: Context, slots: Sequence[Slot]) -> list[Call]:
    """The call of each slot: its own context, made from the caller's, and the mask of
    arms that it may show.

    A slot that may be left with nothing is refused now, whatever the draws: odds of
    what was drawn would not be those of what is seen, if some draws were refused.
    """
    masks = [_mask(call, slot) for slot in slots]
    width = (
        len(call.names)
        if call.names is not None
        else next((len(mask) for mask in masks if mask is not None), None)
    )
    if width is not None:
        _check_filled(
            call,
            slots,
            [
                np.ones(width, dtype=np.bool_) if mask is None else mask
                for mask in masks
            ],
        )
    calls = []
    for place, (slot, mask) in enumerate(zip(slots, masks, strict=True), 1):
        joined = slot_context(context, place, slot)
        question = single(joined)
        if isinstance(call.question, Offer):
            question = replace(call.question, context=question)
        calls.append(replace(call, question=question, context=joined, mask=mask))
    return calls


def filled(
    calls: Sequence[Call], decide: Callable[[Call, int], Decision]
) -> list[Decision]:
    """The decisions of all slots; `decide` makes one from the call of a slot and its
    place, from 0 on."""
    drawn: list[Decision] = []
    for place, call in enumerate(calls):
        width = len(drawn[0].propensities) if drawn else 0
        drawn.append(
            decide(left(call, [earlier.number for earlier in drawn], width), place)
        )
    return drawn


def left(call: Call, taken: Sequence[int], width: int) -> Call:
    """The call of a slot after others have taken their arms, of so many in all."""
    if not taken:
        return call
    mask = np.ones(width, dtype=np.bool_) if call.mask is None else call.mask.copy()
    mask[list(taken)] = False
    # arms have no names, so that it is known only now how many there are
    if not mask.any():
        raise NoEligibleArm(
            "slots must be at most as many as the arms that may be shown; got more "
            f"than {len(taken)}"
        )
    return replace(call, mask=mask)


def _mask(call: Call, slot: Slot) -> Bools | None:
    """The arms that a slot may show, of those that are eligible; None for all there
    are."""
    if slot.eligible is None:
        return call.mask
    names = OfferedArms(call.names) if isinstance(call.question, Offer) else call.names
    try:
        own = eligible_mask(names, slot.eligible)
    except InvalidInput as error:
        raise InvalidInput(f"slot {slot.name!r:.40}: {error}") from error
    if call.mask is not None and len(own) != len(call.mask):
        raise InvalidInput(
            f"slot {slot.name!r:.40}: eligible must be a mask of {len(call.mask)} "
            f"arms; got {len(own)}"
        )
    return own if call.mask is None else own & call.mask


def _check_filled(call: Call, slots: Sequence[Slot], masks: Sequence[Bools]) -> None:
    """Refuses slots of which one has nothing to show, or may have nothing left,
    whatever is drawn before."""
    shown_at_all = int(np.logical_or.reduce(masks).sum())
    if len(slots) > shown_at_all > 0:
        raise InvalidInput(
            f"slots must be at most the arms that may be shown, {shown_at_all}; got "
            f"{len(slots)}"
        )
    for place, (slot, mask) in enumerate(zip(slots, masks, strict=True)):
        if not mask.any():
            raise NoEligibleArm(
                f"slot {slot.name!r:.40} must have an eligible arm; got none"
            )
        if int(mask.sum()) <= place and _all_taken(masks[:place], mask):
            few = [
                arm if call.names is None else call.names[arm]
                for arm in np.flatnonzero(mask).tolist()
            ]
            then = "give it further arms, or put it before them"
            raise InvalidInput(
                f"slot {slot.name!r:.40} may be left with nothing, for slots before it "
                f"can take all of {few[:8]!r:.80}: {then}"
            )


def _all_taken(before: Sequence[Bools], mask: Bools) -> bool:
    """Whether slots can take all arms of a mask, each another one: whether a matching
    covers them."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import maximum_bipartite_matching

    may_take = csr_array(np.stack(before)[:, mask].T)
    return bool((maximum_bipartite_matching(may_take, perm_type="column") >= 0).all())


def slot_context(context: Any, place: int, slot: Slot) -> Any:
    """The context of a slot: the caller's, the slot's number, and what is known of the
    slot."""
    row, features = one(context), one(slot.features)
    if row is None or isinstance(row, Mapping):
        own = {} if features is None else features
        if not isinstance(own, Mapping):
            raise InvalidInput(
                f"slot {slot.name!r:.40}: features must be a dict, as the context is; "
                f"got {short_repr(own)}"
            )
        kind = NamedRow if isinstance(row, NamedRow) else dict
        return kind(_named({} if row is None else row, place, slot.name, own))
    table = single(row)
    if not isinstance(table, np.ndarray) or not table.ndim:
        raise InvalidInput(
            "context of slots must be a dict, a row of numbers or None; got "
            f"{short_repr(context)}: the slot's number needs a place beside it"
        )
    behind = _numbered(place, slot.name, features)
    if isinstance(row, list | tuple):
        return [*row, *behind]
    spread = np.broadcast_to(behind, (*table.shape[:-1], len(behind)))
    return np.concatenate([numbers(table), spread], axis=-1)


def _named(
    context: Mapping[str, Any], place: int, slot: str, own: Mapping[str, Any]
) -> dict[str, Any]:
    """Names and values of the context, the slot's number and its features, each with a
    name of its own."""
    if PLACE in context:
        raise InvalidInput(
            f"context must leave the name {PLACE!r} to the slot's number; got it, too: "
            "rename it"
        )
    if both := [name for name in own if name in context or name == PLACE]:
        raise InvalidInput(
            f"slot {slot!r:.40}: features must have names of their own; got "
            f"{both[0]!r:.60}, which the context has"
        )
    return {**context, PLACE: place, **own}


def _numbered(place: int, slot: str, features: Any) -> list[float]:
    """The slot's number, and the numbers that are known of it."""
    if features is None:
        return [place]
    if isinstance(features, Mapping | str | bytes):
        raise InvalidInput(
            f"slot {slot!r:.40}: features must be numbers, as the context is; got "
            f"{short_repr(features)}"
        )
    known = np.atleast_1d(numbers(features)).tolist()
    # a missing number stays None
    return [place, *(features if isinstance(features, list) else known)]
