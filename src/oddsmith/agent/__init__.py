"""Agents: a policy together with its state, and parsing of calls."""

__all__: list[str] = []
