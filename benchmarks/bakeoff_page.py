"""BAKEOFF.md, BAKEOFF_SETS.md and their picture, from the results of all families:
`python -m benchmarks.bakeoff_page`.

Nothing is played: results of other sources of ours, and configurations that have not
played all sets, are left out. `make bench` plays what our last sources have not
(`benchmarks.bakeoff_again`), and then writes the page.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks import bakeoff, quote, standing_report, standing_tables
from benchmarks.games import CHOICES, FAMILIES
from benchmarks.kept import source
from benchmarks.standings import AUTO, Field, answers, fields, median_us
from benchmarks.timing import table
from benchmarks.told import Compared, release

HERE = Path(__file__).parent
SMALL = "oddsmith: auto, small"
PEERS = ("vowpalwabbit", "river", "contextualbandits", "mabwiser", "bayesianbandits")
HEAD = """# Bake-off

`python -m benchmarks.bakeoff --family NAME --data DIR` plays what is not yet in `results/NAME.jsonl`, and prints a
family's tables; `python -m benchmarks.bakeoff_page` makes this page of them. What every set came to is in
`BAKEOFF_SETS.md`. `make bench` does all of it for our last sources (`benchmarks.bakeoff_again`).

{state}

## Answers

"""
READING = """
* *auto ÷ best single peer*: its regret (on labels its error) over that of the one configuration of a peer that is the
  best on average, picked on these very rounds, on the shuffles that both played; of averages over sets, for rows,
  groups and routing of geometric means. *In hindsight*: each set has a best peer of its own; geometric mean.
* *wins − losses*: sets on which a z-test says so at 0.05, against the best single peer. *Far behind*: sets of 1,000
  rounds or more on which auto is significantly worse than 1.10 times the best single peer.
* *own expert*: auto's regret over that of the best of its own experts run alone, which nobody knows beforehand.

How to read them:

* **`auto` was designed on these very sets**, and tuned on some of these shuffles: its rows are the best case for it.
  Only sets that nobody has looked at can tell how much of the lead carries over.
* Peers are given numbers standardised over the whole set, and in worlds exact one-hot columns and columns for what is
  missing; `auto` gets numbers and dicts as they come. Names that last (brands, models) are told to both sides.
* clicks: the labelled sets, reward 1 with probability 0.3 if right and 0.05 if wrong, or 0.10 and 0.02; all
  contenders see the same coins. worlds: `benchmarks/click_worlds.py`. rows, groups, routing: `benchmarks/games.py`
  says what a round is.
* Vowpal Wabbit with `--interactions` crosses all pairs of numbers with the arm: a minute of CPU for a cell, else it
  is charged uniform play, as the tables say.
* *shuffles* in the tables: how many a configuration has played. The first was played by all; further ones by the
  stronger configurations, and not on the widest sets.
* µs a step are medians over sets, on a busy machine, the making of text within: `RESULTS.md` has time measured
  properly.

