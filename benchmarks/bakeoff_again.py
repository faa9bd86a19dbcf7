"""The bake-off on our last sources: what earlier ones of ours have played is played
again, and the page is written.

    python -m benchmarks.bakeoff_again [--data ../shared/data] [--count]

A result of a peer holds as long as its version does, and is kept. A result of ours
holds as long as the sources that it depends on do (`benchmarks.entries`): each cell
(set, shuffle, configuration) that some source of ours has played and the last one has
not is played again, and what earlier sources came to there is then taken out of the
results file.
"""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import bakeoff, bakeoff_page
from benchmarks.bakeoff import Cell
from benchmarks.games import CHOICES, FAMILIES
from benchmarks.told import Told

Place = tuple[Any, ...]
"""What a cell is without the source that played it."""


class Again(NamedTuple):
    """Cells of a family to be played, by key, and the seconds of CPU that they took an
    earlier source."""

    arguments: argparse.Namespace
    cells: dict[str, Cell]
    seconds: float


def place(record: dict[str, Any]) -> Place:
    """The place of a result, or of a cell's."""
    return tuple(
        record[name] for name in ("set", "noise", "shuffle", "cap", "library", "name")
    )


def wanted(arguments: argparse.Namespace) -> Again:
    """What earlier sources of ours have played, and the last one has not."""
    known = bakeoff.read(arguments.results)
    spent = {
        place(record): record["us"] * record["steps"] / 1e6 for record in known.values()
    }
    missing = {}
    for key, cell in bakeoff.cells(arguments):
        where = place({"set": Path(cell.path).stem, **cell._asdict()})
        if key not in known and cell.library == "oddsmith" and where in spent:
            missing[key] = cell, spent[where]
    cells = {key: cell for key, (cell, _) in missing.items()}
    return Again(arguments, cells, sum(seconds for _, seconds in missing.values()))


def everything(data: Path) -> Iterator[Again]:
    """That of all families, and of labels with at most 1,000 rows."""
    for family in FAMILIES:
        folder = str(data / ("choices" if family in CHOICES else "bakeoff"))
        words = ["--family", family, "--data", folder, "--only", "oddsmith"]
        yield wanted(bakeoff.parsed([*words, "--shuffles", "5"]))
        if family == "labels":
            yield wanted(bakeoff.parsed([*words, "--shuffles", "1", "--cap", "1000"]))


def forget(path: Path, current: set[str]) -> None:
    """Take results of earlier sources of ours out of a file, where the last one has
    played the same cell."""
    known = bakeoff.read(path)
    done = {place(known[key]) for key in current if key in known}
    kept = [
        record
        for key, record in known.items()
        if key in current or place(record) not in done
    ]
    path.write_text("".join(f"{json.dumps(record)}\n" for record in kept))


def report(data: Path) -> str | Told:
    """Play what is missing, write both pages, and tell what they say in a section."""
    head = "## Bake-off\n\n"
    if not (data / "bakeoff").exists():
        return f"{head}Skipped: {data / 'bakeoff'} is not there (see --data).\n"
    for again in everything(data):
        if again.cells:
            bakeoff.play_all(again.cells, again.arguments)
            forget(
                again.arguments.results,
                {key for key, _ in bakeoff.cells(again.arguments)},
            )
    seen = bakeoff_page.standings(data)
    bakeoff_page.write(seen)
    text = (
        f"{head}`BAKEOFF.md` says what is compared, and has every league.\n\n"
        f"{bakeoff_page.overview(seen.every)}\n"
    )
    return Told(text, tuple(bakeoff_page.compared(seen)))


def main() -> None:
    """Play, or count."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=bakeoff.SHARED)
    parser.add_argument(
        "--count",
        action="store_true",
        help="say what would be played, and play nothing",
    )
    asked = parser.parse_args()
    if not asked.count:
        print(report(asked.data))
        return
    for family, cells, seconds in everything(asked.data):
        print(
            f"{family.family}, {family.cap:,} rows: {len(cells):,} cells, "
            f"{seconds:,.0f} s of CPU"
        )


if __name__ == "__main__":
    main()
