"""The experts of a policy file: ONNX models, linear weights, what a factory makes, and learners."""

import importlib
import re
import sys
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import BadZipFile

import numpy as np

from oddsmith.arrays import Array, finite
from oddsmith.errors import BadFile, ExpertFailed, InvalidInput, OddsmithError
from oddsmith.experts.base import Experts, check_bank, check_names
from oddsmith.experts.clipped import Clipped
from oddsmith.experts.encoded import Encoded
from oddsmith.experts.isolated import Isolated
from oddsmith.experts.linear import LinearExperts
from oddsmith.experts.onnx import OnnxExperts
from oddsmith.experts.schema import Schema
from oddsmith.files.keys import Keys
from oddsmith.policies.auto import SIZES, auto
from oddsmith.policies.base import Policy

__all__ = ["Bank", "Seat", "from_factory", "read_bank", "read_flag"]

_LINKS = ("logistic", "identity", "probit")
_FACTORY = re.compile(r"(\w+(?:\.\w+)*):(\w+)")


class Seat(NamedTuple):
    """What experts are made for: the file's folder, arms, schema, drift of the world, milliseconds for an answer."""

    folder: Path
    arms: tuple[str, ...]
    schema: Schema | None
    share: float = 0.0
    timeout_ms: float = 50.0


class Bank(NamedTuple):
    """The experts of one table, and how they share its part of the prior (N,)."""

    experts: Experts
    shares: Array


def read_bank(name: str, keys: Keys, seat: Seat) -> Bank:
    """The experts that one table of a policy file describes."""
    kind = keys.text("kind", choices=_KINDS)
    try:
        if read_flag(keys, "isolate"):
            return _isolated(name, keys, seat)
        bank = _KINDS[kind](name, keys, seat)
    except OddsmithError as error:
        raise keys.blame(error) from error
    keys.close()
    return bank


def _onnx(name: str, keys: Keys, seat: Seat) -> Bank:
    model, rows = _content(keys, seat.folder), keys.get("arm_features", None)
    bank = OnnxExperts({name: model}, seat.arms, rows, _clip(keys))
    return Bank(_asked(bank, seat, rows_per_arm=rows == "context"), np.ones(1))


def _linear(name: str, keys: Keys, seat: Seat) -> Bank:
    arrays = _arrays(keys, seat.folder)
    n = len(arrays["weights"]) if arrays["weights"].ndim else 0
    names = arrays["names"].tolist() if "names" in arrays else [name] if n == 1 else [f"{name} {i}" for i in range(n)]
    link: Any = keys.text("link", "logistic", choices=_LINKS)
    bank = LinearExperts(arrays["weights"], link, check_names("names", names, n=n), seat.arms)
    rows_per_arm = bank.weights.ndim == 2
    return Bank(_asked(Clipped(bank, *_clip(keys)), seat, rows_per_arm=rows_per_arm), np.full(n, 1 / n))


def _python(_: str, keys: Keys, seat: Seat) -> Bank:
    bank = from_factory(keys, seat)
    check_bank(keys.named("factory"), bank)
    n = len(check_names("names", bank.names))
    return Bank(bank, np.full(n, 1 / n))


def _auto(_: str, keys: Keys, seat: Seat) -> Bank:
    size, rows_per_arm = keys.text("size", "normal", choices=SIZES), read_flag(keys, "rows_per_arm")
    made = auto(seat.arms, schema=seat.schema, size=size, rows_per_arm=rows_per_arm, share=seat.share)
    return Bank(made.experts, made.prior)


def _isolated(name: str, keys: Keys, seat: Seat) -> Bank:
    """The bank of a table in a process of its own, which reads the table there."""
    if keys.values["kind"] not in ("python", "onnx"):
        said = f"{keys.values['kind']}, which runs no code but ours"
        raise InvalidInput(f"isolate must stand in a table of kind python or onnx; got it in one of kind {said}")
    table = keys.values | {"isolate": False}
    bank = Isolated(name, table, seat.arms, seat.schema, seat.folder, seat.timeout_ms)
    return Bank(bank, np.full(len(bank.names), 1 / len(bank.names)))


_KINDS: dict[str, Callable[[str, Keys, Seat], Bank]] = {
    "onnx": _onnx,
    "linear": _linear,
    "python": _python,
    "auto": _auto,
}


