"""Operations: what operators, guardrails and rules change while an experiment runs."""

__all__: list[str] = []
