"""The size and the seams of the house, by one script: `python -m benchmarks.house`;
`--json FILE` keeps the numbers.

Sizes are read from the sources by their syntax. Walks are traced: every function of
ours that runs between a call and its answer, in all threads, comprehensions and
generator expressions not counted.
"""

import argparse
import ast
import inspect
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
from collections.abc import Callable
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from types import CodeType, FrameType
from typing import NamedTuple

import numpy as np

from benchmarks.timing import table

SOURCE = Path(__file__).resolve().parents[1] / "src" / "oddsmith"
TESTS = SOURCE.parents[1] / "tests"
SUBJECTS = ("policy", "experts", "bank", "inner", "guard", "state", "now")


class Walk(NamedTuple):
    """What ran between a call and its answer."""

    functions: int
    files: int
    hops: tuple[tuple[str, str], ...] = ()
    """File and function, in the order of their first call."""


def sources() -> dict[Path, ast.Module]:
    """The syntax of every file in src."""
    return {path: ast.parse(path.read_text()) for path in sorted(SOURCE.rglob("*.py"))}


def sizes(trees: dict[Path, ast.Module]) -> dict[str, float]:
    """Files and functions by number and length, and what a reader meets in them."""
    lines = [len(path.read_text().splitlines()) for path in trees]
    functions = [
        1 + (node.end_lineno or node.lineno) - node.lineno
        for tree in trees.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    import oddsmith

    return {
        "files": len(lines),
        "lines": sum(lines),
        "lines of a file, median": statistics.median(lines),
        "lines of a file, p90": float(np.percentile(lines, 90)),
        "lines of a function, median": statistics.median(functions),
        "lines of a function, p90": float(np.percentile(functions, 90)),
        "lines of a function, most": max(functions),
        "Any": sum(
            isinstance(node, ast.Name) and node.id == "Any"
            for t in trees.values()
            for node in ast.walk(t)
        ),
        "probes of policies and banks": sum(
            len(probes(tree)) for tree in trees.values()
        ),
        "class names that stand in two files": len(homonyms(trees)),
        "public names": len(oddsmith.__all__),
    }


def probes(tree: ast.Module) -> list[str]:
    """The calls of hasattr and getattr that ask a policy, a bank, a world or a state
    what it can do.

    A getattr whose name is a variable reads a field; one with a literal name, or a
    default, asks what there is.

    >>> probes(
    ...     ast.parse(
    ...         'hasattr(policy, "experts"); getattr(self, name); getattr(bank.experts, "split", None)'
    ...     )
    ... )
    ["hasattr(policy, 'experts')", "getattr(bank.experts, 'split', None)"]
    """
    found = []
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in ("hasattr", "getattr")
        ):
            subject = ast.unparse(node.args[0]).removeprefix("self.").split("(")[0]
            if (
                any(part in SUBJECTS for part in subject.split("."))
                and subject != "self"
            ):
                found.append(ast.unparse(node))
    return found


def homonyms(trees: dict[Path, ast.Module]) -> dict[str, list[str]]:
    """Names of classes and types that are defined in more than one file."""
    places: dict[str, list[str]] = {}
    for path, tree in trees.items():
        for node in tree.body:
            names = [node.name] if isinstance(node, ast.ClassDef) else []
            if isinstance(node, ast.Assign | ast.AnnAssign):
                targets = (
                    node.targets if isinstance(node, ast.Assign) else [node.target]
                )
                names = [
                    t.id
                    for t in targets
                    if isinstance(t, ast.Name)
                    and t.id[:1].isupper()
                    and not t.id.isupper()
                ]
            for name in names:
                places.setdefault(name, []).append(str(path.relative_to(SOURCE)))
    return {name: files for name, files in places.items() if len(files) > 1}


