"""Clients of the decision service: every call may be sent again, so lost answers cost
time and nothing else."""

from oddsmith.client.answers import (
    DecisionEvent,
    ExpertPart,
    PosteriorWeights,
    RecordedDecision,
    ServedDecision,
    ServedSlate,
    StoredEvent,
)
from oddsmith.client.clients import AsyncClient, Client
from oddsmith.client.outbox import Reported

__all__ = [
    "AsyncClient",
    "Client",
    "DecisionEvent",
    "ExpertPart",
    "PosteriorWeights",
    "RecordedDecision",
    "Reported",
    "ServedDecision",
    "ServedSlate",
    "StoredEvent",
]
