"""APIs that are compatible with other products. Their calls are translated to calls of
our own API."""

__all__: list[str] = []
