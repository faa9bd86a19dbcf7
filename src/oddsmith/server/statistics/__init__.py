"""Statistics of the log, computed together with the state. They are the same in a
running service, on replicas and after restarts."""

from oddsmith.server.statistics.arms import ArmCounts, ArmSum
from oddsmith.server.statistics.every import FORM, Sums

__all__ = ["ArmCounts", "ArmSum", "FORM", "Sums"]
