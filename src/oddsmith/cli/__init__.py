"""The command line. Each family of commands has one file, and imports heavy modules
only when a command runs."""

__all__: list[str] = []
