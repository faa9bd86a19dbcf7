"""A store in one SQLite file."""

__all__: list[str] = []
