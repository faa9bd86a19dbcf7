"""Guards: experts that fail, or run in a process of their own, without failing a
decision."""

__all__: list[str] = []
