"""Core of the library: losses, weights, propensities, decisions, experts, policies and
GTS (Algorithm 1)."""

__all__: list[str] = []
