"""One `.npz` for an agent: the arrays of its state and a JSON page about them; never pickle."""

import io
import json
import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from oddsmith.decision import Policy, State
from oddsmith.errors import BadFile
from oddsmith.fingerprint import fingerprint

__all__ = ["read", "write"]

FORMAT = "oddsmith agent 1"


def write(path: Path, policy: Policy, state: State, meta: dict[str, Any]) -> None:
    """Write a temporary file beside `path`, flush it to disk, then put it in place: all or nothing."""
    page = {"format": FORMAT, "fingerprint": fingerprint(policy), **meta}
    leaves = {"state" + name: np.asarray(leaf) for name, leaf in _leaves(state, "")}
    buffer = io.BytesIO()
    np.savez(buffer, meta=np.frombuffer(json.dumps(page).encode(), dtype=np.uint8), **leaves)  # type: ignore[arg-type]
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with open(part, "wb") as file:
            file.write(buffer.getbuffer())
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise BadFile(f"cannot write {path}: {error}") from error


def read(path: Path, policy: Policy) -> tuple[State, dict[str, Any]]:
    """State and meta from a file that `write` made for this policy."""
    try:
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        meta: dict[str, Any] = json.loads(arrays.pop("meta").tobytes())
        if meta["format"] != FORMAT:
            raise ValueError(f"its format is {meta['format']!r}, not {FORMAT!r}")
    except (OSError, ValueError, KeyError, TypeError, EOFError, AttributeError, zipfile.BadZipFile) as error:
        raise BadFile(f"{path} must be a file that Agent.save wrote; {error}") from error
    if meta["fingerprint"] != fingerprint(policy):
        raise BadFile(f"{path} was saved with another policy (experts, loss, eta, gamma, prior … differ)")
    return _filled(policy.init(), arrays, "state", path), meta


def _leaves(tree: Any, name: str) -> "list[tuple[str, Any]]":
    """Every array and int of a NamedTuple tree, with its path."""
    if isinstance(tree, tuple):
        keys = getattr(tree, "_fields", range(len(tree)))
        return [leaf for key, inner in zip(keys, tree, strict=True) for leaf in _leaves(inner, f"{name}/{key}")]
    return [(name, tree)]


def _filled(template: Any, arrays: dict[str, Any], name: str, path: Path) -> Any:
    """The tree of `template` with the arrays of the file."""
    if isinstance(template, tuple):
        keys = getattr(template, "_fields", range(len(template)))
        parts = [_filled(inner, arrays, f"{name}/{key}", path) for key, inner in zip(keys, template, strict=True)]
        return type(template)(*parts) if hasattr(template, "_fields") else tuple(parts)
    if name not in arrays:
        raise BadFile(f"{path} must hold {name}, which this policy's state has; it does not")
    saved = arrays[name]
    return saved if isinstance(template, np.ndarray) else type(template)(saved.item())
