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

`python -m benchmarks.bakeoff --family NAME --data DIR` plays the configurations that are not yet in `results/NAME.jsonl`, and
prints the tables of a family. `python -m benchmarks.bakeoff_page` makes this page from them. The results of every dataset are in
`BAKEOFF_SETS.md`. `make bench` does all of it for our last sources (`benchmarks.bakeoff_again`).

{state}

## Answers

"""
READING = """
* *auto ÷ best single peer*: the regret of `auto` (for labels its error) divided by that of the configuration of another library that is
  best on average. This configuration is chosen on the same rounds. The ratio uses the shuffles that both played, and averages
  over datasets (for rows, groups and routing geometric means). *In hindsight*: each dataset has its own best configuration; geometric mean.
* *wins − losses*: numbers of datasets with a significant difference to the best single peer (z-test at 0.05). *Far behind*: datasets
  of 1,000 rounds or more on which `auto` is significantly worse than 1.10 times the best single peer.
* *own expert*: the regret of `auto` divided by that of its best expert alone, which is not known in advance.

How to read them:

* **`auto` was designed on these datasets** and tuned on some of these shuffles, so its rows show its best case.
  Only new datasets can show how much of the lead remains.
* Other libraries get numbers that are standardised over the whole dataset, and in worlds exact one-hot columns and indicators for
  missing values. `auto` gets unchanged numbers and dicts. Both get the names of arms that stay (brands, models).
* *clicks* are the classification datasets with reward 1 with probability 0.3 for a right label and 0.05 for a wrong one, or 0.10 and 0.02.
  All configurations get the same random numbers. *worlds* are in `benchmarks/click_worlds.py`; *rows*, *groups* and *routing* are in
  `benchmarks/games.py`.
* Vowpal Wabbit with `--interactions` crosses all pairs of numbers with the arm. If it takes more than a minute
  of CPU for a cell, it gets the regret of uniform choice, as the tables show.
* *shuffles* is the number of shuffles that a configuration has played. All configurations played the first. The stronger ones
  played further shuffles, except on the widest datasets.
* *µs a step* are medians over datasets on a busy machine and include the time to make text. `RESULTS.md` has accurate times.

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
