"""What an expert's coming or going makes of policy and state: the change that folds are given."""

from collections.abc import Mapping

from oddsmith.decision import State
from oddsmith.errors import InvalidInput
from oddsmith.experts.base import Experts
from oddsmith.policies.base import Policy
from oddsmith.policies.judge import added, gts_inside, retired
from oddsmith.storage.base import Line
from oddsmith.storage.folding import Change

__all__ = ["roster_change"]


def roster_change(bench: Mapping[str, Experts] | None = None) -> Change:
    """The change of a roster by its lines; `bench` are the experts that may join, by name. A judge needs none."""

    def change(policy: Policy, state: State, line: Line) -> tuple[Policy, State]:
        if line.kind == "expert retired":
            return retired(policy, state, line.id)
        if line.value is None or not 0 < line.value < 1:
            raise InvalidInput(f"share of expert {line.id!r} must be between 0 and 1; got {line.value}")
        bank = None if bench is None else bench.get(line.id)
        known = gts_inside(policy)
        if bench is not None and bank is None and known is not None and line.id not in known.experts.names:
            stay = "its table must stay in the policy file, with joins = true"
            raise InvalidInput(f"expert {line.id!r} joined at position {line.position}: {stay}; it is not there")
        return added(policy, state, line.id, line.value, bank)

    return change