![auto against the best single peer, set by set](figures/bakeoff.svg)
"""


def found(data: Path, family: str, *more: str) -> list[Field]:
    """What a family has come to."""
    folder = data / ("choices" if family in CHOICES else "bakeoff")
    words = ["--family", family, "--data", str(folder), "--only-known", *more]
    return fields(bakeoff.run(bakeoff.parsed(words)))


def section(field: Field, title: str) -> str:
    """The summary and the league of a family."""
    return "\n".join(
        [
            f"\n## {title}\n",
            standing_tables.summary(field),
            standing_tables.league(field),
            standing_tables.unfinished(field),
        ]
    )


def overview(every: list[Field]) -> str:
    """A row for each family."""
    rows = []
    for field in every:
        if (a := answers(field)) is None:
            continue
        own = (
            f"{np.mean(list(a.own.values())):.3f}, {a.own[a.own_worst]:.2f}"
            if a.own
            else ""
        )
        small = f"{median_us(field, SMALL):,.0f}" if SMALL in field.runs else ""
        rows.append(
            [
                field.title,
                f"{len(field.sets)} × {len({i for _, i in field.runs[AUTO]})}",
                a.peer,
                (
                    f"**{a.ratio:.3f}**"
                    f"{standing_tables.aimed(field, standing_tables.AIMS)}"
                ),
                (
                    f"{a.vowpal_ratio:.3f}"
                    f"{standing_tables.aimed(field, standing_tables.VOWPAL_AIMS)}"
                ),
                f"{a.in_hindsight:.3f}",
                f"{a.net:+d}",
                f"{len(a.worse)} of {a.many}",
                own,
                (
                    f"{median_us(field, AUTO):,.0f}, {small}, "
                    f"{median_us(field, a.peer):,.0f}"
                ),
            ]
        )
    header = [
        "family",
        "sets × shuffles",
        "best single peer",
        "auto ÷ it",
        "÷ best single VW",
        "÷ best in hindsight",
    ]
    header += [
        "wins − losses",
        "far behind",
        "÷ own expert: mean, worst",
        "µs a step: auto, small, peer",
    ]
    return table(header, rows)


def state() -> str:
    """Of which sources and versions the results are."""
    peers = (release(name) for name in PEERS)
    return f"Ours are of source `{source()}`, peers' of {', '.join(peers)}."


class Standings(NamedTuple):
    """All fields, and labels of at most 1,000 rows, where slow libraries have played,
    too."""

    every: list[Field]
    short: list[Field]


def standings(data: Path) -> Standings:
    """What was played by our sources as they are."""
    every = [
        field for family in FAMILIES for field in found(data, family, "--shuffles", "5")
    ]
    return Standings(
        every, found(data, "labels", "--shuffles", "1", "--cap", "1000", "--slow")
    )


def compared(seen: Standings) -> Iterator[Compared]:
    """Auto beside the best single peer of each family, and beside the best peer of each
    set in hindsight."""
    for field in (*seen.every, *seen.short):
        if (a := answers(field)) is None:
            continue
        package, _, name = a.peer.partition(": ")
        title = "labels, 1,000 rows" if field in seen.short else field.title
        pair = field.pair(AUTO, a.peer)
        means = field.mean(pair.mine), field.mean(pair.theirs)
        unit = (
            "of uniform play"
            if field.family == "worlds"
            else "error"
            if field.family == "labels"
            else "a round"
        )
        yield Compared(
            f"regret, {title}",
            f"{release(package)}: {name}, the best of {len(field.peers)}",
            *means,
            unit,
        )
        if field in seen.short:
            continue
        hindsight = f"the best of {len(field.peers)} on each set, in hindsight"
        yield Compared(f"regret, {title}", hindsight, a.in_hindsight, 1.0, "× theirs")


def write(seen: Standings) -> None:
    """Write both pages and the picture."""
    every = seen.every
    worlds = [
        f"\n{standing_tables.captured(f)}\n"
        for f in every
        if f.family == "worlds" and AUTO in f.complete
    ]
    sections = [section(field, field.title) for field in every]
    sections += [
        section(field, "labels, 1,000 rows at most, slow libraries too")
        for field in seen.short
    ]
    (HERE / "BAKEOFF.md").write_text(
        "".join(
            [
                HEAD.format(state=state()),
                overview(every),
                "\n",
                *worlds,
                READING,
                *sections,
            ]
        )
    )
    sets = "".join(standing_tables.by_set(field) for field in every)
    (HERE / "BAKEOFF_SETS.md").write_text(
        "# Bake-off, set by set\n\nRegret a round; `BAKEOFF.md` says what it is.\n"
        f"{sets}"
    )
    standing_report.draw(every, HERE / "figures" / "bakeoff.svg")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=bakeoff.SHARED)
    parser.add_argument(
        "--html",
        type=Path,
        metavar="FILE",
        help="write all families as one HTML page, too",
    )
    asked = parser.parse_args()
    seen = standings(asked.data)
    write(seen)
    print("\n".join(quote.refresh()))
    if asked.html:
        standing_report.page(seen.every, asked.html)


if __name__ == "__main__":
    main()
