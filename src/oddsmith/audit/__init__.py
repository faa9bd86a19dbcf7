"""Proof: whether every decision of a store follows, the store as a log, and what is wrong with it in plain words."""

from oddsmith.audit.doctor import Finding, doctor
from oddsmith.audit.exporting import Exported, export
from oddsmith.audit.story import Happening, Story, story_of
from oddsmith.audit.verdicts import Level, Miss, VerifyReport
from oddsmith.audit.verifying import verify

__all__ = ["Exported", "Finding", "Happening", "Level", "Miss", "Story", "VerifyReport", "doctor", "export", "story_of"]
__all__ += ["verify"]
