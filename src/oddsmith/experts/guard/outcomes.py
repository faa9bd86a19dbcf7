"""Results of calls to experts: advice, or a failure for any exception of the user's
code."""

import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from oddsmith.core.arrays import Array, Bools
from oddsmith.core.contexts import has_names, is_batch, length
from oddsmith.core.decision import Context, State
from oddsmith.core.errors import ExpertFailed, InvalidInput, place_of
from oddsmith.core.experts import Experts, as_predictions
from oddsmith.core.offer import AnyOffer
from oddsmith.experts.guard.failures import CallFailure
from oddsmith.experts.guard.pace import Pace
from oddsmith.experts.guard.parts import is_library_code, split_bank
from oddsmith.experts.stack import StackedExperts

__all__ = ["Advice", "CallResult", "Leaf", "ask", "common_shape", "leaves"]

Advice: TypeAlias = tuple[Array, Array]
"""Predictions and ballots, both (…, N, K)."""
CallResult: TypeAlias = Advice | CallFailure


@dataclass(eq=False)
class Leaf:
    """The smallest bank that can be called on its own, with the path of its state and
    its pace."""

    bank: Experts
    path: tuple[int, ...]
    pace: Pace = field(default_factory=Pace)
    is_library_code: bool = field(init=False)

    def __post_init__(self) -> None:
        self.is_library_code = is_library_code(self.bank)

    @property
    def inline(self) -> bool:
        """Whether the bank is called in the calling thread, because it runs no user
        code, or because another thread must not read its state later."""
        return self.is_library_code or self.bank.learns


def leaves(experts: Experts, path: tuple[int, ...] = ()) -> list[Leaf]:
    """Return the parts of a bank that can fail on their own.

    >>> from oddsmith.experts.functions import FunctionExperts
    >>> [
    ...     leaf.bank.names
    ...     for leaf in leaves(FunctionExperts({"one": abs, "two": abs}, ["a"]))
    ... ]
    [('one',), ('two',)]"""
    parts = split_bank(experts)
    if isinstance(experts, StackedExperts):
        found = list[Leaf]()
        for i, part in enumerate(parts):
            found += leaves(part, (*path, i))
        return found
    if len(parts) > 1:
        return [Leaf(part, path) for part in parts]
    return [Leaf(experts, path)]


def ask(
    leaf: Leaf, *, state: State, context: Context, eligible: Bools | None
) -> CallResult:
    """Return the advice of a bank as two arrays, or its failure."""
    try:
        for step in leaf.path:
            state = state[step]
        predictions, ballots = leaf.bank.advise(state, context, eligible)
        n = len(leaf.bank.names)
        numbers = as_predictions(predictions, n_experts=n, source="experts")
        votes = as_predictions(ballots, n_experts=n, source="experts' ballots")
        return numbers, votes
    except BaseException as error:
        in_main = threading.current_thread() is threading.main_thread()
        if isinstance(error, KeyboardInterrupt) and in_main:
            raise  # do not catch exceptions that end the program
        if isinstance(error, ExpertFailed):
            return CallFailure(error.kind, _reason(error))
        refusal = error if isinstance(error, InvalidInput) else None
        return CallFailure("raised", place_of(error), refusal)


def common_shape(
    outcomes: list[tuple[Leaf, CallResult]], context: Context, n_arms: int | None
) -> tuple[tuple[int, ...], int]:
    """Return the batch axes and the number of arms that most of the answers have, among
    those that fit the context.

    An answer of the library's own code counts more than all others."""
    counts: Counter[tuple[tuple[int, ...], int]] = Counter()
    for leaf, outcome in outcomes:
        if not isinstance(outcome, CallFailure):
            *lead, _, last = outcome[0].shape
            counts[tuple(lead), last] += len(outcomes) if leaf.is_library_code else 1
    # The state of a bank that learns may have batch axes too.
    is_free = any(leaf.bank.learns for leaf, _ in outcomes)
    leads = [] if is_free else _leads(context)

    def fits(shape: tuple[tuple[int, ...], int]) -> bool:
        return n_arms in (None, shape[1]) and (not leads or shape[0] in leads)

    def preference(shape: tuple[tuple[int, ...], int]) -> tuple[int, int]:
        return counts[shape], -leads.index(shape[0]) if leads else 0

    fitting = list(filter(fits, counts))
    if fitting:
        return max(fitting, key=preference)
    if isinstance(context, AnyOffer):
        return context.lead, len(context.arms)
    if n_arms is None:
        raise ExpertFailed(
            "every expert failed and none names its arms; give the experts arms, or "
            "pass eligible"
        )
    return (), n_arms


def _leads(context: Context) -> list[tuple[int, ...]]:
    """Return the batch axes that a context may have, the likeliest first. An empty list
    means that any are possible.

    An array (d,) can be one context, or d contexts that are single numbers. An array
    (n, d) can be n contexts, or one context with n arms."""
    if isinstance(context, AnyOffer):
        return [context.lead]
    if context is None or isinstance(context, Mapping | str | bytes | int | float):
        return [()]
    if isinstance(context, np.ndarray):
        usual = max(context.ndim - 1, 0)
        n_axes = sorted(range(context.ndim + 1), key=lambda n: abs(n - usual))
        return [context.shape[:n] for n in n_axes]
    if not has_names(context):
        return []
    if is_batch(context):
        return [(length(context),)]
    return [()]


def _reason(error: ExpertFailed) -> str:
    """Return the message of a library exception. For an exception of user code, return
    type and place only, because its message may contain the context."""
    if error.kind not in ("raised", "values"):
        return f"{error}"[:200]
    if error.__cause__ is None:
        return f"{error}".partition(": ")[0][:200]
    return place_of(error.__cause__)
