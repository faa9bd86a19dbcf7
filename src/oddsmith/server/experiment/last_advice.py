"""LastAdvice: what experts predicted of the drawn arms, in the last decisions of this
process."""

from collections import deque

from oddsmith.core.arrays import Array
from oddsmith.core.policy import Policy

__all__ = ["LastAdvice"]

_LAST = 1_000  # decisions


class LastAdvice:
    """The advice of the last decisions: what experts predicted of the drawn arm."""

    def __init__(self) -> None:
        self._policy: Policy | None = None
        self._rows: deque[Array] = deque(maxlen=_LAST)

    def add(self, policy: Policy, advice: Array) -> None:
        """Take the advice of a decision; that of another policy is dropped."""
        if policy is not self._policy:
            self._policy = policy
            self._rows.clear()
        self._rows.append(advice)

    def of(self, policy: Policy) -> list[Array]:
        """The rows that this policy's experts gave."""
        return list(self._rows) if policy is self._policy else []
