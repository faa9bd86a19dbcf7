"""Arrays of untrusted `.npz` files: sizes are checked before unpacking, and pickle is
disabled."""

import io
import zipfile
import zlib
from math import prod
from threading import Lock
from typing import Any

import numpy.typing as npt
from numpy.lib import format as npy

from oddsmith.files.sizes import check_unpacked

__all__ = ["NOT_NPZ", "read_arrays"]

_HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
# Parse array headers under a lock, because ast.literal_eval of Python 3.11 may fail in
# concurrent threads.
_READING = Lock()

NOT_NPZ = (
    OSError,
    ValueError,
    KeyError,
    TypeError,
    EOFError,
    AttributeError,
    NotImplementedError,
    RuntimeError,
    zipfile.BadZipFile,
    zlib.error,
)
"""Exceptions for a file that is invalid, damaged or too large."""


def read_arrays(content: bytes) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays of an `.npz` file by name; raise one of `NOT_NPZ`.

    Unpacked they have at most 256 MiB, or 20 times the size of the file.

    >>> import numpy as np
    >>> file = io.BytesIO()
    >>> np.savez(file, weights=[1.0, 2.0])
    >>> read_arrays(file.getvalue())
    {'weights': array([1., 2.])}
    """
    with _READING, zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = archive.infolist()
        size = sum(member.file_size for member in members)
        check_unpacked("its arrays", size, len(content))
        return {
            member.filename.removesuffix(".npy"): _read_array(archive, member)
            for member in members
        }


def _read_array(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> npt.NDArray[Any]:
    """Read one array, after checking that its header matches the size of its member."""
    with archive.open(member) as file:
        shape, _, dtype = _HEADERS[npy.read_magic(file)](file)
    if prod(shape) * dtype.itemsize > member.file_size:
        raise ValueError(f"{member.filename} must be whole; it ends early")
    with archive.open(member) as file:
        array: npt.NDArray[Any] = npy.read_array(file, allow_pickle=False)
    return array
