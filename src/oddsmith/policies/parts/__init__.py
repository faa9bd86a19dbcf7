"""Parts that several policies are made of: beliefs, oracles, projections, schedules."""

__all__: list[str] = []
