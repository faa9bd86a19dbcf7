"""Messages: requests and answers of the routes, as types."""

__all__: list[str] = []
