"""The lab: worlds with known truth, exact regret."""

from oddsmith.lab.bayes import BayesRegret, bayes_regret
from oddsmith.lab.delays import GeometricDelay
from oddsmith.lab.run import Run
from oddsmith.lab.simulate import simulate

__all__ = ["BayesRegret", "GeometricDelay", "Run", "bayes_regret", "simulate"]
