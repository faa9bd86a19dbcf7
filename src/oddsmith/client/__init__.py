"""Clients of the decision service: every call may be sent again, so lost answers cost
time and nothing else."""

from oddsmith.client.answers import (
    PosteriorWeights,
    ServedDecision,
    ServedSlate,
    StoredEvent,
)
from oddsmith.client.clients import AsyncClient, Client
from oddsmith.client.outbox import Reported

__all__ = [
    "AsyncClient",
    "Client",
    "PosteriorWeights",
    "Reported",
    "ServedDecision",
    "ServedSlate",
    "StoredEvent",
]
