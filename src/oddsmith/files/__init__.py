"""Read the files that users write: TOML policy files and their experts, with errors
that name the key."""

__all__: list[str] = []
