"""Sums: what pages show of a log, folded from it beside the state, so that it is the same wherever it is shown."""

from oddsmith.server.monitor.sums.arms import ArmCounts, ArmSum
from oddsmith.server.monitor.sums.every import FORM, Sums

__all__ = ["ArmCounts", "ArmSum", "FORM", "Sums"]
