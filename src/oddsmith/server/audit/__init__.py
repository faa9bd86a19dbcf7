"""Audit of stores: check that recorded decisions can be computed again from the events,
export the decisions as a log, and diagnose problems."""

from oddsmith.server.audit.doctor import Finding, doctor
from oddsmith.server.audit.log_export import Exported, export
from oddsmith.server.audit.proof import verify
from oddsmith.server.audit.story import Happening, Story, story_of
from oddsmith.server.audit.verdicts import Level, Miss, VerifyReport

__all__ = [
    "Exported",
    "Finding",
    "Happening",
    "Level",
    "Miss",
    "Story",
    "VerifyReport",
    "doctor",
    "export",
    "story_of",
    "verify",
]
