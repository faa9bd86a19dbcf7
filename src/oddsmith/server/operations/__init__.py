"""Operations: what operators, guardrails and rules put in force while an experiment
runs."""

__all__: list[str] = []
