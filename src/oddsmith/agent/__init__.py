"""Agents: a policy with its state as an object, and how its calls are read."""

__all__: list[str] = []
