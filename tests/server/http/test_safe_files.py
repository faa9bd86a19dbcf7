"""Files from elsewhere cannot run code here (S2), and the service stands on few
packages (S6)."""

import io
import os
import tomllib
import zipfile
from importlib.metadata import requires
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from packaging.requirements import Requirement

import oddsmith as od
from oddsmith.files import state as saving
from oddsmith.lab.worlds.datasets import dataset
from oddsmith.server.fold.fold import restore, save_snapshot
from oddsmith.server.store import SQLiteStore
from server.store.samples import append, made, policy

REPOSITORY = Path(od.__file__).parents[2]
EXTRAS = ("service", "postgres", "client")


def bomb(mark: Path, names: tuple[str, ...]) -> bytes:
    """An .npz whose arrays, when unpickled, make the folder `mark`: written by hand, as
    an attacker would."""
    header = b"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }"
    header += b" " * (117 - len(header)) + b"\n"
    load = b"c%s\nmkdir\n(S'%s'\ntR." % (
        os.mkdir.__module__.encode(),
        str(mark).encode(),
    )
    array = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + load
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name in names:
            archive.writestr(f"{name}.npy", array)
    return buffer.getvalue()


def state_file(content: bytes, folder: Path) -> None:
    (folder / "state.npz").write_bytes(content)
    od.Agent.load(folder / "state.npz", policy())


def linear_file(content: bytes, folder: Path) -> None:
    (folder / "lines.npz").write_bytes(content)
    (folder / "p.toml").write_text(
        "arms = ['a', 'b']\n[experts.lines]\nkind = 'linear'\nfile = 'lines.npz'\n"
    )
    od.read_policy(folder / "p.toml")


def snapshot(content: bytes, folder: Path) -> None:
    with SQLiteStore(folder / "events.sqlite", policy()) as store:
        append(store, made("a"))
        # with its checksum
        store.keep(save_snapshot(store, restore(store, policy()), time=0.0), content)
    with SQLiteStore(folder / "events.sqlite", policy()) as store:
        restore(store, policy())


def data_file(content: bytes, folder: Path) -> None:
    (folder / "data.npz").write_bytes(content)
    dataset(folder / "data.npz")


@pytest.mark.parametrize("reader", [state_file, linear_file, snapshot, data_file])
def test_a_bomb_is_refused_without_running(reader: Any, tmp_path: Path) -> None:
    mark = tmp_path / "went-off"
    content = bomb(mark, ("meta", "weights", "names", "X", "y"))
    with pytest.raises(od.OddsmithError):
        reader(content, tmp_path)
    assert not mark.exists()


@pytest.mark.parametrize("careless", [True, False])
def test_the_bomb_does_go_off_where_it_is_let(careless: bool, tmp_path: Path) -> None:
    """Teeth: what every reader above says to numpy is what keeps it from running."""
    mark = tmp_path / "went-off"
    archive = np.load(io.BytesIO(bomb(mark, ("meta",))), allow_pickle=careless)
    with pytest.raises((ValueError, AttributeError, TypeError)):
        archive["meta"].item(0).anything  # noqa: B018
    archive.close()
    assert mark.exists() == careless


def test_what_we_write_can_be_read_without_pickle(tmp_path: Path) -> None:
    content = saving.pack(policy(), policy().init(), {})
    with np.load(io.BytesIO(content), allow_pickle=False) as archive:
        assert all(archive[name].dtype.kind in "fiub" for name in archive.files)


def needed(extras: tuple[str, ...]) -> set[str]:
    """Every package that the core and these extras bring, with what those need in
    turn."""
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    optional = project["optional-dependencies"]
    waiting = [
        Requirement(text)
        for text in project["dependencies"]
        + [one for e in extras for one in optional[e]]
    ]
    found: set[str] = set()
    while waiting:
        requirement = waiting.pop()
        name = requirement.name.lower().replace("_", "-")
        if name in found:
            continue
        found.add(name)
        for text in requires(name) or ():
            inner = Requirement(text)
            if inner.marker is None or any(
                inner.marker.evaluate({"extra": e}) for e in ("", *requirement.extras)
            ):
                waiting.append(inner)
    return found


def test_the_service_needs_at_most_20_packages() -> None:
    assert needed(()) == {"numpy", "scipy"}
    service = needed(EXTRAS)
    assert {
        "uvicorn",
        "uvloop",
        "httptools",
        "msgspec",
        "asyncpg",
        "httpx",
        "anyio",
        "h11",
    } <= service
    assert len(service) <= 20, sorted(service)
    assert len(needed(("dask", "lab"))) > 12  # teeth: others are counted whole