def _asked(bank: Experts, seat: Seat, *, rows_per_arm: bool) -> Experts:
    """The bank behind the schema, if there is one; then asked once, so that what does not fit is found at reading."""
    if seat.schema is None:
        return bank
    shape = (len(seat.arms), seat.schema.width) if rows_per_arm else (seat.schema.width,)
    try:
        bank.predict((), np.zeros(shape))
    except Exception as error:  # onnxruntime raises its own kinds
        said = str(error).splitlines()[0]
        raise ExpertFailed(
            f"file must be a model of {seat.schema.width} numbers (the schema's); {said:.200}"
        ) from error
    return Encoded(bank, seat.schema)


def from_factory(keys: Keys, seat: Seat) -> Any:
    """What `factory(arms, **args)` gives back; its arms, where it names them, must be the file's."""
    said, args = keys.text("factory"), keys.table("args", {}).values
    factory = _imported(keys.named("factory"), said, seat.folder)
    try:
        made = factory(seat.arms, **args)
    except Exception as error:  # whatever a user's function raises becomes one sentence
        raised = f"{said} raised {type(error).__name__}: {error}"
        raise InvalidInput(f"{keys.named('factory')} must make what it is for; {raised:.200}") from error
    known = made.arms if isinstance(made, Experts | Policy) else None
    if known is not None and tuple(known) != seat.arms:
        arms = f"{list(seat.arms)} in this order; got {list(known)}"
        raise InvalidInput(f"{keys.named('factory')} must keep the arms {arms}")
    return made


def _imported(what: str, text: str, folder: Path) -> Callable[..., Any]:
    """The function module:name; the file's folder comes last, so that nothing there hides an installed module."""
    found = _FACTORY.fullmatch(text)
    if not found:
        raise InvalidInput(f"{what} must be module:name; got {text!r:.60}")
    module, name = found.groups()
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
        importlib.invalidate_caches()
    try:
        loaded = importlib.import_module(module)
    except Exception as error:  # whatever a user's module raises becomes one sentence
        raised = f"{type(error).__name__}: {error}"
        raise InvalidInput(f"{what} must name a module that can be imported; got {text!r}, {raised:.160}") from error
    base, source = folder.joinpath(*module.split(".")), getattr(loaded, "__file__", None)
    beside = [path for path in (base.with_suffix(".py"), base / "__init__.py") if path.exists()]
    if beside and (source is None or Path(source).resolve() not in beside):
        taken = f"{module} is {source or 'built in'} in this process"
        raise InvalidInput(f"{what} must name a module of its own, not hidden by another; {taken}")
    factory = getattr(loaded, name, None)
    if not callable(factory):
        raise InvalidInput(
            f"{what} must name a function; {module} has {'no ' if factory is None else 'another '}{name}"
        )
    return factory  # type: ignore[no-any-return]


def read_flag(keys: Keys, name: str) -> bool:
    """A key that is true or false; false unless given."""
    value = keys.get(name, False)
    if not isinstance(value, bool):
        raise InvalidInput(f"{keys.named(name)} must be true or false; got {value!r:.60}")
    return value


def _clip(keys: Keys) -> tuple[float, float]:
    said = keys.get("clip", [0.01, 0.99])
    ends = finite(keys.named("clip"), said)
    if ends.shape != (2,) or not 0 <= ends[0] < ends[1] <= 1:
        raise InvalidInput(f"{keys.named('clip')} must be [low, high] with 0 <= low < high <= 1; got {said!r:.60}")
    return float(ends[0]), float(ends[1])


def _content(keys: Keys, folder: Path) -> bytes:
    """The bytes of the file that the key `file` names."""
    path = folder / keys.text("file")
    try:
        return path.read_bytes()
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise BadFile(f"{keys.named('file')} must be a file that can be read; got {str(path)!r}, {why}") from error


def _arrays(keys: Keys, folder: Path) -> dict[str, Any]:
    """The arrays `weights` and perhaps `names` of an .npz file."""
    content, what = BytesIO(_content(keys, folder)), keys.named("file")
    try:
        with np.load(content, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except (OSError, ValueError, EOFError, AttributeError, TypeError, BadZipFile) as error:
        raise BadFile(f"{what} must be an .npz file of numbers and names; {error!s:.120}") from error
    if "weights" not in arrays or not set(arrays) <= {"weights", "names"}:
        raise BadFile(f"{what} must hold the arrays weights and, if you like, names; got {', '.join(arrays) or 'none'}")
    return arrays
