"""What values are hashed as, and where the search for what they use ends."""

import collections
import contextlib
import functools
import gc
import importlib
import json
import math
import runpy
import sys
import tempfile
import threading
import weakref
from dataclasses import dataclass, field, fields
from enum import Enum
from pathlib import Path
from types import CellType, CodeType, FunctionType, ModuleType, SimpleNamespace
from typing import Any, TypeVar

import numpy as np
import pytest

import oddsmith as od
from oddsmith.core.errors import NotPortable
from oddsmith.core.experts import Experts
from oddsmith.experts.guard.guard import Guarded
from oddsmith.files import dependencies as module
from oddsmith.files.dependencies import _import_own, _Search, dependencies

ONE = ["int", "1"]
A = ["str", "a", ""]
NONE = ["NoneType", "None"]
ABS = ["function", "builtins.abs", "builtins"]


def token(value: Any) -> Any:
    return _Search().token(value)


def kind(name: str) -> list[str]:
    return ["class", name, name.partition(".")[0]]


def is_same(one: Any, other: Any) -> bool:
    return dependencies({"x": one}) == dependencies({"x": other})


class Colour(Enum):
    RED = 1


class Names(list[Any]):
    pass


class Table(dict[str, Any]):
    pass


class Slotted:
    __slots__ = ("absent", "b", "c")


class Single(Slotted):
    __slots__ = "d"


class AloneSlotted:
    __slots__ = "only"


class Both(Single):
    """With a dict, too."""

    e: int


class Own:
    def __init__(self, **values: Any) -> None:
        self.__dict__.update(values)

    @functools.cached_property
    def cached(self) -> threading.Lock:
        return threading.Lock()

    def method(self) -> None:
        """Do nothing."""


@dataclass
class Settings:
    rate: float = 0.1
    _hidden: int = 1
    many: list[int] = field(default_factory=list)


