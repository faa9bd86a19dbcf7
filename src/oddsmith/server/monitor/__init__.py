"""Monitor: compute the health, the estimated value and the warnings of an experiment
from its statistics."""

__all__: list[str] = []
