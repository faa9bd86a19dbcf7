"""All recorded runs by name, and their files: one for numpy, and another for numba
where its bits are others."""

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

from threadpoolctl import threadpool_limits

from experts.test_contract import BANKS
from oddsmith.core import kernels
from policies.test_contract import POLICIES
from recorded import contracts
from recorded.folds import FOLDS
from recorded.settings import SETTINGS
from recorded.trace import Trace, circumstances

__all__ = ["NUMBERS", "RUNS", "path_of", "recording", "run", "write"]

NUMBERS = Path(__file__).parent / "numbers"
RUNS: dict[str, Callable[[Trace], None]] = {
    **{f"policy {name}": partial(contracts.policy, name=name) for name in POLICIES},
    **{f"bank {name}": partial(contracts.bank, name=name) for name in BANKS},
    **{f"settings {name}": made for name, made in SETTINGS.items()},
    **{f"fold {name}": made for name, made in FOLDS.items()},
}


def path_of(name: str, kind: str = "numpy") -> Path:
    """The file of a run with these kernels."""
    stem = re.sub(r"[^a-z0-9]+", "-", name)
    return NUMBERS / (f"{stem}.txt" if kind == "numpy" else f"{stem}.{kind}.txt")


def run(name: str) -> list[str]:
    """The lines of a run, made now, with the kernels in use; one thread, for sums
    depend on how many share them."""
    trace = Trace()
    with threadpool_limits(1):
        RUNS[name](trace)
    return trace.lines


def recording(name: str, kind: str) -> tuple[str, list[str]]:
    """Where a run was recorded, and its lines; numba's are numpy's unless it has a file
    of its own."""
    own = path_of(name, kind)
    made, *lines = (own if own.exists() else path_of(name)).read_text().splitlines()
    return made, lines


def write(name: str) -> list[Path]:
    """Record a run anew with both kernels; the files that are others now."""
    found = {}
    for kind in ("numpy", "numba"):
        kernels.use(kind)
        found[kind] = [circumstances(), *run(name)]
    kernels.use("auto")
    changed = []
    for kind, lines in found.items():
        path, text = path_of(name, kind), "\n".join(lines) + "\n"
        before = path.read_text() if path.exists() else ""
        if kind != "numpy" and lines == found["numpy"]:
            path.unlink(missing_ok=True)
            text = ""
        else:
            path.write_text(text)
        changed += [path] if text != before else []
    return changed
