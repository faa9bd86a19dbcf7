"""Shared parts of policies: posteriors, prediction oracles, projections and
schedules."""

__all__: list[str] = []
