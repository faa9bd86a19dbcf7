"""Experiments: a policy, its store, its follower and its writer."""

__all__: list[str] = []
