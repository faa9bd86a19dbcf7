"""The Log: a table of decisions and rewards."""

from oddsmith.logs.table import Log

__all__ = ["Log"]
