"""What banks state about themselves is true: every bank of the contract, bare and
inside wrappers."""

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import numpy as np
import pytest

import oddsmith as od
from experts.test_contract import BANKS, CONTEXTS, learnt
from oddsmith.experts import Experts
from oddsmith.experts.guard.outcomes import leaves
from oddsmith.experts.guard.parts import failure_records, split_bank

WRAPPERS: dict[str, Callable[[Experts], Experts]] = {
    "bare": lambda bank: bank,
    "clipped": od.experts.Clipped,
    "encoded": lambda bank: od.experts.Encoded(
        bank, od.Schema(numbers=("w", "x", "y", "z"))
    ),
    "guarded": od.Guarded,
    "stacked": lambda bank: od.stack(bank, od.GivenExperts(["given"])),
}


def arrays(state: Any) -> list[Any]:
    """The arrays of a state, in order."""
    return (
        [leaf for part in state for leaf in arrays(part)]
        if isinstance(state, tuple)
        else [np.asarray(state)]
    )


@pytest.mark.parametrize("wrapper", WRAPPERS)
@pytest.mark.parametrize("name", BANKS)
class TestFacts:
    def test_of_learning(self, name: str, wrapper: str) -> None:
        """A bank that does not learn leaves its state alone; one that learns says
        so."""
        bank = WRAPPERS[wrapper](BANKS[name]())
        first = deepcopy(bank.init())
        after = learnt(bank)
        changed = len(arrays(first)) != len(arrays(after)) or any(
            not np.array_equal(a, b, equal_nan=a.dtype.kind == "f")
            for a, b in zip(arrays(first), arrays(after), strict=True)
        )
        assert bank.learns == changed

    def test_of_what_is_inside(self, name: str, wrapper: str) -> None:
        """Wrappers have the names, arms, versions and failures of the bank inside."""
        inner = BANKS[name]()
        bank = WRAPPERS[wrapper](inner)
        assert tuple(bank.names)[: len(inner.names)] == tuple(inner.names)
        assert (bank.arms, bank.learns, bank.unversioned) == (
            inner.arms,
            inner.learns,
            inner.unversioned,
        )
        assert all(
            any(one is record for record in failure_records(bank))
            for one in failure_records(inner)
        )

    def test_of_parts(self, name: str, wrapper: str) -> None:
        """Side by side, the parts of a fixed bank are the bank."""
        bank = WRAPPERS[wrapper](BANKS[name]())
        parts = split_bank(bank)
        if bank.learns or not parts or wrapper == "stacked":
            return
        assert [one for part in parts for one in part.names] == list(bank.names)
        together = np.concatenate(
            [part.predict(part.init(), CONTEXTS[0]) for part in parts], axis=-2
        )
        np.testing.assert_array_equal(together, bank.predict(bank.init(), CONTEXTS[0]))


def test_models_without_a_version_are_known_as_such_wherever_they_are() -> None:
    model = type(
        "Model", (), {"predict": lambda self, rows: np.full((len(rows), 2), 0.5)}
    )()
    plain = od.ModelExperts({"m": model}, ["a", "b"])
    assert not od.ModelExperts({"m": model}, ["a", "b"], version="1").unversioned
    for bank in (
        plain,
        od.experts.Clipped(plain),
        od.Guarded(plain),
        od.stack(od.GivenExperts(["g"]), plain),
    ):
        assert bank.unversioned
        assert od.Bounded(
            od.GeneralizedThompsonSampling(bank, gamma=0.1), floors=0.01
        ).unversioned


def test_guards_inside_wrappers_are_found() -> None:
    """Failures that a guard inside a clipped stack has counted, from the guard around
    it."""
    inner = od.Guarded(od.FunctionExperts({"broken": lambda x: 1 / 0}, ["a", "b"]))
    outer = od.Guarded(
        od.experts.Clipped(
            od.stack(
                inner, od.FunctionExperts({"fine": lambda x: [0.1, 0.2]}, ["a", "b"])
            )
        )
    )
    outer.predict(outer.init(), None)
    assert outer.failures() == {"broken": {"raised": 1}}
    assert [leaf.bank.names for leaf in leaves(outer.experts)] == [
        ("broken",),
        ("fine",),
    ]
