"""Dependencies of a result: the settings of a policy or world, and the user code that
it runs.

A fingerprint identifies functions and classes by name. A name is enough to load a saved
state. It is not enough to reuse a result, because code can change without its name.
This module therefore hashes the loaded code of the user's functions and classes
(instructions, constants, defaults, closures), and everything that the code refers to:
helpers, base classes, decorators, module constants, files that it names. Comments,
docstrings and line numbers do not count. Code of installed packages is represented by
their versions, code of oddsmith by `source_digest`.

Names that are computed at run time (a composed path, an import by `importlib`) cannot
be followed. A module that is used with `getattr` counts as a whole.
"""

import dis
import functools
import importlib
import importlib.util
import json
import site
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from enum import Enum
from hashlib import sha256
from itertools import accumulate
from pathlib import Path, PurePath
from types import (
    BuiltinFunctionType,
    CellType,
    CodeType,
    FunctionType,
    GetSetDescriptorType,
    MappingProxyType,
    MemberDescriptorType,
    MethodDescriptorType,
    MethodType,
    MethodWrapperType,
    ModuleType,
    WrapperDescriptorType,
)
from typing import Any, TypeAlias

import numpy as np

from oddsmith.core.errors import NotPortable
from oddsmith.core.experts import Experts
from oddsmith.experts.guard.guard import Guarded
from oddsmith.experts.guard.process import Isolated

__all__ = ["changed_parts", "dependencies"]

Token: TypeAlias = str | list["Token"]
"""A value as nested lists of text, which can be hashed."""

_SCALARS = (type(None), bool, int, float, complex, bytes, type(...), np.generic)
_BUILT_IN = (
    BuiltinFunctionType,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodDescriptorType,
    MethodWrapperType,
    WrapperDescriptorType,
    np.ufunc,
)
_DYNAMIC = {"__dict__", "__import__", "eval", "exec", "getattr", "globals", "vars"}
"""Names in code that may access a module's content by computed names."""
_NO_CONTENT = {
    "__abstractmethods__",
    "__annotate__",
    "__annotate_func__",
    "__annotations__",
    "__annotations_cache__",
    "__dataclass_fields__",
    "__dataclass_params__",
    "__dict__",
    "__doc__",
    "__firstlineno__",
    "__module__",
    "__orig_bases__",
    "__parameters__",
    "__qualname__",
    "__static_attributes__",
    "__weakref__",
    "_abc_impl",
}
"""Attributes of a class that do not affect its behaviour."""
# Bit mask: keep flags for *args, **kwargs, generators and coroutines; drop the
# docstring flag.
_KIND_OF_CODE = 0x2FF
_FILE_BLOCK = 1 << 20


def dependencies(values: Mapping[str, object]) -> dict[str, str]:
    """Return the digest of each part that these values depend on.

    A part is one of the values, or a function, class, constant, file or package that
    they use.

    >>> sorted(dependencies({"policy": np.log, "steps": 5}))
    ['numpy', 'policy', 'steps']
    >>> dependencies({"rate": 0.1}) == dependencies({"rate": 0.2})
    False
    """
    search = _Search()
    for name, value in values.items():
        with search.inside(name):
            search.parts[name] = _digest(search.token(value))
    return search.parts


