"""Guarded: an expert that raises, answers in the wrong shape or is late goes to sleep, and is counted."""

import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from oddsmith.arrays import Array, Bools, number
from oddsmith.decision import Context, State
from oddsmith.errors import ExpertFailed
from oddsmith.experts.base import Experts, Wrapper, check_bank
from oddsmith.experts.stack import Stacked

__all__ = ["Guarded"]

_STUCK = 4  # late calls of one expert that may still be running before it is no longer asked
Advice = tuple[Array, Array]


@dataclass(frozen=True, eq=False)
class Guarded(Wrapper):
    """`experts` whose failures are sleep: exceptions, wrong shapes, and calls that outlast `budget` seconds.

    A bank that can be `split` (models, functions, a stack) is guarded expert by expert; in a batch, an expert that
    fails on one row sleeps for all of it. Without a budget nothing is timed and no thread is started. A call that is
    late goes on in its thread, which cannot be stopped from outside; an expert with four such calls under way is not
    asked until one of them ends. `update` is not guarded.

    >>> from oddsmith.experts.functions import FunctionExperts
    >>> guarded = Guarded(FunctionExperts({"ok": lambda x: [0.1, 0.2], "broken": lambda x: 1 / 0}, ["a", "b"]))
    >>> guarded.predict(guarded.init(), None)
    array([[0.1, 0.2],
           [nan, nan]])
    >>> guarded.failures()
    {'broken': {'raised': 1}}
    """

    experts: Experts
    budget: float | None = None
    _leaves: tuple[tuple[Experts, tuple[int, ...]], ...] = field(init=False, repr=False)
    _counts: dict[str, Counter[str]] = field(init=False, repr=False, default_factory=dict)
    _reasons: dict[str, str] = field(init=False, repr=False, default_factory=dict)
    _stuck: Counter[int] = field(init=False, repr=False, default_factory=Counter)
    _lock: threading.Lock = field(init=False, repr=False, default_factory=threading.Lock)

    def __post_init__(self) -> None:
        check_bank("experts", self.experts)
        if self.budget is not None:
            number("budget", self.budget, low=0, high=np.inf, open_low=True)
        object.__setattr__(self, "_leaves", tuple(_leaves(self.experts, ())))

    def failures(self) -> dict[str, dict[str, int]]:
        """How often each expert "raised", answered in the wrong "shape" or was "late", since this object was made."""
        with self._lock:
            return {name: dict(counts) for name, counts in self._counts.items()}

    def reasons(self) -> dict[str, str]:
        """What went wrong the last time, for each expert that ever failed."""
        with self._lock:
            return dict(self._reasons)

    def predict(self, state: State, context: Context) -> Array:
        return self.advise(state, context)[0]

    def advise(self, state: State, context: Context, eligible: Bools | None = None) -> Advice:
        answers = self._ask_all(state, context, eligible)
        lead, n_arms = self._common_shape(answers, eligible)
        parts: list[Advice] = []
        for i, (leaf, _) in enumerate(self._leaves):
            shape = (*lead, len(leaf.names), n_arms)
            answer = answers[i]
            if answer is not None and (answer[0].shape != shape or answer[1].shape != shape):
                self._failed(leaf, "shape", f"gave shape {answer[0].shape} instead of {shape}")
                answer = None
            parts.append(answer or (np.full(shape, np.nan), np.zeros(shape)))
        predictions, ballots = zip(*parts, strict=True)
        return np.concatenate(predictions, axis=-2), np.concatenate(ballots, axis=-2)

    def _ask_all(self, state: State, context: Context, eligible: Bools | None) -> list[Advice | None]:
        """Each leaf's answer, or None where it failed; within the budget, side by side, if there is one."""
        answers: list[Advice | None] = [None] * len(self._leaves)
        if self.budget is None:
            for i in range(len(self._leaves)):
                self._ask(i, state, context, eligible, answers)
            return answers
        deadline = time.monotonic() + self.budget
        threads = {}
        for i, (leaf, _) in enumerate(self._leaves):
            if self._stuck[i] >= _STUCK:
                self._failed(leaf, "late", f"{_STUCK} earlier calls are still running")
            else:
                threads[i] = threading.Thread(
                    target=self._ask, args=(i, state, context, eligible, answers), daemon=True
                )
                threads[i].start()
        in_time: list[Advice | None] = [None] * len(self._leaves)  # what arrives later than counted is not read
        for i, thread in threads.items():
            thread.join(max(0.0, deadline - time.monotonic()))
            if thread.is_alive():
                self._failed(self._leaves[i][0], "late", f"was not done after {self.budget:g} seconds")
            else:
                in_time[i] = answers[i]
        return in_time

    def _ask(
        self, i: int, state: State, context: Context, eligible: Bools | None, answers: list[Advice | None]
    ) -> None:
        leaf, path = self._leaves[i]
        for step in path:
            state = state[step]
        with self._lock:
            self._stuck[i] += 1
        try:
            answers[i] = leaf.advise(state, context, eligible)
        except Exception as error:  # whatever user code raises: that is the point of a guard
            self._failed(leaf, "raised", f"{type(error).__name__}: {error}")
        finally:
            with self._lock:
                self._stuck[i] -= 1

    def _common_shape(self, answers: list[Advice | None], eligible: Bools | None) -> tuple[tuple[int, ...], int]:
        """The batch axes and number of arms that most answers agree on; from arms or eligible when there is none."""
        shapes = Counter((a[0].shape[:-2], a[0].shape[-1]) for a in answers if a is not None and a[0].ndim >= 2)
        n_arms = len(self.arms) if self.arms is not None else eligible.shape[-1] if eligible is not None else None
        fitting: Any = [shape for shape, _ in shapes.most_common() if n_arms is None or shape[1] == n_arms]
        if fitting:
            lead, k = fitting[0]
            return lead, k
        if n_arms is None:
            raise ExpertFailed("every expert failed and none names its arms; give the experts arms, or pass eligible")
        return (), n_arms

    def _failed(self, leaf: Experts, kind: str, reason: str) -> None:
        with self._lock:
            for name in leaf.names:
                self._counts.setdefault(name, Counter())[kind] += 1
                self._reasons[name] = reason


def _leaves(experts: Experts, path: tuple[int, ...]) -> list[tuple[Experts, tuple[int, ...]]]:
    """The smallest banks that can be asked on their own, each with the path of its state."""
    parts = experts.split() if hasattr(experts, "split") else ()
    if isinstance(experts, Stacked):
        return [leaf for i, part in enumerate(parts) for leaf in _leaves(part, (*path, i))]
    return [(part, path) for part in parts] if len(parts) > 1 else [(experts, path)]
