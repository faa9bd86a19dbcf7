"""The `.npz` file of an agent: the arrays of its state and JSON metadata, without
pickle."""

import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from oddsmith.contexts.rewards import RewardScale
from oddsmith.core.decision import State
from oddsmith.core.errors import BadFile, NotPortable
from oddsmith.core.exact_json import Json
from oddsmith.core.policy import Policy
from oddsmith.files.fingerprint import describe, difference, fingerprint
from oddsmith.files.npz import NOT_NPZ, read_arrays

__all__ = [
    "check_units",
    "leaves_of",
    "pack",
    "read_meta",
    "read_state",
    "unpack",
    "unpack_meta",
    "unpack_part",
]

FORMAT = "oddsmith agent 2"


def pack(policy: Policy, state: State, meta: Mapping[str, Json]) -> bytes:
    """Return the bytes of the file. Raise if the state cannot be written."""
    page = {
        "format": FORMAT,
        "fingerprint": fingerprint(policy),
        "policy": describe(policy),
        **meta,
    }
    text = json.dumps(page).encode()
    leaves = {"state" + name: _leaf(name, leaf) for name, leaf in leaves_of(state)}
    buffer = io.BytesIO()
    np.savez(
        buffer, allow_pickle=False, meta=np.frombuffer(text, dtype=np.uint8), **leaves
    )
    return buffer.getvalue()


def read_state(path: Path, policy: Policy) -> tuple[State, dict[str, Any]]:
    """Return the state and the metadata from a file that `Agent.save` wrote for this
    policy."""
    return unpack(_content(path), policy, str(path))


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise BadFile(
            f"{path} must be a file that Agent.save wrote; "
            f"{error.strerror or 'it is damaged'}"
        ) from error


def read_meta(path: Path) -> dict[str, Any]:
    """Return the metadata from a file that `Agent.save` wrote."""
    return unpack_meta(_content(path), str(path))


def unpack(content: bytes, policy: Policy, name: str) -> tuple[State, dict[str, Any]]:
    """Return the state and the metadata from the bytes that `pack` returned for this
    policy. Error messages call these bytes `name`."""
    arrays, meta = _load(content, name)
    if meta["fingerprint"] != fingerprint(policy):
        change = difference(meta["policy"], describe(policy))
        raise BadFile(f"{name} was saved with another policy: {change}")
    return _fill(policy.init(), arrays, "state", name), meta


def check_units(
    meta: Mapping[str, Any], scale: RewardScale, name: str, where: str
) -> None:
    """Raise if a state has learnt from rewards in units other than `scale`, which come
    from `where`."""
    units = (scale.low, scale.high)
    low, high = meta.get("reward") or units
    if (low, high) != units:
        raise BadFile(
            f"{name} must have learnt in the units of {where}, {scale.low:g} to "
            f"{scale.high:g}; it has learnt in {low:g} to {high:g}: fit it again with "
            "these units, or give [reward] as it was"
        )


def unpack_part(content: bytes, policy: Policy, name: str) -> State:
    """Return the state of this policy from the file of a policy that contains it; such
    a file has more arrays."""
    arrays, _ = _load(content, name)
    return _fill(policy.init(), arrays, "state", name, has_optional=False)


def unpack_meta(content: bytes, name: str) -> dict[str, Any]:
    """Return the metadata that `pack` wrote, for any policy."""
    _, meta = _load(content, name)
    return meta


def _load(
    content: bytes, name: str
) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
    """Return the arrays and the metadata in the bytes of `pack`."""
    try:
        arrays = read_arrays(content)
        meta: dict[str, Any] = json.loads(arrays.pop("meta").tobytes())
    except NOT_NPZ as error:
        raise BadFile(
            f"{name} must be a file that Agent.save wrote; it is something else, or "
            f"damaged: {error!s:.120}"
        ) from error
    if meta.get("format") != FORMAT:
        got = meta.get("format")
        raise BadFile(
            f"{name} must be of format {FORMAT!r}; got {got!r}, which this version "
            "does not read: fit it again"
        )
    return arrays, meta


def leaves_of(tree: State, name: str = "") -> list[tuple[str, State]]:
    """Return every array and every integer of a NamedTuple tree, with its path."""
    if not isinstance(tree, tuple):
        return [(name, tree)]
    leaves: list[tuple[str, State]] = []
    keys = getattr(tree, "_fields", range(len(tree)))
    for key, inner in zip(keys, tree, strict=True):
        leaves += leaves_of(inner, f"{name}/{key}")
    return leaves


def _leaf(name: str, leaf: State) -> npt.NDArray[Any]:
    array = np.asarray(leaf)
    is_number = isinstance(leaf, np.ndarray | np.generic | int | float)
    if not is_number or array.dtype.kind not in "fiub":
        raise NotPortable(
            "a state must be a NamedTuple tree of arrays and numbers; got "
            f"{type(leaf).__name__} at {name}"
        )
    return array


def _fill(
    template: State,
    arrays: dict[str, npt.NDArray[Any]],
    name: str,
    source: str,
    *,
    has_optional: bool = True,
) -> State:
    """Return the tree of `template` with the arrays of the file.

    With `has_optional`, an empty tuple in the template stands for an array that may be
    missing from the file. The template of a part of another policy's state has an empty
    tuple for each array that the part does not need.
    """
    if isinstance(template, tuple):
        if has_optional and not template and name in arrays:
            return arrays[name]
        fields = getattr(template, "_fields", None)
        keys = range(len(template)) if fields is None else fields
        parts = [
            _fill(inner, arrays, f"{name}/{key}", source, has_optional=has_optional)
            for key, inner in zip(keys, template, strict=True)
        ]
        return tuple(parts) if fields is None else type(template)(*parts)
    if name not in arrays:
        raise BadFile(
            f"{source} must hold {name}, which this policy's state has; it does not"
        )
    saved = arrays[name]
    return saved if isinstance(template, np.ndarray) else type(template)(saved.item())
