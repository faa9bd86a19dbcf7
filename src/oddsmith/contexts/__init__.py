"""Contexts in every form that users bring, read in one way everywhere: forms, values
and numbers."""

__all__: list[str] = []