def changed_parts(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Return the names of changed parts.

    >>> changed_parts({"steps": "a", "my.loss": "b"}, {"steps": "a", "my.loss": "c"})
    ['my.loss']
    """
    names = dict.fromkeys([*now, *before])
    return [name for name in names if before.get(name) != now.get(name)]


def _digest(token: Token) -> str:
    return sha256(json.dumps(token).encode()).hexdigest()[:32]


class _Search:
    """The search for all parts that a value depends on."""

    def __init__(self) -> None:
        self.parts: dict[str, str] = {}
        self._names: dict[int, str] = {}
        # Keep the objects alive, so that their ids are not used again.
        self._known: list[object] = []
        self._open: list[int] = []
        self._trail: list[str] = []

    @contextmanager
    def inside(self, name: str) -> Iterator[None]:
        """Add a name to the path that an error message shows."""
        self._trail.append(name)
        try:
            yield
        finally:
            self._trail.pop()

    def token(self, value: Any) -> Token:
        """Return the content of a value; functions and classes become separate
        parts."""
        if isinstance(value, _SCALARS):
            return [type(value).__name__, repr(value)]
        if isinstance(value, str):
            return ["str", str(value), self._file(value)]
        if isinstance(value, FunctionType):
            return self._function(value)
        if isinstance(value, type):
            return self._class(value)
        if isinstance(value, ModuleType):
            return self._module(value, ())
        if isinstance(value, CodeType):
            return self._code(value)
        if id(value) in self._open:
            depth = self._open.index(id(value))
            return ["cycle", str(depth)]
        self._open.append(id(value))
        try:
            return self._object(value)
        finally:
            self._open.pop()

    def _object(self, value: Any) -> Token:
        """Return the content of a value that may contain other objects."""
        if isinstance(value, PurePath):
            return ["path", str(value), self._file(str(value))]
        if isinstance(value, _BUILT_IN):
            return self._built_in(value)
        if isinstance(value, MethodType):
            return ["method", self.token(value.__func__), self.token(value.__self__)]
        if isinstance(value, functools.partial | functools.partialmethod):
            inside = (value.func, value.args, value.keywords)
            return ["partial", *self._each(inside)]
        if isinstance(value, property):
            return ["property", *self._each((value.fget, value.fset, value.fdel))]
        if isinstance(value, classmethod | staticmethod):
            return [type(value).__name__, self.token(value.__func__)]
        if isinstance(value, functools.cached_property):
            return ["cached", self.token(value.func)]
        if isinstance(value, CellType):
            return self._cell(value)
        if isinstance(value, Enum):
            return ["enum", self.token(type(value)), value.name]
        # Skip the guard, because it does not change what experts predict, only whether
        # they do.
        if isinstance(value, Guarded):
            return self.token(value.experts)
        if isinstance(value, Isolated):
            return self._isolated(value)
        if isinstance(value, Experts) and value.version is not None:
            about = [type(value), value.version, list(value.names)]
            return ["experts", *self._each(about)]
        return self._data(value)

    def _data(self, value: Any) -> Token:
        """Return the content of an array, a collection or an instance."""
        kind = self.token(type(value))
        if isinstance(value, np.ndarray):
            return [kind, self._array(value)]
        if isinstance(value, list | tuple):
            return [kind, *self._each(value), *self._attributes(value)]
        if isinstance(value, dict | MappingProxyType):
            pairs = [self._each(pair) for pair in value.items()]
            return [kind, *pairs, *self._attributes(value)]
        if isinstance(value, set | frozenset):
            return [kind, *sorted(self._each(value), key=json.dumps)]
        if _is_foreign(type(value).__module__) and not _is_ours(type(value)):
            return [kind, self._foreign(value)]
        return [kind, *self._attributes(value)]

    def _each(self, values: Iterable[object]) -> list[Token]:
        return [self.token(value) for value in values]

    def _array(self, array: Any) -> Token:
        if array.dtype.hasobject:
            return [str(array.dtype), repr(array.shape), *self._each(array.flat)]
        content = sha256(np.ascontiguousarray(array).tobytes()).hexdigest()
        return [array.dtype.str, repr(array.shape), content]

    def _attributes(self, value: Any) -> list[Token]:
        """Return the attributes of an instance by name, without cached values."""
        names = list(getattr(value, "__dict__", ()))
        if is_dataclass(value) and _is_ours(type(value)):
            known = (field.name for field in fields(value))
            names = [name for name in known if not name.startswith("_")]
        for kind in type(value).__mro__:
            slots = vars(kind).get("__slots__", ())
            names += [slots] if isinstance(slots, str) else slots
        tokens: list[Token] = []
        for name in sorted(set(names)):
            cached = isinstance(
                getattr(type(value), name, None), functools.cached_property
            )
            if cached or not hasattr(value, name):
                continue
            with self.inside(f"attribute {name} of {type(value).__name__}"):
                tokens.append([name, self.token(getattr(value, name))])
        return tokens

    def _foreign(self, value: Any) -> Token:
        """Return the content of an instance of an installed class, as Python's copy
        protocol returns it."""
        for name in ("__wrapped__", "py_func", "pyfunc"):
            inside = getattr(value, name, None)
            if callable(inside):
                return [name, self.token(inside)]
        try:
            made = value.__reduce_ex__(4)
        except Exception as error:  # a user's class may raise anything when copied
            raise self._refusal(value) from error
        if isinstance(made, str):
            return made
        parts = [list(part) if hasattr(part, "__next__") else part for part in made]
        return self._each(parts)

    def _refusal(self, value: object) -> NotPortable:
        kind = type(value)
        trail = ", ".join(self._trail)
        return NotPortable(
            "a result can be reused only if everything that it depends on can be "
            f"hashed; got a {kind.__module__}.{kind.__qualname__} ({trail}): create "
            "it inside the function that uses it, from plain settings"
        )

    def _isolated(self, value: Isolated) -> Token:
        if value.about["opaque"] is not None:
            raise self._refusal(value)
        return ["isolated", json.dumps(value.about["description"], sort_keys=True)]

    def _cell(self, cell: Any) -> Token:
        try:
            return self.token(cell.cell_contents)
        except ValueError:  # a name without a value yet
            return "empty"

    def _part(self, value: object, name: str) -> tuple[str, bool]:
        """Return the name of the part that this object is, and whether it is already
        known."""
        if id(value) in self._names:
            return self._names[id(value)], True
        count = sum(known.partition("#")[0] == name for known in self._names.values())
        if count:
            name = f"{name}#{count + 1}"
        self._names[id(value)] = name
        self._known.append(value)
        return name, False

    def _function(self, function: FunctionType) -> Token:
        """Return a reference to a function. The code of a user's function becomes a
        part."""
        space = function.__globals__
        module = str(space.get("__name__", function.__module__))
        name = f"{module}.{function.__qualname__}"
        if _is_foreign(module, space.get("__file__")):
            package = self._package(module)
            wrapped = getattr(function, "__wrapped__", None)
            if callable(wrapped):
                return ["function", name, package, self.token(wrapped)]
            return ["function", name, package]
        name, is_known = self._part(function, name)
        if is_known:
            return ["part", name]
        with self.inside(name):
            content: list[Token] = [
                self._code(function.__code__),
                self.token(function.__defaults__),
                self.token(function.__kwdefaults__),
                self.token(function.__closure__),
                self.token(vars(function)),
                *self._references(function.__code__, space),
            ]
        self.parts[name] = _digest(content)
        return ["part", name]

    def _code(self, code: CodeType) -> Token:
        """Return the instructions, without docstrings and line numbers."""
        version = sys.version_info
        self.parts.setdefault("Python", f"{version.major}.{version.minor}")
        steps = [
            [step.opname, self.token(step.argval)]
            for step in dis.get_instructions(code)
        ]
        n_arguments = code.co_argcount + code.co_kwonlyargcount + 2
        signature = [
            code.co_argcount,
            code.co_posonlyargcount,
            code.co_kwonlyargcount,
            code.co_flags & _KIND_OF_CODE,
            code.co_varnames[:n_arguments],
            code.co_exceptiontable,
        ]
        return ["code", *steps, *self._each(signature)]

    def _references(self, code: CodeType, space: dict[str, Any]) -> Iterator[Token]:
        """Yield the objects that the code may read from its module: globals, modules
        and imports."""
        names = _names_in(code)
        if names & {"eval", "exec", "globals"}:
            names |= {name for name in space if not name.startswith("__")}
        for name in sorted(names & space.keys()):
            yield [name, self._global(space, name, names)]
        for imported in sorted(_imports_in(code, str(space.get("__package__") or ""))):
            module = _import_own(imported)
            if module is not None:
                yield [imported, self._module(module, names)]

    def _global(self, space: dict[str, Any], name: str, names: set[str]) -> Token:
        value = space[name]
        if isinstance(value, ModuleType):
            return self._module(value, names)
        if isinstance(value, FunctionType | type):
            return self.token(value)
        part = f"{space.get('__name__')}.{name}"
        if part not in self.parts:
            # Set the entry first, because a constant may refer to itself.
            self.parts[part] = ""
            with self.inside(part):
                self.parts[part] = _digest(self.token(value))
        return ["part", part]

    def _module(self, module: ModuleType, names: Iterable[str]) -> Token:
        """Return the parts of a module that code with these names may use, or the whole
        module if no name matches."""
        if _is_foreign(module.__name__, getattr(module, "__file__", None)):
            return ["module", module.__name__, self._package(module.__name__)]
        space = vars(module)
        wanted = set(names) & space.keys()
        if id(module) in self._open:
            return ["module", module.__name__]
        if wanted and not _DYNAMIC & set(names):
            self._open.append(id(module))
            used = [self._global(space, name, set(names)) for name in sorted(wanted)]
            self._open.pop()
            return ["module", module.__name__, *used]
        name, is_known = self._part(module, module.__name__)
        if is_known:
            return ["part", name]
        content: list[Token] = []
        for own in sorted(own for own in space if not own.startswith("__")):
            try:
                content.append([own, self._global(space, own, set())])
            except NotPortable:  # the code may never use this value
                content.append([own, type(space[own]).__name__])
        self.parts[name] = _digest(content)
        return ["part", name]

    def _class(self, kind: type) -> Token:
        """Return a reference to a class. The content of a user's class becomes a
        part."""
        name = f"{kind.__module__}.{kind.__qualname__}"
        # In compiled classes __module__ may be a descriptor instead of a string.
        if not isinstance(kind.__module__, str) or _is_foreign(kind.__module__):
            return ["class", name, self._package(str(kind.__module__))]
        name, is_known = self._part(kind, name)
        if is_known:
            return ["part", name]
        with self.inside(name):
            content = [self.token(type(kind)), *self._each(kind.__mro__[1:])]
            for attribute, value in sorted(vars(kind).items()):
                if attribute not in _NO_CONTENT:
                    content.append([attribute, self.token(value)])
            if is_dataclass(kind):
                content += [self._field(field) for field in fields(kind)]
        self.parts[name] = _digest(content)
        return ["part", name]

    def _field(self, field: Any) -> Token:
        settings = (field.name, field.default, field.default_factory, field.init)
        return ["field", *self._each(settings)]

    def _built_in(self, value: Any) -> Token:
        """Return the name of a compiled function, and the content of its file if it is
        the user's."""
        name = getattr(value, "__qualname__", None) or value.__name__
        module = getattr(value, "__module__", None)
        owner = getattr(value, "__self__", None)
        if isinstance(value, BuiltinFunctionType) and not isinstance(
            owner, ModuleType | type(None)
        ):
            return ["method", name, self.token(owner)]
        if isinstance(value, np.ufunc):
            module = "numpy"
        if module is None:
            return ["function", name]
        file = getattr(sys.modules.get(module), "__file__", None)
        if file is None or _is_foreign(module, file):
            return ["function", f"{module}.{name}", self._package(module)]
        return ["function", f"{module}.{name}", self._file(file)]

    def _package(self, module: str) -> Token:
        """Return the package of an installed module. Its version becomes a part."""
        package = module.partition(".")[0]
        if package in sys.stdlib_module_names or package == "oddsmith":
            return package
        version = getattr(sys.modules.get(package), "__version__", "")
        self.parts.setdefault(package, str(version))
        return package

    def _file(self, text: str) -> Token:
        """Return the path of a file that a text names, if it exists. Its content
        becomes a part."""
        if not 0 < len(text) < 1024 or "\0" in text or "\n" in text:
            return ""
        path = Path(text)
        if not path.suffix or not path.is_file():
            return ""
        name = f"file {text}"
        if name not in self.parts:
            self.parts[name] = _content_of(path)
        return ["part", name]


def _content_of(path: Path) -> str:
    content = sha256()
    with path.open("rb") as file:
        while block := file.read(_FILE_BLOCK):
            content.update(block)
    return content.hexdigest()[:32]


def _names_in(code: CodeType) -> set[str]:
    """Return all names of globals and attributes in code and in the functions inside
    it."""
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            names |= _names_in(constant)
    return names


def _imports_in(code: CodeType, package: str) -> set[str]:
    """Return the full names of modules that code imports when it runs."""
    steps = list(dis.get_instructions(code))
    found: set[str] = set()
    for place, step in enumerate(steps):
        if step.opname != "IMPORT_NAME":
            continue
        # Bytecode loads level and names before it imports.
        level = steps[place - 2].argval
        name = "." * level + step.argval
        name = importlib.util.resolve_name(name, package) if level else name
        # `import a.b` binds the name a.
        found.update(accumulate(name.split("."), "{}.{}".format))
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            found |= _imports_in(constant, package)
    return found


def _import_own(name: str) -> ModuleType | None:
    """Import a user's module that code imports when it runs. Return None for all other
    modules."""
    if name.partition(".")[0] in {*sys.stdlib_module_names, "oddsmith"}:
        return None
    module = sys.modules.get(name)
    if module is not None:
        return module
    try:
        found = importlib.util.find_spec(name)
        if found is None or _is_foreign(name, found.origin):
            return None
        return importlib.import_module(name)
    except Exception:  # a failed import may be expected by the code
        return None


def _is_ours(kind: type) -> bool:
    return kind.__module__.partition(".")[0] == "oddsmith"


def _is_foreign(module: str, file: object = None) -> bool:
    """Return whether a module belongs to Python, oddsmith or an installed package."""
    package = module.partition(".")[0]
    if package == "__main__":
        return False
    if package in sys.stdlib_module_names or package == "oddsmith":
        return True
    if file is None:
        file = getattr(sys.modules.get(module), "__file__", None)
    return isinstance(file, str) and _is_installed(file)


@functools.cache
def _is_installed(file: str) -> bool:
    return any(Path(file).is_relative_to(folder) for folder in _installed_folders())


@functools.cache
def _installed_folders() -> tuple[Path, ...]:
    """Return the folders of Python and installed packages."""
    paths = sysconfig.get_paths()
    folders = {paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    folders.update(site.getsitepackages())
    folders.add(site.getusersitepackages())
    return tuple(Path(folder) for folder in sorted(folders))
