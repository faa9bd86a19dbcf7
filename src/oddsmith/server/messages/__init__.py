"""Messages: what routes take and answer, as types."""

__all__: list[str] = []
