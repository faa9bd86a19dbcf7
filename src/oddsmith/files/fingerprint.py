"""Fingerprint of a policy: JSON of all its settings, equal in every process with the
same policy.

The JSON contains numbers and names, arrays by content, functions and classes by name
(ours by their registered name, see `registered_names`), dataclasses field by field, and
opaque models by class. Two trainings of a model differ only by the `version` that the
user gave. A guard or a separate process does not change the description of experts.
"""

import functools
import json
import sys
from collections.abc import Callable
from dataclasses import MISSING, Field, fields, is_dataclass
from hashlib import sha256
from pathlib import Path
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import TYPE_CHECKING

import numpy as np

from oddsmith.core.errors import NotPortable
from oddsmith.core.exact_json import Json
from oddsmith.core.experts import Experts
from oddsmith.experts.guard.guard import Guarded
from oddsmith.experts.guard.process import Isolated
from oddsmith.files.registered_names import REGISTERED, Registration

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

__all__ = ["describe", "difference", "fingerprint", "opaque", "source_digest"]


_EXCERPT = 60  # maximum characters of a setting in a message
_BEFORE = 20  # characters shown before the first difference


def fingerprint(policy: object) -> str:
    """Return a short hash of `describe(policy)`.

    >>> from oddsmith.experts.external import GivenExperts
    >>> fingerprint(GivenExperts(["a"])) == fingerprint(
    ...     GivenExperts(["a"])
    ... ) != fingerprint(GivenExperts(["b"]))
    True
    """
    return sha256(json.dumps(describe(policy), sort_keys=True).encode()).hexdigest()[
        :32
    ]


def describe(value: object) -> Json:
    """Return a JSON value with every setting; raise for lambdas and local functions.

    >>> describe(np.float64(0.5)), describe(np.log)
    (0.5, {'function': 'numpy:log'})
    """
    if isinstance(value, np.generic):
        plain: Json = value.item()
        return plain
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**53:
        return float(value)  # eta=1 and eta=1.0 must be the same setting
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.ndarray):
        content = sha256(np.ascontiguousarray(value).tobytes()).hexdigest()
        return {"array": content, "dtype": value.dtype.str, "shape": list(value.shape)}
    if isinstance(value, type):
        return {"class": _qualified(value)}
    if isinstance(value, FunctionType | BuiltinFunctionType | np.ufunc):
        return {"function": _qualified(value)}
    if isinstance(value, MethodType):
        return {"method": _qualified(value.__func__), "of": describe(value.__self__)}
    if isinstance(value, functools.partial):
        return {
            "partial": describe(value.func),
            "args": describe(value.args),
            "keywords": describe(value.keywords),
        }
    if isinstance(value, dict):
        return {
            "dict": [[describe(name), describe(inner)] for name, inner in value.items()]
        }
    if isinstance(value, list | tuple):
        return [describe(inner) for inner in value]
    # Skip the guard, because it only decides when experts make no prediction.
    if isinstance(value, Guarded):
        return describe(value.experts)
    if isinstance(value, Isolated):
        description: Json = value.about["description"]
        return description
    described: dict[str, Json] = {"class": _qualified(type(value))}
    if is_dataclass(value):
        described |= {
            field.name: describe(getattr(value, field.name))
            for field in _described_fields(value)
        }
    # These experts are no dataclass, so describe at least their names in order.
    elif isinstance(value, Experts):
        described |= {"names": list(value.names), "version": value.version}
    return described


def difference(saved: Json, given: Json, path: str = "policy") -> str:
    """Describe the first difference of two descriptions.

    >>> difference({"gamma": 0.1}, {"gamma": 0.2})
    'policy.gamma was 0.1, is 0.2'
    """
    if isinstance(saved, dict) and isinstance(given, dict):
        for name in dict.fromkeys([*saved, *given]):
            if saved.get(name) != given.get(name):
                return difference(saved.get(name), given.get(name), f"{path}.{name}")
    if isinstance(saved, list) and isinstance(given, list) and len(saved) == len(given):
        for i, (one, other) in enumerate(zip(saved, given, strict=True)):
            if one != other:
                return difference(one, other, f"{path}[{i}]")
    if path.endswith(".recipe"):
        learners = (
            f"{path} was {saved!r:.60}, is {given!r:.60} in this version: its "
            "learners learn differently from rewards"
        )
        return (
            f"{learners} (oddsmith export and oddsmith fit learn the log again in a "
            "new store)"
        )
    was, now = _excerpts(repr(saved), repr(given))
    return f"{path} was {was}, is {now}"


