"""The lab: worlds with known truth, exact regret."""

from oddsmith.lab.simulate import Run, simulate

__all__ = ["Run", "simulate"]
