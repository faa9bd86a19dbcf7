"""Served as logged: a test for all times that drawn arms follow the logged odds."""

from oddsmith.evaluation.served.check import EvidenceGrade, ServedReport, served_as_logged

__all__ = ["EvidenceGrade", "ServedReport", "served_as_logged"]
