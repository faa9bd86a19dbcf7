"""Simulated worlds with known mean rewards and exact regret."""

from oddsmith.lab.bayes import BayesRegret, bayes_regret
from oddsmith.lab.delays import GeometricDelay
from oddsmith.lab.run import Run
from oddsmith.lab.simulate import simulate
from oddsmith.lab.slates import PageRun, fill_pages
from oddsmith.lab.sweep import Cell, grid, sweep

__all__ = [
    "BayesRegret",
    "Cell",
    "GeometricDelay",
    "PageRun",
    "Run",
    "bayes_regret",
    "fill_pages",
    "grid",
    "simulate",
    "sweep",
]
