"""Shared parts of policies: beliefs, oracles, projections and schedules."""

__all__: list[str] = []
