"""Fold: compute the state of a policy from the events of a store."""

__all__: list[str] = []
