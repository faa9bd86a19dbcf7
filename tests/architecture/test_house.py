"""The house rules that a machine can hold: sizes, names, imports, randomness, storage."""

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
    p for folder in ("src", "tests", "benchmarks", "examples") for p in (REPOSITORY / folder).rglob("*.py")
)

RUNS_WHAT_IT_READS = {"pickle", "cloudpickle", "dill", "marshal", "shelve", "eval", "exec", "__import__"}


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def names_used(path: Path) -> set[str]:
    """Every name and attribute chain in the code of a file (not in its strings and comments)."""
    chains = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute | ast.Name):
            chains.add(ast.unparse(node))
        elif isinstance(node, ast.Import):
            chains |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            chains |= {f"{node.module}.{alias.name}" for alias in node.names}
    return chains


def test_files_have_at_most_300_lines() -> None:
    assert ALL_FILES
    too_long = {str(p): n for p in ALL_FILES if (n := len(p.read_text().splitlines())) > 300}
    assert not too_long


def test_functions_have_at_most_40_lines_without_docstring() -> None:
    too_long = {}
    for path in MODULES:
        for node in functions(path):
            docstring = ast.get_docstring(node, clean=False)
            lines = (node.end_lineno or 0) - node.lineno + 1 - (len(docstring.splitlines()) if docstring else 0)
            if lines > 40:
                too_long[f"{path.name}:{node.name}"] = lines
    assert not too_long


def test_public_functions_take_no_kwargs() -> None:
    wrong = []
    for path in MODULES:
        for node in functions(path):
            # Log.of takes further columns by name: they are the fields of the dataclass, checked there
            if not node.name.startswith("_") and node.args.kwarg is not None and node.name != "of":
                wrong.append(f"{path.name}:{node.name}")
    assert not wrong


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_every_module_says_what_it_is_for(path: Path) -> None:
    docstring = ast.get_docstring(ast.parse(path.read_text()))
    assert docstring
    assert docstring.splitlines()[0].strip().endswith((".", ":"))


def test_all_is_sorted_and_exact() -> None:
    modules = [oddsmith.__name__, *(m.name for m in pkgutil.walk_packages(oddsmith.__path__, "oddsmith."))]
    for name in modules:
        module = importlib.import_module(name)
        exported = module.__all__
        assert list(exported) == sorted(exported), name
        assert len(set(exported)) == len(exported), name
        assert all(hasattr(module, public) for public in exported), name


def test_the_front_door_is_exactly_its_imports() -> None:
    tree = ast.parse((SOURCE / "__init__.py").read_text())
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert imported == set(oddsmith.__all__)


def test_every_public_name_has_a_docstring_and_a_test() -> None:
    tests = "\n".join(p.read_text() for p in (REPOSITORY / "tests").rglob("*.py"))
    for name in oddsmith.__all__:
        assert getattr(oddsmith, name).__doc__, name
        assert name in tests, name


def test_no_global_randomness_no_pickle_no_eval() -> None:
    for path in ALL_FILES:
        used = names_used(path)
        random = {n for n in used if n.startswith(("np.random.", "numpy.random."))}
        assert all(n.startswith(("np.random.default_rng", "np.random.Generator")) for n in random), path
        assert not {n.split(".")[0] for n in used} & RUNS_WHAT_IT_READS, path
        assert not used & {"joblib.dump", "joblib.load", "torch.load", "yaml.load", "random.random"}, path
        assert "allow_pickle=True" not in path.read_text().replace('"allow_pickle=True"', ""), path


def test_every_load_of_arrays_refuses_pickle() -> None:
    calls = [
        (path, node)
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("np.load", "numpy.load", "np.savez", "np.save")
    ]
    assert len(calls) >= 4
    for path, call in calls:
        assert "allow_pickle=False" in [ast.unparse(keyword) for keyword in call.keywords], path


def test_forbidden_module_names() -> None:
    assert not {p.stem for p in MODULES} & {"utils", "helpers", "common", "manager"}


def test_the_core_needs_only_numpy_and_scipy() -> None:
    """In a fresh process, `import oddsmith` loads nothing heavy: of numpy and scipy only numpy."""
    heavy = ("numba", "sklearn", "pandas", "matplotlib", "onnxruntime", "pyarrow", "httpx", "asyncio", "scipy")
    code = f"import sys, oddsmith; print([m for m in {heavy!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[]"


def test_comments_do_not_postpone() -> None:
    words = {"TO" + "DO", "FIX" + "ME", "XX" + "X"}
    for path in ALL_FILES:
        with open(path, "rb") as file:
            comments = [t.string for t in tokenize.tokenize(file.readline) if t.type == tokenize.COMMENT]
        assert not [c for c in comments if words & set(c.replace(":", " ").split())], path
