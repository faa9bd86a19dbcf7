"""Proof: whether every decision of a store follows, the store as a log, and what is wrong with it in plain words."""

from oddsmith.proof.doctor import Finding, doctor
from oddsmith.proof.exporting import Exported, export
from oddsmith.proof.verdicts import Level, Miss, Verdict
from oddsmith.proof.verifying import verify

__all__ = ["Exported", "Finding", "Level", "Miss", "Verdict", "doctor", "export", "verify"]
