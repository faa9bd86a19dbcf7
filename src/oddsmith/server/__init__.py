"""The service: decisions and rewards over HTTP. It answers a call only after the event
is on disk."""

__all__: list[str] = []
