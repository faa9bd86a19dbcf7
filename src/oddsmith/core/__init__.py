"""Algorithm 1 with exact odds: losses, weights, odds and decisions, experts, policies,
and GTS itself."""

__all__: list[str] = []
