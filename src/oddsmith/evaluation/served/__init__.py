"""Served as logged: a test for all times that drawn arms follow the logged odds."""

from oddsmith.evaluation.served.check import Evidence, ServedReport, served_as_logged

__all__ = ["Evidence", "ServedReport", "served_as_logged"]
