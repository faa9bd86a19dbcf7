"""A store goes on with other kernels: the change is an event, and the state is the fold
of the log with them."""

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

import oddsmith as od
from oddsmith.core import kernels
from oddsmith.files.state import leaves_of
from oddsmith.server.experiment.start import open_experiments
from oddsmith.server.fold.fold import FoldState, restore, save_snapshot
from oddsmith.server.store.events import KERNELS
from oddsmith.server.store.protocol import Store
from server.served import here, place
from server.store.postgres_server import Server
from server.store.samples import WithoutSnapshots


@pytest.fixture
def kernels_change() -> Iterator[None]:
    usual = kernels.choice()
    yield
    kernels.use(usual)


def bits(folded: FoldState) -> list[bytes]:
    return [np.asarray(leaf).tobytes() for _, leaf in leaves_of(folded.state)]


def serve(path: Path, first: int, last: int) -> None:
    with here(path) as served:
        for i in range(first, last):
            served.decide(f"d{i}")
            served.reward(f"d{i}", (i * 0.37) % 1)


def state_of(path: Path, *, snapshot: bool = False) -> tuple[list[bytes], list[bytes]]:
    """The bits of the restored state, and of the same log folded without any snapshot,
    both with today's kernels."""
    (opened,) = open_experiments([path])
    with closing(opened.store) as store:
        folded = restore(store, opened.policy, change=opened.change)
        if snapshot:
            save_snapshot(store, folded, 0.0)
        plain = restore(WithoutSnapshots(store), opened.policy, change=opened.change)
        return bits(folded), bits(plain)


def changes(store: Store) -> list[str]:
    return [json.loads(line.body or "")["value"] for line in store.of_setting(KERNELS)]


@pytest.mark.parametrize("began", ["numpy", "numba"])
def test_a_store_opens_with_other_kernels(
    tmp_path: Path, began: str, kernels_change: None
) -> None:
    other = {"numpy": "numba", "numba": "numpy"}[began]
    # learners, whose compiled twins round other last bits
    path = tmp_path / "news.toml"
    path.write_text(
        'arms = ["a", "b"]\nseed = 5\n[policy]\nkind = "auto"\n[service]\n'
        "snapshot_every = 10\n"
    )
    kernels.use(began)
    serve(path, 0, 60)
    before, _ = state_of(path, snapshot=True)
    kernels.use(other)
    after, plain = state_of(path)
    assert after == plain  # no snapshot of the first kernels is in it
    assert after != before  # else this test would show nothing
    serve(path, 60, 90)  # and goes on
    after, plain = state_of(path, snapshot=True)
    assert after == plain
    (opened,) = open_experiments([path])
    with closing(opened.store) as store:
        assert changes(store) == [other]  # told once
        folded = restore(store, opened.policy, change=opened.change)
        assert bits(folded) == after


def test_replicas_must_have_the_same_kernels(
    tmp_path: Path, server: Server, experiment: str, kernels_change: None
) -> None:
    path = place(tmp_path, experiment, service=f"store = {json.dumps(server.url())}\n")
    kernels.use("numpy")
    (first,) = open_experiments([path])
    (second,) = open_experiments([path])
    second.store.close()
    kernels.use("numba")
    with pytest.raises(
        od.BadFile, match="served by a replica with numpy kernels; this one has numba"
    ):
        open_experiments([path])
    assert changes(first.store) == []
    first.store.close()
    (opened,) = open_experiments([path])
    with closing(opened.store) as store:
        assert changes(store) == ["numba"]
