"""Served-as-logged test: an anytime-valid test whether the drawn arms follow the logged
propensities."""

from oddsmith.evaluation.draws.check import (
    EvidenceGrade,
    ServedReport,
    served_as_logged,
)
from oddsmith.evaluation.draws.order_free_bets import (
    ALARM,
    Standing,
    StandingBets,
    standing_bets,
)

__all__ = [
    "ALARM",
    "EvidenceGrade",
    "ServedReport",
    "Standing",
    "StandingBets",
    "served_as_logged",
    "standing_bets",
]
