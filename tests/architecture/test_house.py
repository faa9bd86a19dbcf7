"""The house rules that a machine can hold: sizes, names, imports, randomness,
storage."""

import ast
import importlib
import pkgutil
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

import oddsmith

SOURCE = Path(oddsmith.__file__).parent
REPOSITORY = SOURCE.parent.parent
MODULES = sorted(SOURCE.rglob("*.py"))
ALL_FILES = sorted(
    p
    for folder in ("src", "tests", "benchmarks", "examples")
    for p in (REPOSITORY / folder).rglob("*.py")
)

RUNS_WHAT_IT_READS = {
    "pickle",
    "cloudpickle",
    "dill",
    "marshal",
    "shelve",
    "eval",
    "exec",
    "__import__",
}


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def names_used(path: Path) -> set[str]:
    """Every name and attribute chain in the code of a file (not in its strings and
    comments)."""
    chains = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute | ast.Name):
            chains.add(ast.unparse(node))
        elif isinstance(node, ast.Import):
            chains |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            chains |= {f"{node.module}.{alias.name}" for alias in node.names}
    return chains


def test_public_functions_take_no_kwargs() -> None:
    wrong = []
    for path in MODULES:
        for node in functions(path):
            # Log.of takes further columns by name: they are the fields of the
            # dataclass, checked there
            if (
                not node.name.startswith("_")
                and node.args.kwarg is not None
                and node.name != "of"
            ):
                wrong.append(f"{path.name}:{node.name}")
    assert not wrong


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_every_module_says_what_it_is_for(path: Path) -> None:
    docstring = ast.get_docstring(ast.parse(path.read_text()))
    assert docstring
    assert docstring.partition("\n\n")[0].strip().endswith((".", ":"))


def test_all_is_sorted_and_exact() -> None:
    modules = [
        oddsmith.__name__,
        *(m.name for m in pkgutil.walk_packages(oddsmith.__path__, "oddsmith.")),
    ]
    for name in modules:
        module = importlib.import_module(name)
        exported = module.__all__
        assert list(exported) == sorted(exported), name
        assert len(set(exported)) == len(exported), name
        assert all(hasattr(module, public) for public in exported), name


def test_the_front_door_is_small_lazy_and_known_to_type_checkers() -> None:
    """Names are written down three times: for programs, for type checkers, and for
    `import *`."""
    (block,) = [
        node
        for node in ast.parse((SOURCE / "__init__.py").read_text()).body
        if isinstance(node, ast.If)
    ]
    imported = {
        alias.name: node.module
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert set(oddsmith._HOMES) == set(oddsmith.__all__)
    assert set(imported) == set(oddsmith.__all__) | set(oddsmith._MODULES)
    assert {name: imported[name] for name in oddsmith.__all__} == oddsmith._HOMES
    assert len(oddsmith.__all__) <= 60
    code = (
        "import sys, oddsmith; print([name for name in sys.modules if "
        "name.startswith('oddsmith.')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout.strip() == "[]"


def test_every_public_name_has_a_docstring_and_a_test() -> None:
    tests = "\n".join(p.read_text() for p in (REPOSITORY / "tests").rglob("*.py"))
    for name in oddsmith.__all__:
        assert getattr(oddsmith, name).__doc__, name
        assert name in tests, name


def test_no_global_randomness_no_pickle_no_eval() -> None:
    for path in ALL_FILES:
        used = names_used(path)
        random = {n for n in used if n.startswith(("np.random.", "numpy.random."))}
        assert all(
            n.startswith(("np.random.default_rng", "np.random.Generator"))
            for n in random
        ), path
        assert not {n.split(".")[0] for n in used} & RUNS_WHAT_IT_READS, path
        assert not used & {
            "joblib.dump",
            "joblib.load",
            "torch.load",
            "yaml.load",
            "random.random",
        }, path
        assert "allow_pickle=True" not in path.read_text().replace(
            '"allow_pickle=True"', ""
        ), path


LOADS = (
    "np.load",
    "numpy.load",
    "np.savez",
    "np.save",
    "npy.read_array",
)


def test_every_load_of_arrays_refuses_pickle() -> None:
    calls = [
        (path, node)
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in LOADS
    ]
    assert {ast.unparse(call.func) for _, call in calls} == {
        "np.savez",
        "npy.read_array",  # all files are read by `read_arrays`, which checks sizes
    }
    for path, call in calls:
        assert "allow_pickle=False" in [
            ast.unparse(keyword) for keyword in call.keywords
        ], path


def test_forbidden_module_names() -> None:
    assert not {p.stem for p in MODULES} & {"utils", "helpers", "common", "manager"}


def test_the_core_imports_numpy_scipy_and_itself_only() -> None:
    allowed = {"numpy", "scipy", *sys.stdlib_module_names}
    for path in (SOURCE / "core").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            modules = (
                [alias.name for alias in node.names]
                if isinstance(node, ast.Import)
                else []
            )
            modules += [str(node.module)] if isinstance(node, ast.ImportFrom) else []
            for module in modules:
                assert module.split(".")[0] in allowed or module.startswith(
                    "oddsmith.core"
                ), f"{path.name}: {module}"


def test_names_of_the_front_door_load_nothing_heavy() -> None:
    """In a fresh process, every root name loads numpy alone of what is installed."""
    heavy = (
        "numba",
        "sklearn",
        "pandas",
        "matplotlib",
        "onnxruntime",
        "pyarrow",
        "httpx",
        "asyncio",
        "scipy",
    )
    names = "[getattr(oddsmith, name) for name in oddsmith.__all__]"
    code = (
        f"import sys, oddsmith; {names}; print([m for m in {heavy!r} if m in "
        "sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout.strip() == "[]"


def test_comments_do_not_postpone() -> None:
    words = {"TO" + "DO", "FIX" + "ME", "XX" + "X"}
    for path in ALL_FILES:
        with open(path, "rb") as file:
            comments = [
                t.string
                for t in tokenize.tokenize(file.readline)
                if t.type == tokenize.COMMENT
            ]
        assert not [c for c in comments if words & set(c.replace(":", " ").split())], (
            path
        )
