"""Clients of the decision service. Every call is idempotent, so it can be retried after
a lost response."""

from oddsmith.client.answers import (
    AppliedAction,
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
    "AppliedAction",
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
