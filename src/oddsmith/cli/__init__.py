"""The command line: one file per family of commands, heavy imports inside them."""

__all__: list[str] = []
