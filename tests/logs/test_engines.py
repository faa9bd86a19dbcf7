"""The map of engines: every item once, errors come through, wrong words are named."""

import os
import socket
from contextlib import suppress
from typing import Any

import pytest

import oddsmith as od
from oddsmith.logs.engines import ENGINES, each


def square(x: int) -> tuple[int, int]:
    return x * x, os.getpid()


def fail(x: int) -> int:
    raise ValueError(f"item {x} is bad")


@pytest.mark.parametrize("engine", ["serial", "local", "dask"])
def test_every_item_once(engine: str) -> None:
    found = dict(each(square, list(range(7)), engine=engine, workers=2))
    assert {i: result for i, (result, _) in found.items()} == {
        i: i * i for i in range(7)
    }
    elsewhere = {pid for _, pid in found.values()}
    assert (os.getpid() in elsewhere) == (engine == "serial")


def test_two_clusters_stand_side_by_side() -> None:
    """Whoever has Dask's usual port, another cluster or this socket, a local cluster
    starts without a word."""
    with socket.socket() as taken:
        with suppress(OSError):
            taken.bind(("127.0.0.1", 8787))
            taken.listen()
        assert len(list(each(square, [1, 2], engine="dask", workers=1))) == 2


@pytest.mark.parametrize("engine", ["serial", "local"])
def test_errors_come_through(engine: str) -> None:
    with pytest.raises(ValueError, match="is bad"):
        list(each(fail, [1, 2], engine=engine, workers=1))


def test_nothing_to_do_is_no_error() -> None:
    assert [
        list(each(square, [], engine=engine)) for engine in ("serial", "local")
    ] == [[], []]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"engine": "cloud"}, "engine must be one of serial, local, dask, ray, spark"),
        ({"workers": 0}, "workers must be"),
    ],
)
def test_wrong_engines(wrong: Any, message: str) -> None:
    with pytest.raises(od.InvalidInput, match=message):
        list(each(square, [1], **wrong))
    assert "local" in ENGINES
