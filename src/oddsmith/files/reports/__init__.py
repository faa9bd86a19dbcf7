"""Figures, and the HTML page that contains them."""

from oddsmith.files.reports.bounds import plot_bounds
from oddsmith.files.reports.page import Figure, Section, Table, render, write

__all__ = ["Figure", "Section", "Table", "plot_bounds", "render", "write"]
