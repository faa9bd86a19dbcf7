"""A store in a PostgreSQL database that several replicas write."""

__all__: list[str] = []
