"""Inspect a bank for guards: the parts that can fail separately, whether it runs only
library code, and the failures counted by inner banks."""

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
    """A bank that can be split into banks that fail separately (models, functions)."""

    def split(self) -> tuple[Experts, ...]:
        """Return banks that together are equal to this one."""


class RecordKeeper:
    """A bank that counts its experts' failures itself (`Guarded`, `Isolated`), so it is
    never split."""

    record: Record


def split_bank(bank: Experts) -> tuple[Experts, ...]:
    """Return the parts of a bank that can fail separately; empty if it cannot be
    split."""
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
    """Return whether a bank runs only library code, which needs no time limit."""
    if isinstance(bank, RecordKeeper):
        return False
    if isinstance(bank, Wrapper):
        return is_library_code(bank.experts)
    return isinstance(bank, _ARITHMETIC)


def failure_records(bank: Experts) -> list[Record]:
    """Return the failure counts of a bank and of the banks inside."""
    records = [bank.record] if isinstance(bank, RecordKeeper) else []
    inside: tuple[Experts, ...] = ()
    if isinstance(bank, StackedExperts):
        inside = bank.banks
    elif isinstance(bank, Wrapper):
        inside = (bank.experts,)
    for inner in inside:
        records += failure_records(inner)
    return records
