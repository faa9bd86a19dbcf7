"""Monitor: health, value and alarms of an experiment, from its statistics."""

__all__: list[str] = []
