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

__all__ = ["NOT_NPZ", "check_unpacked", "most_unpacked", "read_arrays"]

_LARGEST = 1 << 28  # maximum unpacked size of small files in bytes
_RATIO = 20  # larger files may unpack to this multiple of their own size

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


def most_unpacked(packed: int) -> int:
    """Return the maximum unpacked size for a file, or a part of one, of this size: 256
    MiB, or 20 times the packed size.

    Otherwise a small file could expand beyond the memory.

    >>> most_unpacked(1_000), most_unpacked(1 << 30)
    (268435456, 21474836480)
    """
    return max(_LARGEST, _RATIO * packed)


def check_unpacked(what: str, unpacked: int, packed: int) -> None:
    """Raise ValueError if the unpacked size is too large for `packed` bytes."""
    most = most_unpacked(packed)
    if unpacked > most:
        raise ValueError(
            f"{what} must have at most {most:,} bytes when unpacked; got {unpacked:,}"
        )


def read_arrays(content: bytes) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays of an `.npz` file by name; raise one of `NOT_NPZ`.

    The unpacked arrays may have at most 256 MiB, or 20 times the size of the file.

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
