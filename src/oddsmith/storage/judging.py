"""restore_judge: the weights at a position, folded without the policy's models, from the nearest snapshot before it."""

from oddsmith.policies.base import Policy
from oddsmith.policies.judge import judge
from oddsmith.storage.base import Reading
from oddsmith.storage.folding import Folded, refold, roster_change, start_before

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
    return refold(store, until, lambda latest: start_before(store, first, latest, change, is_judge=True), change)
