"""restore_judge: the weights at a position, folded without the policy's models, from the nearest snapshot before it."""

from contextlib import suppress

from oddsmith.errors import BadFile, InvalidInput, StoreFailed
from oddsmith.policies.base import Policy
from oddsmith.policies.judge import judge
from oddsmith.saving import unpack_part
from oddsmith.storage.base import Reading
from oddsmith.storage.folding import Folded, refold, roster_change

__all__ = ["restore_judge"]


def restore_judge(store: Reading, policy: Policy, until: int) -> Folded | None:
    """The judge of a store's first policy and its state at `until`; None where the policy weighs no votes.

    The same weights as `restore` has, to the last bit; experts that learn are left out, which is most of the work, and
    contexts that were erased are not missed.
    """
    first = judge(policy)
    if first is None:
        return None
    change = roster_change()

    def start_at(latest: int) -> Folded:
        positions = [snapshot.position for snapshot in store.snapshots() if snapshot.position <= latest]
        for position in reversed(positions):
            plain = first
            for line in store.changes():
                if line.position <= position:
                    plain, _ = change(plain, plain.init(), line)
            with suppress(InvalidInput, BadFile, StoreFailed):  # thinned out meanwhile, or damaged: an older one does
                return Folded(unpack_part(store.content(position), plain, "the snapshot"), position, plain)
        return Folded(first.init(), 0, first)

    return refold(store, until, start_at, change)
