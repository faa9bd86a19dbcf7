"""Banks from the point of view of a guard: the parts that can fail alone, the library's
own code, and the failures inside."""

from dataclasses import replace
from typing import Any, Protocol, runtime_checkable

from oddsmith.core.experts import Experts
from oddsmith.experts.external import GivenExperts
from oddsmith.experts.guard.failures import Record
from oddsmith.experts.linear import LinearExperts
from oddsmith.experts.stack import StackedExperts
from oddsmith.experts.tables import TableExperts
from oddsmith.experts.wrapper import Wrapper

__all__ = [
    "Divisible",
    "RecordKeeper",
    "failure_records",
    "is_library_code",
    "split_bank",
]

_ARITHMETIC = (GivenExperts, LinearExperts, TableExperts)


@runtime_checkable
class Divisible(Protocol):
    """A bank that can be divided into banks that fail on their own (models,
    functions)."""

    def split(self) -> tuple[Experts, ...]:
        """Banks that are this one side by side."""


class RecordKeeper:
    """A bank that counts the failures of its experts (`Guarded`, `Isolated`); it is
    never divided."""

    record: Record


def split_bank(bank: Experts) -> tuple[Experts, ...]:
    """The parts of a bank that can fail on their own; empty where it cannot be
    divided."""
    if isinstance(bank, RecordKeeper):
        return ()
    if isinstance(bank, StackedExperts):
        return bank.banks
    if isinstance(bank, Wrapper):
        if bank.learns:
            return ()
        wrapper: Any = bank
        return tuple(
            replace(wrapper, experts=part) for part in split_bank(bank.experts)
        )
    if isinstance(bank, Divisible):
        return bank.split()
    return ()


def is_library_code(bank: Experts) -> bool:
    """Whether the advice of a bank runs no code but the library's own, which a guard
    need not time."""
    if isinstance(bank, RecordKeeper):
        return False
    if isinstance(bank, Wrapper):
        return is_library_code(bank.experts)
    return isinstance(bank, _ARITHMETIC)


def failure_records(bank: Experts) -> list[Record]:
    """The failures that a bank, and the banks inside, have counted."""
    records = [bank.record] if isinstance(bank, RecordKeeper) else []
    inside: tuple[Experts, ...] = ()
    if isinstance(bank, StackedExperts):
        inside = bank.banks
    elif isinstance(bank, Wrapper):
        inside = (bank.experts,)
    for inner in inside:
        records += failure_records(inner)
    return records
