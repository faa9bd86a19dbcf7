"""Doors: the APIs of others, in front of our own calls."""

__all__: list[str] = []
