"""Trace: what a run gave, as lines of text that hold every bit; and where they were
made, on which bits depend."""

import hashlib
import platform
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from importlib.metadata import version
from math import fsum
from typing import Any

import numpy as np
from threadpoolctl import threadpool_info

__all__ = ["Trace", "circumstances", "differences"]

# numbers of an array that are written out; beyond it a digest, and a few of them
_LONGEST = 40
_SHOWN = 5


class Trace:
    """The lines of a run, in order: a label, and numbers as Python writes them, which
    is exact."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def note(self, label: str, value: Any) -> None:
        """Write down a number, a text, an array, or a tree of them."""
        for path, leaf in _leaves(label, value):
            self.lines.append(f"{path}: {_written(leaf)}")


@cache
def circumstances() -> str:
    """What the last bits depend on: versions, and the processor's features, for which
    exp, log and sums are made."""
    packages = ("numpy", "scipy", "numba", "scikit-learn")
    versions = ", ".join(f"{name} {version(name)}" for name in packages)
    processor: dict[str, bool] = import_module(
        "numpy._core._multiarray_umath"
    ).__cpu_features__
    features = " ".join(sorted(name for name, there in processor.items() if there))
    kernels = " ".join(
        sorted({str(library.get("architecture")) for library in threadpool_info()})
    )
    digest = hashlib.sha256(f"{features} {kernels}".encode()).hexdigest()[:12]
    return f"{versions}, {platform.machine()} {digest}"


def differences(
    recorded: list[str], found: list[str], tolerance: float = 0.0
) -> list[str]:
    """One line for each label whose numbers differ: to the last bit, or beyond a
    relative tolerance."""
    if [_label(line) for line in recorded] != [_label(line) for line in found]:
        changed = sorted(
            {_label(line) for line in recorded} ^ {_label(line) for line in found}
        )
        return [
            f"other labels, {len(recorded)} and {len(found)}: "
            f"{', '.join(changed[:5]) or 'in another order'}"
        ]
    pairs = zip(recorded, found, strict=True)
    return [
        f"{one}\n  now {other}"
        for one, other in pairs
        if one != other and not _close(one, other, tolerance)
    ]


def _label(line: str) -> str:
    return line.partition(": ")[0]


def _close(one: str, other: str, tolerance: float) -> bool:
    """Whether two lines have the same words, except digests, and numbers that are near
    each other."""
    if not tolerance:
        return False
    words, others = (line.partition(": ")[2].split() for line in (one, other))
    if len(words) != len(others):
        return False
    return all(
        a == b or a[0] == b[0] == "#" or _near(a, b, tolerance)
        for a, b in zip(words, others, strict=True)
    )


def _near(one: str, other: str, tolerance: float) -> bool:
    try:
        return bool(
            np.isclose(
                float(one), float(other), rtol=tolerance, atol=tolerance, equal_nan=True
            )
        )
    except ValueError:
        return False


def _leaves(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        value = tuple(value.items())
    if isinstance(value, tuple | list):
        fields = getattr(value, "_fields", range(len(value)))
        for field, part in zip(fields, value, strict=True):
            yield from _leaves(f"{path}.{field}", part)
    else:
        yield path, value


def _written(leaf: Any) -> str:
    if leaf is None or isinstance(leaf, str):
        return repr(leaf)
    array = np.asarray(leaf)
    if array.dtype.kind not in "fiub":
        raise TypeError(f"a leaf must be numbers; got {array.dtype} for {leaf!r:.60}")
    if array.dtype.kind == "f":
        array = np.where(np.isnan(array), np.nan, array.astype(np.float64))
    numbers: list[float] = array.ravel().tolist()
    shape = f"{array.shape} " if array.ndim > 1 else ""
    if len(numbers) <= _LONGEST:
        return shape + " ".join(map(repr, numbers))
    digest = hashlib.sha256(
        np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes()
    ).hexdigest()[:32]
    shown = numbers[:: max(1, len(numbers) // _SHOWN)]
    known = [number for number in numbers if np.isfinite(number)]
    return (
        f"{array.shape} #{digest} sum {fsum(known)!r} some {' '.join(map(repr, shown))}"
    )
