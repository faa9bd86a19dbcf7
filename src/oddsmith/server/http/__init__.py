"""The HTTP service: routes with their handlers, API keys, limits, and the server."""

__all__: list[str] = []
