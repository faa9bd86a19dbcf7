"""Logs: tables of decisions and rewards, code to read and write them, and code to fit
policies to them."""

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
