"""Guards: decisions do not fail when an expert fails, or when the separate process of
an expert ends."""

__all__: list[str] = []
