"""Files that people write: TOML whose errors name the key, policies, and their experts."""

from oddsmith.files.policy_file import PolicyFile, read_policy

__all__ = ["PolicyFile", "read_policy"]
