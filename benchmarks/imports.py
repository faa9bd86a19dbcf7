"""What `import oddsmith` costs next to `import numpy, scipy.special`: fresh processes,
interleaved."""

import subprocess
import sys
from functools import partial

from benchmarks.timing import interleaved, table
from benchmarks.told import Compared, Told, release

ROUNDS = 15


def importing(what: str) -> float:
    code = (
        f"import time; t = time.perf_counter(); import {what}; "
        "print(time.perf_counter() - t)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return float(done.stdout)


def report() -> Told:
    names = ("numpy, scipy.special", "oddsmith")
    seconds: dict[str, list[float]] = {name: [] for name in names}

    def once(name: str) -> int:
        seconds[name].append(importing(name))
        return 1

    interleaved({name: partial(once, name) for name in names}, ROUNDS)
    middle = {
        name: sorted(values)[len(values) // 2] for name, values in seconds.items()
    }
    ratio = middle["oddsmith"] / middle["numpy, scipy.special"]
    rows = [
        [f"`import {name}`", f"{1e3 * value:.0f}"] for name, value in middle.items()
    ]
    peer = f"{release('numpy')} and {release('scipy')}'s special"
    compared = Compared(
        "import", peer, 1e3 * middle[names[1]], 1e3 * middle[names[0]], "ms"
    )
    text = f"""## Import

Median of {ROUNDS} fresh processes each, interleaved. `import oddsmith` costs **{ratio:.2f} times** as much as numpy and
scipy.special, the largest part of scipy that it uses (and imports on first use).

{table(["", "ms"], rows)}
"""
    return Told(text, (compared,))
