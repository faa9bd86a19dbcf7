"""Guards: failing experts, or experts in a separate process, never make a decision
fail."""

__all__: list[str] = []
