"""Record runs anew: `cd tests && ../.venv/bin/python -m recorded NAME...`, or `--all`;
without names, what there is.

A name may be the beginning of several. Say in the commit message which runs changed,
and why they were meant to.
"""

import argparse
import sys

from recorded.runs import NUMBERS, RUNS, path_of, write


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m recorded", description=__doc__)
    parser.add_argument("names", nargs="*", help="runs, or beginnings of their names")
    parser.add_argument(
        "--all",
        action="store_true",
        help="every run; files of runs that are no more go",
    )
    asked = parser.parse_args()
    if not asked.names and not asked.all:
        print("\n".join(RUNS))
        return
    if unknown := [
        name for name in asked.names if not any(run.startswith(name) for run in RUNS)
    ]:
        sys.exit(
            f"names must be those of runs; got {unknown[0]!r}; `python -m recorded` "
            "lists them"
        )
    for name in RUNS:
        if asked.all or name.startswith(tuple(asked.names)):
            changed = write(name)
            print(f"{name}: {', '.join(path.name for path in changed) or 'as it was'}")
    if asked.all:
        known = {path_of(name, kind) for name in RUNS for kind in ("numpy", "numba")}
        for path in set(NUMBERS.glob("*.txt")) - known:
            path.unlink()
            print(f"gone: {path.name}")


if __name__ == "__main__":
    main()
