"""The fold: from the events of a store to the state of a policy."""

__all__: list[str] = []
