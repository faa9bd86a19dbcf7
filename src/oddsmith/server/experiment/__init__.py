"""Run an experiment: a policy with its store, a follower that updates the state, and a
writer of events."""

__all__: list[str] = []
