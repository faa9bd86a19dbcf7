"""The service: decisions and rewards over HTTP, answered only after they are kept."""

__all__: list[str] = []