class Trace:
    """The functions of ours that ran since `clear`, in this thread and in those that
    were started inside the block."""

    def __init__(self) -> None:
        self._seen: dict[CodeType, None] = {}  # in the order of their first call

    def __enter__(self) -> "Trace":
        # from then on numba tells of compiled calls only there
        if sys.version_info >= (3, 12):
            tools = sys.monitoring
            tools.use_tool_id(tools.PROFILER_ID, "walks")
            tools.register_callback(
                tools.PROFILER_ID, tools.events.PY_START, self._started
            )
            tools.set_events(tools.PROFILER_ID, tools.events.PY_START)
        else:
            threading.setprofile(self._note)
            sys.setprofile(self._note)
        return self

    def __exit__(self, *_: object) -> None:
        if sys.version_info >= (3, 12):
            sys.monitoring.set_events(sys.monitoring.PROFILER_ID, 0)
            sys.monitoring.free_tool_id(sys.monitoring.PROFILER_ID)
        else:
            sys.setprofile(None)
            threading.setprofile(None)

    def _note(self, frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            self._seen.setdefault(frame.f_code)

    def _started(self, code: CodeType, _: int) -> None:
        self._seen.setdefault(code)

    def clear(self) -> None:
        """Forget what ran so far."""
        self._seen.clear()

    def walk(self, *, without: Walk | None = None) -> Walk:
        """What ran, without comprehensions, generator expressions and the hops of
        another walk."""
        hops = dict.fromkeys(
            (str(Path(code.co_filename).relative_to(SOURCE)), code.co_qualname)
            for code in self._seen.copy()
            if code.co_filename.startswith(str(SOURCE))
            and not code.co_qualname.endswith(("comp>", "<genexpr>", "<module>"))
            and code.co_flags & inspect.CO_OPTIMIZED  # not the body of a class
        )
        own = tuple(hop for hop in hops if without is None or hop not in without.hops)
        return Walk(len(own), len({file for file, _ in own}), own)


def library_walks() -> dict[str, Walk]:
    """Decide and learn of an agent over linear experts, after a first call of each."""
    import oddsmith as od

    weights, context = (
        np.random.default_rng(1).normal(size=(4, 3, 2)),
        np.array([0.3, -0.7]),
    )
    agent = od.Agent(
        od.GeneralizedThompsonSampling(od.LinearExperts(weights), gamma=0.1),
        seed=1,
        arms=["a", "b", "c"],
    )
    agent.learn(agent.decide(context), 1.0)
    with Trace() as trace:
        decision = agent.decide(context)
        decide = trace.walk()
        trace.clear()
        agent.learn(decision, 1.0)
        return {"library: decide": decide, "library: learn": trace.walk()}


def service_walks(folder: Path) -> dict[str, Walk]:
    """Decide, and reward to posterior, of a service on SQLite, from the application's
    door to the row.

    What the service does without being called (it looks for new events four times a
    second) is no hop of a decision.
    """
    sys.path.insert(0, str(TESTS))
    from server.served import CONTEXT, here, place

    with Trace() as trace, here(place(folder)) as served:
        served.post("decide", {"id": "first", "context": CONTEXT})
        served.reward("first", 1)
        served.state()
        trace.clear()
        time.sleep(1.0)
        idle, decides, rewards = trace.walk(), [], []
        # such a look may fall into it: the smallest walk is without
        for turn in ("second", "third", "fourth"):
            trace.clear()
            served.post("decide", {"id": turn, "context": CONTEXT})
            decides.append(trace.walk(without=idle))
            time.sleep(0.6)
            trace.clear()
            served.reward(turn, 1)
            served.state()
            served.get("/v1/posterior")
            rewards.append(trace.walk())
        return {
            "service: decide": min(decides),
            "service: reward to posterior": min(rewards),
        }


def evaluate_walk(folder: Path) -> Walk:
    """`oddsmith evaluate` of a policy file on a log of 2,000 rows, with a report."""
    from oddsmith.cli.main import main
    from oddsmith.logs import Log
    from oddsmith.logs.formats import write_log

    rng = np.random.default_rng(2)
    arm, context = rng.integers(0, 3, 2000), rng.normal(size=(2000, 2))
    reward = (rng.random(2000) < 0.2 + 0.2 * arm).astype(float)
    odds = np.full((2000, 3), 1 / 3)
    log = Log(
        arm=arm, reward=reward, propensities=odds, context=context, arms=["a", "b", "c"]
    )
    write_log(log, folder / "log.parquet")
    np.savez(
        folder / "lines.npz",
        weights=rng.normal(size=(4, 3, 2)),
        names=["k", "l", "m", "n"],
    )
    lines = (
        'arms = ["a", "b", "c"]\npolicy.gamma = 0.1\n[experts.lines]\nkind = "linear"\n'
        'file = "lines.npz"\n'
    )
    (folder / "candidate.toml").write_text(lines)
    words = [
        "evaluate",
        str(folder / "log.parquet"),
        "--target",
        str(folder / "candidate.toml"),
    ]
    return _command([*words, "--out", str(folder / "report")], main)


def reproduce_walk(folder: Path) -> Walk:
    """`oddsmith reproduce` of one claim in its quick form, with a report."""
    from oddsmith.cli.main import main

    return _command(
        [
            "reproduce",
            "lemma1",
            "--quick",
            "--engine",
            "serial",
            "--out",
            str(folder / "claims"),
        ],
        main,
    )


def _command(words: list[str], main: Callable[[list[str]], object]) -> Walk:
    with Trace() as trace, redirect_stdout(StringIO()):
        main(words)
        return trace.walk()


def layout(trees: dict[Path, ast.Module]) -> dict[str, float]:
    """Entries and layers of the package, the size of its core, and what imports load.

    The core is the package `core`; before there was one, all that GTS imports.
    """
    names = {path.relative_to(SOURCE).parts[0] for path in trees}
    contracts = tomllib.loads((SOURCE.parents[1] / "pyproject.toml").read_text())
    rules = contracts["tool"]["importlinter"]["contracts"]
    gts = "oddsmith.core.gts"
    if not (SOURCE / "core").exists():
        gts = "oddsmith.policies.gts"
    loaded = _loaded(gts)
    core = [path for path in trees if path.parent == SOURCE / "core"]
    if not core:
        core = [SOURCE.parent / f"{name.replace('.', '/')}.py" for name in loaded]
        core = [path for path in core if path.exists()]
    times = sorted(_import_seconds("import oddsmith") for _ in range(11))
    numpy_times = sorted(_import_seconds("import numpy") for _ in range(11))
    agent_times = sorted(
        _import_seconds("import oddsmith; oddsmith.Agent") for _ in range(11)
    )
    return {
        "entries": len(names - {"__init__.py"}),
        "layers": len(
            next(rule["layers"] for rule in rules if rule["type"] == "layers")
        ),
        "modules of the core": len(core),
        "lines of the core": sum(len(path.read_text().splitlines()) for path in core),
        "modules that GTS loads": len(loaded),
        "modules that import oddsmith loads": len(_loaded("oddsmith")),
        "import oddsmith, ms (numpy included)": round(1000 * times[5], 1),
        "oddsmith.Agent, ms (numpy included)": round(1000 * agent_times[5], 1),
        "import numpy, ms": round(1000 * numpy_times[5], 1),
    }


def _loaded(module: str) -> list[str]:
    """The modules of ours that a fresh process has loaded after an import, packages without code left out."""
    code = f"import sys, {module}; print(*[m for m in sys.modules if m.startswith('oddsmith')])"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    return done.stdout.split()


def _import_seconds(statement: str) -> float:
    """The seconds that a statement takes in a fresh process, with cached bytecode."""
    code = f"import time; a = time.perf_counter(); {statement}; print(time.perf_counter() - a)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    return float(done.stdout)


def measure() -> dict[str, float]:
    """All numbers by name."""
    found: dict[str, float] = layout(sources()) | sizes(sources())
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as two:
        walks = library_walks() | service_walks(Path(one))
        walks |= {
            "evaluate": evaluate_walk(Path(two)),
            "reproduce": reproduce_walk(Path(two)),
        }
    for name, walk in walks.items():
        found |= {f"{name}, functions": walk.functions, f"{name}, files": walk.files}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="keep the numbers in this file")
    parser.add_argument(
        "--before", type=Path, help="numbers that were kept earlier, to stand beside"
    )
    parser.add_argument(
        "--walks", action="store_true", help="list the hops of a decision"
    )
    parser.add_argument(
        "--probes", action="store_true", help="list the probes and homonyms"
    )
    asked = parser.parse_args()
    found = measure()
    before = json.loads(asked.before.read_text()) if asked.before else {}
    rows = [
        [name, *([f"{before[name]:g}"] if name in before else []), f"{value:g}"]
        for name, value in found.items()
    ]
    print(table(["", *(["before"] if before else []), "now"], rows))
    if asked.walks:
        with tempfile.TemporaryDirectory() as folder:
            for name, walk in (library_walks() | service_walks(Path(folder))).items():
                print(
                    "",
                    name,
                    *(f"{file}  {function}" for file, function in walk.hops),
                    sep="\n",
                )
    if asked.probes:
        for path, tree in sources().items():
            for probe in probes(tree):
                print(f"{path.relative_to(SOURCE)}: {probe}")
        for name, files in homonyms(sources()).items():
            print(f"{name}: {', '.join(files)}")
    if asked.json:
        asked.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    # read when numba is loaded
    os.environ.setdefault("NUMBA_ENABLE_SYS_MONITORING", "1")
    main()
