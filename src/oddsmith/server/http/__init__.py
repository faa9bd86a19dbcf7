"""HTTP: routes, handlers, keys, limits and the server itself."""

__all__: list[str] = []
