"""The Log: a table of decisions and rewards, its readers and writers, and learning from
it."""

from oddsmith.logs.fit import Fit, fit_log
from oddsmith.logs.formats import LogReader, log_batches, read_log, write_log
from oddsmith.logs.long import read_long
from oddsmith.logs.table import Log

__all__ = [
    "Fit",
    "Log",
    "LogReader",
    "fit_log",
    "log_batches",
    "read_log",
    "read_long",
    "write_log",
]
