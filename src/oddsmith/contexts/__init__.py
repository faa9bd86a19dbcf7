"""Conversion of contexts from all supported forms to values and numbers."""

__all__: list[str] = []
