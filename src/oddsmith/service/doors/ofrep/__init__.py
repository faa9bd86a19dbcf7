"""OFREP, the OpenFeature Remote Evaluation Protocol: sticky experiments as feature flags; see docs/howto."""

__all__: list[str] = []
