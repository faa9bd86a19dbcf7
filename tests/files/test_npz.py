"""Files of arrays that are larger than they look are refused before they are read."""

import io
import tracemalloc
import zipfile
import zlib
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import oddsmith as od
from oddsmith.core.errors import OddsmithError
from oddsmith.files import npz
from oddsmith.files.npz import NOT_NPZ, read_arrays
from oddsmith.files.policy import read_policy
from oddsmith.lab.worlds import datasets
from oddsmith.server.statistics import snapshot

LARGEST = 100_000


def bomb() -> bytes:
    """A megabyte of zeros in a kilobyte, and more arrays than one."""
    file = io.BytesIO()
    np.savez_compressed(file, X=np.zeros(65_536), weights=np.zeros(65_536))
    return file.getvalue()


def liar() -> bytes:
    """An array of a few bytes whose header announces a terabyte."""
    member = io.BytesIO()
    header = {"descr": "<f8", "fortran_order": False, "shape": (1 << 37,)}
    np.lib.format.write_array_header_1_0(member, header)
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("weights.npy", member.getvalue() + bytes(64))
    return file.getvalue()


def read_state(path: Path) -> object:
    policy = od.auto(arms=["a", "b"])
    return od.Agent.load(path, policy)


def read_experts(path: Path) -> object:
    policy = path.with_suffix(".toml")
    policy.write_text(
        'arms = ["a", "b"]\npolicy.gamma = 0.1\n'
        f'[experts.e]\nkind = "linear"\nfile = "{path.name}"\n'
    )
    return read_policy(policy)


def read_world(path: Path) -> object:
    return datasets._from_npz(path, seed=1)


@pytest.mark.parametrize("make", [bomb, liar])
@pytest.mark.parametrize("read", [read_state, read_experts, read_world])
def test_what_is_too_large_is_refused_unread(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    make: Callable[[], bytes],
    read: Callable[[Path], object],
) -> None:
    monkeypatch.setattr(npz, "_LARGEST", LARGEST)
    path = tmp_path / "file.npz"
    path.write_bytes(make())
    tracemalloc.start()
    try:
        with pytest.raises(OddsmithError, match=r"at most|ends early"):
            read(path)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 5 * LARGEST


def test_a_large_file_may_be_large() -> None:
    file = io.BytesIO()
    numbers = np.arange(20_000.0)
    np.savez_compressed(file, numbers=numbers)
    assert np.array_equal(read_arrays(file.getvalue())["numbers"], numbers)


@pytest.mark.parametrize("end", [0, 30, 200, -1])
def test_what_is_cut_is_refused(end: int) -> None:
    with pytest.raises(NOT_NPZ):
        read_arrays(bomb()[:end])


def test_sums_of_snapshots_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot, "_MOST", LARGEST)
    text = b64encode(zlib.compress(bytes(8 * LARGEST))).decode()
    for unpack in (snapshot.unpack_floats, snapshot.unpack_units):
        with pytest.raises(ValueError, match="at most"):
            unpack(text)
