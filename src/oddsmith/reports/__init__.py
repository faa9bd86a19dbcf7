"""Reports: figures that people look at."""

from oddsmith.reports.bounds import plot_bounds

__all__ = ["plot_bounds"]