def _excerpts(first: str, second: str) -> tuple[str, str]:
    """Return two texts, shortened to the part where they differ.

    >>> _excerpts("a" * 99 + "b", "a" * 99 + "c")
    ('…aaaaaaaaaaaaaaaaaaaab', '…aaaaaaaaaaaaaaaaaaaac')
    """
    longest = max(len(first), len(second))
    if longest <= _EXCERPT:
        return first, second
    pairs = enumerate(zip(first, second, strict=False))
    alike = next((i for i, (one, other) in pairs if one != other), longest)
    start = max(0, alike - _BEFORE)
    return _cut(first, start), _cut(second, start)


def _cut(text: str, start: int) -> str:
    end = start + _EXCERPT
    before = "…" if start else ""
    after = "…" if end < len(text) else ""
    return f"{before}{text[start:end]}{after}"


def opaque(value: object) -> str | None:
    """Return the class of the first object inside `value` that only its class
    identifies, so that two different objects would have the same description. Return
    None if there is no such object.

    Models with a version are identified by it.

    >>> opaque({"a": [1, np.zeros(2)]}) is None, opaque([object()])
    (True, 'object')
    """
    if value is None or isinstance(
        value, bool | int | float | str | np.generic | np.ndarray | type | np.ufunc
    ):
        return None
    if isinstance(value, FunctionType | BuiltinFunctionType | MethodType):
        return None
    if isinstance(value, functools.partial):
        return opaque([value.func, value.args, value.keywords])
    if isinstance(value, dict):
        return opaque(list(value.values()))
    if isinstance(value, list | tuple):
        return next(
            (found for inner in value if (found := opaque(inner)) is not None), None
        )
    if not is_dataclass(value):
        return type(value).__name__
    if isinstance(value, Guarded):
        return opaque(value.experts)
    if isinstance(value, Isolated):
        inside: str | None = value.about["opaque"]
        return inside
    if isinstance(value, Experts) and value.version is not None:
        return None
    return opaque(
        [
            getattr(value, field.name)
            for field in fields(value)
            if not field.name.startswith("_")
        ]
    )


@functools.lru_cache(maxsize=1)
def source_digest() -> str:
    """Return a hash of all source files of the library, which identifies saved results.

    >>> len(source_digest())
    32
    """
    root, content = Path(__file__).parents[1], sha256()
    for path in sorted(root.rglob("*.py")):
        content.update(path.relative_to(root).as_posix().encode() + path.read_bytes())
    return content.hexdigest()[:32]


def _described_fields(
    value: "DataclassInstance | type[DataclassInstance]",
) -> list["Field[object]"]:
    """The public fields of a dataclass, without fields that were added later and are at
    their default."""
    registration = _registration(type(value))
    public = [field for field in fields(value) if not field.name.startswith("_")]
    if registration is None:
        return public
    first = registration.fields.split()
    return [
        field
        for field in public
        if field.name in first or not _is_at_default(value, field)
    ]


def _is_at_default(value: object, field: "Field[object]") -> bool:
    default = field.default
    if field.default_factory is not MISSING:
        default = field.default_factory()
    return default is not MISSING and describe(getattr(value, field.name)) == describe(
        default
    )


def _registration(value: Callable[..., object]) -> Registration | None:
    """Return the registration of a class or function of the library, or of the class
    that a method belongs to."""
    module = getattr(value, "__module__", None) or ""
    if module.split(".")[0] != "oddsmith":
        return None
    return REGISTERED.get(value.__qualname__.partition(".")[0])


def _qualified(value: Callable[..., object]) -> str:
    """Return the name of a function or class on disk: its registered name, otherwise
    module:name. For a script, its name replaces __main__."""
    registration = _registration(value)
    if registration is not None:
        _, dot, member = value.__qualname__.partition(".")
        return f"oddsmith:{registration.name}{dot}{member}"
    name = getattr(value, "__qualname__", None) or value.__name__
    module = getattr(value, "__module__", None) or "numpy"
    script = getattr(sys.modules.get("__main__"), "__file__", None)
    if module == "__main__" and script is not None:
        module = Path(script).stem
    if "<" in name:
        raise NotPortable(
            "a saved policy must consist of functions and classes of a module; got "
            f"{name} in {module}"
        )
    return f"{module}:{name}"
