"""Agents: a policy together with its state, and the preparation of a call's input."""

__all__: list[str] = []
