"""APIs of other products, whose calls are translated to calls of our own API."""

__all__: list[str] = []
