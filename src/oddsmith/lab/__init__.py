"""The lab: worlds with known truth, exact regret."""

from oddsmith.lab.bayes import BayesRegret, bayes_regret
from oddsmith.lab.delays import GeometricDelay
from oddsmith.lab.run import Run
from oddsmith.lab.simulate import simulate
from oddsmith.lab.sweep import Cell, grid, sweep

__all__ = ["BayesRegret", "Cell", "GeometricDelay", "Run", "bayes_regret", "grid", "simulate", "sweep"]
