"""Operations: changes by operators, guardrails and rules while an experiment runs."""

__all__: list[str] = []