T = TypeVar("T")
VALUES: dict[str, tuple[Any, Any]] = {
    "None": (None, NONE),
    "a float": (0.1, ["float", "0.1"]),
    "bytes": (b"a", ["bytes", "b'a'"]),
    "text": ("a", A),
    "no text": ("", ["str", "", ""]),
    "two lines": ("a\nb.txt", ["str", "a\nb.txt", ""]),
    "a list": ([1, ["a"]], [kind("builtins.list"), ONE, [kind("builtins.list"), A]]),
    "a dict": ({"a": 1}, [kind("builtins.dict"), [A, ONE]]),
    "a set": ({"a", 1}, [kind("builtins.set"), ONE, A]),
    "a path": (Path("a"), ["path", "a", ""]),
    "a partial function": (
        functools.partial(abs, 1),
        ["partial", ABS, [kind("builtins.tuple"), ONE], [kind("builtins.dict")]],
    ),
    "a property": (property(abs, None, abs), ["property", ABS, NONE, ABS]),
    "a class method": (classmethod(abs), ["classmethod", ABS]),  # type: ignore[arg-type]
    "a static method": (staticmethod(abs), ["staticmethod", ABS]),
    "a cached property": (functools.cached_property(abs), ["cached", ABS]),
    "an empty cell": (CellType(), "empty"),
    "a cell": (CellType(1), ONE),
    "a ufunc": (np.log, ["function", "numpy.log", "numpy"]),
    "a compiled function": (math.sin, ["function", "math.sin", "math"]),
    "a method of a type": (str.upper, ["function", "str.upper"]),
    "a bound method": ([1].append, ["method", "list.append",
                                    [kind("builtins.list"), ONE]]),
    "a method wrapper": ((1).__add__, ["function", "int.__add__"]),
    "a function of Python": (json.dumps, ["function", "json.dumps", "json"]),
    "a class of numpy": (np.ndarray, kind("numpy.ndarray")),
    "a module of Python": (json, ["module", "json", "json"]),
    "a variable of types": (T, [kind("typing.TypeVar"), "T"]),
    "objects": (
        np.array([1], dtype=object),
        [kind("numpy.ndarray"), ["object", "(1,)", ONE]],
    ),
    "an enumeration": (Colour.RED, ["enum", ["part", f"{__name__}.Colour"], "RED"]),
    "a function of ours": (
        od.square_loss,
        ["function", "oddsmith.core.losses.square_loss", "oddsmith"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", VALUES)
def test_values(name: str) -> None:
    """Digests are compared with those in folders of results."""
    value, expected = VALUES[name]
    assert token(value) == expected


def test_numbers_of_arrays() -> None:
    _, content = token(np.array([[1.0], [2.0]]))
    assert content[:2] == ["<f8", "(2, 1)"]
    assert len(content[2]) == 64
    assert not is_same(np.zeros((2, 1)), np.zeros((1, 2)))
    assert not is_same(np.zeros(2), np.zeros(4, np.float32))
    assert is_same(np.arange(6).reshape(2, 3).T, np.arange(6).reshape(2, 3).T.copy())


def test_a_value_inside_itself() -> None:
    loop: list[Any] = [1]
    loop.append([loop])
    assert token(loop) == [
        kind("builtins.list"), ONE, [kind("builtins.list"), ["cycle", "0"]]
    ]  # fmt: skip


def test_sets_of_anything_have_an_order() -> None:
    assert is_same({(1, 2), "a", 3}, {"a", 3, (1, 2)})
    assert not is_same({(1, 2), "a"}, {(1, 3), "a"})


def with_extra(value: Any, extra: Any) -> Any:
    value.extra = extra
    return value


@pytest.mark.parametrize(
    "make",
    [
        lambda: Names([1]),
        lambda: Table(a=1),
        Own,
        Settings,
        lambda: SimpleNamespace(a=1),
    ],
)
def test_attributes_of_instances_count(make: Any) -> None:
    assert is_same(with_extra(make(), 1), with_extra(make(), 1))
    assert not is_same(with_extra(make(), 1), with_extra(make(), 2))
    assert not is_same(make(), with_extra(make(), None))


def test_attributes_without_a_dict_count() -> None:
    def slotted(**values: int) -> Any:
        made = Both()
        for name, value in values.items():
            setattr(made, name, value)
        return made

    assert token(slotted(c=1, d=2, e=3))[1:] == [
        ["c", ONE], ["d", ["int", "2"]], ["e", ["int", "3"]]
    ]  # fmt: skip
    for name in "bcde":
        assert not is_same(slotted(**{name: 1}), slotted(**{name: 2}))


def test_one_slot_by_its_name() -> None:
    made: Any = AloneSlotted()
    made.only = 1
    assert token(made)[1:] == [["only", ONE]]


def test_values_that_are_cached_do_not_count() -> None:
    used = Own(a=1)
    assert used.cached
    assert is_same(used, Own(a=1))
    assert not is_same(used, Own(a=2))


def test_of_our_settings_the_public_fields_count() -> None:
    """What else there is follows from them, or is of one process."""

    def policy(gamma: float, share: float = 0.0) -> Any:
        return od.GeneralizedThompsonSampling(table, gamma=gamma, share=share)

    table = od.TableExperts(np.full((1, 2, 2), 0.5))
    changed = policy(0.1)
    object.__setattr__(changed, "extra", threading.Lock())
    object.__setattr__(changed, "_extra", 3)
    assert is_same(policy(0.1), changed)
    assert not is_same(policy(0.1), policy(0.2))
    assert not is_same(policy(0.1), policy(0.1, 0.01))
    assert not is_same(Settings(_hidden=1), Settings(_hidden=2))


def doubled(x: Any) -> Any:
    return 2 * x


def trebled(x: Any) -> Any:
    return 3 * x


@pytest.mark.parametrize(
    "wrap",
    [
        functools.lru_cache,
        np.vectorize,
        functools.singledispatch,
        contextlib.contextmanager,
        lambda function: functools.wraps(function)(np.vectorize(abs)),
    ],
)
def test_functions_inside_of_wrappers_count(wrap: Any) -> None:
    search = _Search()
    search.token(wrap(doubled))
    assert f"{__name__}.doubled" in search.parts
    assert not is_same(wrap(doubled), wrap(trebled))


@pytest.mark.parametrize("name", ["__wrapped__", "py_func", "pyfunc"])
def test_names_of_functions_inside_of_wrappers(name: str) -> None:
    made = with_extra(SimpleNamespace(**{name: doubled}), 1)
    assert token(made) == [
        kind("types.SimpleNamespace"), [name, ["part", f"{__name__}.doubled"]]
    ]  # fmt: skip
    plain = SimpleNamespace(**{name: 1})
    assert token(plain)[1][0] != name


def test_content_that_copies_are_made_of() -> None:
    for one, other in (
        (collections.deque([1, 2]), collections.deque([1, 3])),
        (collections.OrderedDict(a=1), collections.OrderedDict(a=2)),
        (np.random.default_rng(1), np.random.default_rng(2)),
        (np.dtype("f8"), np.dtype("f4")),
    ):
        assert not is_same(one, other)
    queue = [token(collections.deque([1])) for _ in range(2)]
    assert queue[0] == queue[1]
    assert "iterator" not in json.dumps(queue[0])


def test_a_refusal_says_the_way_to_the_value() -> None:
    lock = threading.Lock()
    with pytest.raises(NotPortable) as caught:
        dependencies({"policy": Own(part=[Own(lock=lock)])})
    assert str(caught.value) == (
        "a result can be reused only if everything that it depends on can be hashed; "
        "got a _thread.lock (policy, attribute part of Own, attribute lock of Own): "
        "create it inside the function that uses it, from plain settings"
    )


def test_experts_of_another_process() -> None:
    about: dict[str, Any] = {"opaque": None, "description": {"b": 1, "a": [2]}}
    bank: Any = SimpleNamespace(about=about)
    assert _Search()._isolated(bank) == ["isolated", '{"a": [2], "b": 1}']
    about["opaque"] = "a lambda"
    with pytest.raises(NotPortable, match=r"got a types.SimpleNamespace \(\): create"):
        _Search()._isolated(bank)


def test_methods_count_with_their_instance() -> None:
    made = Own(a=1)
    part = ["part", f"{__name__}.Own.method"]
    assert token(made.method) == ["method", part, token(made)]
    assert not is_same(Own(a=1).method, Own(a=2).method)


def test_experts_with_a_version_count_by_it() -> None:
    models_class: Any = type("Models", (Experts,), {})

    def models(version: str | None, names: tuple[str, ...] = ("a", "b")) -> Any:
        made = models_class()
        vars(made).update(version=version, names=names, address=object.__name__)
        return made

    names = [kind("builtins.list"), A, ["str", "b", ""]]
    part = token(models_class)
    assert token(models("a")) == ["experts", part, A, names]
    assert not is_same(models("1"), models("2"))
    assert not is_same(models("1"), models("1", ("a", "c")))
    assert ["address", ["str", "object", ""]] in token(models(None))


def test_a_guard_does_not_count() -> None:
    table = od.TableExperts(np.full((1, 2, 2), 0.5))
    assert token(Guarded(table)) == token(table)


def function(text: str, name: str = "loss", **space: Any) -> Any:
    """A function of a module of the user's that was never imported."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "handmade.py"
        path.write_text(text)
        return runpy.run_path(str(path), space, "handmade")[name]


def test_functions_of_one_name_have_numbers() -> None:
    search = _Search()
    made = [function(f"def loss(x): return x + {i}") for i in range(3)]
    names = ["handmade.loss", "handmade.loss#2", "handmade.loss#3"]
    assert [search.token(one) for one in made] == [["part", name] for name in names]
    assert [search.token(one) for one in made] == [["part", name] for name in names]
    assert len({search.parts[name] for name in names}) == 3
    assert all(len(search.parts[name]) == 32 for name in names)


def test_what_was_found_stays_alive() -> None:
    """Or another object could have its id."""
    search = _Search()
    made = function("def loss(x): return x")
    alive = weakref.ref(made)
    search.token(made)
    del made
    gc.collect()
    assert alive() is not None


def test_the_module_of_a_function() -> None:
    code = function("def loss(x): return x").__code__
    given = FunctionType(code, {})
    given.__module__ = "given"
    assert token(given) == ["part", "given.loss"]
    gone = FunctionType(code, {"__name__": "gone", "__file__": np.__file__})
    assert token(gone) == ["function", "gone.loss", "gone"]
    assert token(FunctionType(code, {"__name__": "mine"})) == ["part", "mine.loss"]


def test_attributes_of_functions_count() -> None:
    plain = "def loss(x): return x\n"
    one, other = (function(f"{plain}loss.unit = {i}") for i in (1, 2))
    assert not is_same(one, other)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("def loss(a, *, b, **k): pass", "def loss(a, *, b, **more): pass"),
        ("def loss(a, *, b): pass", "def loss(a, *, c): pass"),
        ("def loss(a, *r): pass", "def loss(a, *s): pass"),
        ("def loss(a, b): pass", "def loss(a, /, b): pass"),
    ],
)
def test_arguments_count(before: str, after: str) -> None:
    assert not is_same(function(before), function(after))


def test_the_future_does_not_count() -> None:
    text = "def loss(a: int): return a"
    future = "from __future__ import annotations\n"
    assert is_same(function(text), function(future + text))


def test_versions_are_parts() -> None:
    found = dependencies({"x": [np.log, json.dumps, od.log_loss, doubled]})
    assert found["Python"] == f"{sys.version_info.major}.{sys.version_info.minor}"
    assert found["numpy"] == np.__version__
    assert set(found) == {"x", "Python", "numpy", f"{__name__}.doubled"}


@pytest.mark.parametrize(
    "body",
    ['eval("RATE") * x', 'exec("RATE") or x', 'globals()["RATE"] * x'],
)
def test_names_that_are_computed_take_all_globals(body: str) -> None:
    text = f"def loss(x): return {body}"
    assert not is_same(function(text, RATE=1), function(text, RATE=2))
    assert is_same(function(text, __hidden__=1), function(text, __hidden__=2))
    assert is_same(
        function("def loss(x): return x", RATE=1),
        function("def loss(x): return x", RATE=2),
    )
    assert not is_same(
        function(f"def loss(x): return {body} + OTHER", RATE=1, OTHER=1),
        function(f"def loss(x): return {body} + OTHER", RATE=1, OTHER=2),
    )


def test_a_constant_that_cannot_be_hashed_is_named() -> None:
    lock = threading.Lock()
    with pytest.raises(NotPortable, match=r"\(x, handmade.loss, handmade.LOCK\)"):
        dependencies({"x": function("def loss(x): return LOCK", LOCK=lock)})


def test_constants_may_refer_to_themselves() -> None:
    text = "def loss(x): return TABLE[x]\nTABLE = [loss]"
    search = _Search()
    assert search.token(function(text)) == ["part", "handmade.loss"]
    assert set(search.parts) == {"Python", "handmade.loss", "handmade.TABLE"}


def handmade(name: str = "handmade", **space: Any) -> Any:
    made: Any = ModuleType(name)
    vars(made).update(space)
    return made


def test_modules() -> None:
    search = _Search()
    made = handmade(RATE=1, LOCK=threading.Lock(), __hidden__=1)
    made.me = made
    assert search._module(made, {"RATE", "none"}) == [
        "module", "handmade", ["part", "handmade.RATE"]
    ]  # fmt: skip
    assert search._module(made, {"me"}) == [
        "module", "handmade", ["module", "handmade"]
    ]  # fmt: skip
    for names in ((), {"RATE", "getattr"}):
        assert _Search()._module(made, names) == ["part", "handmade"]
    whole = _Search()
    assert whole._module(made, ()) == whole._module(made, ()) == ["part", "handmade"]
    assert set(whole.parts) == {"handmade", "handmade.RATE", "handmade.LOCK"}
    assert len(whole.parts["handmade"]) == 32
    gone = handmade("gone", __file__=np.__file__)
    assert _Search()._module(gone, ()) == ["module", "gone", "gone"]


def test_everything_in_a_whole_module_counts() -> None:
    def digest(**space: Any) -> str:
        search = _Search()
        search._module(handmade(**space), ())
        return search.parts["handmade"]

    lock = threading.Lock()
    assert digest(a=1) == digest(a=2)  # a part of its own
    assert digest(a=1) != digest(b=1)
    assert digest(a=doubled) != digest(a=trebled)
    assert digest(a=1, __hidden__=1) == digest(a=1, __hidden__=2, __more__=3)
    assert digest(a=lock) != digest(a=1)
    assert digest(a=lock) != digest(b=lock)


def test_names_in_modules_inside_count() -> None:
    inner = handmade("inner", RATE=1)
    text = "def loss(x): return outer.inner.RATE"
    search = _Search()
    search.token(function(text, outer=handmade("outer", inner=inner)))
    assert "inner.RATE" in search.parts


def test_metaclasses_count() -> None:
    def made(factor: int) -> Any:
        meta = type("Meta", (type,), {"factor": factor})
        return meta("Made", (), {})

    assert is_same(made(1), made(1))
    assert not is_same(made(1), made(2))


def test_a_refusal_names_the_class() -> None:
    class Locked:
        lock = threading.Lock()

    with pytest.raises(NotPortable, match=r"\(policy, .*Locked\): create"):
        dependencies({"policy": Locked})


def test_fields_of_settings() -> None:
    one, _, many = fields(Settings)
    search = _Search()
    missing = search.token(one.default_factory)
    assert search._field(one)[:3] == ["field", ["str", "rate", ""], ["float", "0.1"]]
    assert search._field(many)[3] == kind("builtins.list")
    assert missing == search._field(one)[3]
    assert search._field(one)[4] == ["bool", "True"]


def test_compiled_code_of_the_user_counts_with_its_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_is_foreign", lambda *_: False)
    search = _Search()
    part = ["part", f"file {np.__file__}"]
    assert search.token(np.array) == ["function", "numpy.array", part]
    assert len(search.parts[part[1]]) == 32


def test_files() -> None:
    assert token("a" * 5000 + ".csv")[2] == ""


def test_files_with_odd_names_do_not_count(tmp_path: Path) -> None:
    odd = tmp_path / "a\nb.csv"
    odd.write_text("1")
    assert token(str(odd))[2] == ""
    (tmp_path / "c.csv").write_text("1")
    assert token(str(tmp_path / "c.csv"))[2] == ["part", f"file {tmp_path}/c.csv"]
    (tmp_path / "none").write_text("1")
    assert token(str(tmp_path / "none"))[2] == ""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    folder = tmp_path / "package"
    (folder / "inner").mkdir(parents=True)
    (folder / "__init__.py").write_text("")
    (folder / "late.py").write_text("RATE = 1\n")
    (folder / "inner" / "__init__.py").write_text("")
    (folder / "inner" / "losses.py").write_text(
        "def near():\n    from .. import late\n    return late.RATE\n\n\n"
        "def far():\n    def inside():\n        import package.late\n"
        "        return package.late.RATE\n    import json\n    return inside, json\n"
    )

    def parts(name: str) -> dict[str, str]:
        forget()
        losses = importlib.import_module("package.inner.losses")
        return dependencies({"loss": getattr(losses, name)})

    def forget() -> None:
        for name in [name for name in sys.modules if name.startswith("package")]:
            del sys.modules[name]
        importlib.invalidate_caches()

    yield SimpleNamespace(folder=folder, parts=parts)
    forget()


@pytest.mark.parametrize("name", ["near", "far"])
def test_imports_inside_of_functions_are_followed(project: Any, name: str) -> None:
    before = project.parts(name)
    assert "package.late.RATE" in before
    (project.folder / "late.py").write_text("RATE = 2\n")
    after = project.parts(name)
    assert {part for part in after if after[part] != before[part]} == {
        "package.late.RATE"
    }


def test_modules_that_code_imports_when_it_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("os.path", "json", "oddsmith.lab", "no.such.module"):
        assert _import_own(name) is None
    monkeypatch.delitem(sys.modules, "hatchling", raising=False)
    assert _import_own("hatchling") is None
    assert "hatchling" not in sys.modules
    made = handmade("made_by_hand")
    monkeypatch.setitem(sys.modules, "made_by_hand", made)
    assert _import_own("made_by_hand") is made


def test_code_inside_of_code_counts() -> None:
    code: CodeType = function("def loss(x): return [y for y in OTHER.one]").__code__
    assert {"OTHER", "one"} <= module._names_in(code)


def test_code_counts_beside_the_code_inside() -> None:
    text = (
        "def loss(x):\n    import json\n    first = A\n"
        "    def inside():\n        import math\n        return B\n"
        "    def beside():\n        return C\n    return first, inside, beside\n"
    )
    code: CodeType = function(text).__code__
    assert {"A", "B", "C"} <= module._names_in(code)
    assert module._imports_in(code, "") == {"json", "math"}
