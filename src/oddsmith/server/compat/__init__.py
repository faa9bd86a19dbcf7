"""APIs of other products, translated to our own calls."""

__all__: list[str] = []
