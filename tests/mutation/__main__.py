"""Change one thing in the code, see whether a test notices: `make mutants`, or `python
-m mutation MODULE...` in tests.

Each module is copied to `build/mutants`, where mutmut makes every small change it
knows, one at a time, and runs the tests of the module's room against each. What no test
notices is printed, unless tests/mutation/equivalent.md says why nobody could. Properties
and other decorated functions, and what runs on import, are left as they are: mutmut
does so.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from mutation.modules import IGNORED, MODULES, SLOW
from mutation.survivors import Result, result_of

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "tests" / "mutation" / "equivalent.md"


def main(asked: list[str]) -> None:
    """Mutate these modules (all of them); exit code 1 where a living mutant is not
    explained."""
    if unknown := [name for name in asked if name not in MODULES]:
        sys.exit(f"modules must be among {', '.join(MODULES)}; got {unknown[0]!r}")
    results = [mutated(name) for name in asked or MODULES]
    print(
        "\n| module | mutants | killed | explained | living | killed or explained |\n"
        "|---|---|---|---|---|---|"
    )
    for result in results:
        print(result.row())
    for result in results:
        print("".join(f"\n{result.module}, {survivor}" for survivor in result.living))
    sys.exit(any(result.living for result in results))


def mutated(name: str) -> Result:
    """Run mutmut over a copy of one module and its tests."""
    folder = ROOT / "build" / "mutants" / name.replace("/", "-")
    shutil.rmtree(folder, ignore_errors=True)
    for part in ("src", "tests", "benchmarks"):
        shutil.copytree(
            ROOT / part,
            folder / part,
            ignore=shutil.ignore_patterns("__pycache__", "numbers"),
        )
    (folder / "pyproject.toml").write_text(
        (ROOT / "pyproject.toml").read_text() + _settings(name)
    )
    places = {
        "PYTHONPATH": str(folder / "tests"),
        "ODDSMITH_KERNELS": "numpy",
        "OMP_NUM_THREADS": "1",
    }
    command = [sys.executable, "-m", "mutmut", "run", "--max-children", "2"]
    with open(folder / "mutmut.log", "w") as log:
        subprocess.run(
            command,
            cwd=folder,
            env=os.environ | places,
            stdout=log,
            stderr=log,
            check=False,
        )
    return result_of(
        name, folder / "mutants" / "src" / "oddsmith" / f"{name}.py", PAGE.read_text()
    )


def _settings(name: str) -> str:
    slow = " and ".join(f"not {word}" for word in SLOW)
    arguments = [
        "-p",
        "mutation.names",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        "-k",
        slow,
    ]
    said = {
        "source_paths": ["src"],
        "also_copy": ["benchmarks"],
        "only_mutate": [f"src/oddsmith/{name}.py"],
        "do_not_mutate_patterns": list(IGNORED),
        "pytest_add_cli_args": arguments,
        "pytest_add_cli_args_test_selection": [
            f"src/oddsmith/{name}.py",
            *MODULES[name],
        ],
    }
    return "\n[tool.mutmut]\n" + "".join(
        f"{key} = {json.dumps(value)}\n" for key, value in said.items()
    )


if __name__ == "__main__":
    main(sys.argv[1:])
