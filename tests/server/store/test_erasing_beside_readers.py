"""Decisions are read while others erase: with all that was said of contexts and arms,
or as erased, never in halves."""

from collections.abc import Callable
from typing import Any

import pytest

import oddsmith as od
from oddsmith.server.store import PostgresStore
from oddsmith.server.store.protocol import Erased
from server.store.samples import append, made, policy

OFFERED = "d7"  # arms came with this call, and features with them
STORES = ["sqlite", "resting", "postgres"]  # fixtures of conftest.py


def whole(decision: od.Decision) -> bool:
    """Whether everything is there, or nothing of it."""
    return isinstance(decision.context, Erased) == isinstance(decision.features, Erased)


@pytest.mark.parametrize("kind", STORES)
def test_what_is_erased_while_it_is_read_is_erased_as_a_whole(
    request: pytest.FixtureRequest, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    make: Callable[..., Any] = request.getfixturevalue(kind)
    with make(policy(), "first", "arrives") as store:
        assert made(OFFERED).decision.features is not None
        (position,) = append(store, made(OFFERED, time=1.0))
        inner: Any = store._open() if kind == "resting" else store
        texts = inner._texts
        monkeypatch.setattr(
            inner, "_texts", lambda *asked: (store.erase(2.0), texts(*asked))[1]
        )
        (decision,) = inner.decisions([position])
        assert isinstance(decision.context, Erased)
        assert isinstance(decision.features, Erased)


@pytest.mark.parametrize("last", [1, 2])
def test_erasing_that_ends_half_way_leaves_decisions_that_can_be_read(
    postgres: Callable[..., PostgresStore], last: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a database it takes more than one transaction."""
    with postgres(policy(), "first", "arrives") as store:
        (position,) = append(store, made(OFFERED, time=1.0))
        erase, calls = store._erase, list[str]()

        def ends(table: str, *more: Any) -> int:
            calls.append(table)
            if len(calls) == last:
                raise KeyboardInterrupt
            return erase(table, *more)

        monkeypatch.setattr(store, "_erase", ends)
        with pytest.raises(KeyboardInterrupt):
            store.erase(2.0)
        (decision,) = store.decisions([position])
        assert whole(decision)
        monkeypatch.undo()
        store.erase(2.0)
        assert isinstance(store.decisions([position])[0].context, Erased)
