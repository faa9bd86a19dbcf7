"""The monitor: sums over the log, and what pages and metrics show of them."""

__all__: list[str] = []
