"""Clients of the decision service: every call may be sent again, so lost answers cost time and nothing else."""

from oddsmith.client.answers import Decided, Kept, Posterior
from oddsmith.client.clients import AsyncClient, Client

__all__ = ["AsyncClient", "Client", "Decided", "Kept", "Posterior"]
