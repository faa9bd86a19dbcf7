"""Files that people write: TOML whose errors name the key, policies, and their
experts."""

__all__: list[str] = []
