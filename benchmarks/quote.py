"""Numbers of RESULTS.md and BAKEOFF.md where pages quote them: `python -m
benchmarks.quote` writes them anew.

A quote in a page is `<!-- quote NAME -->16×<!-- /quote -->`; what stands between the
marks is made from the cell that QUOTES names. `make bench` and `python -m
benchmarks.bakeoff_page` end with this, and `--check` says what differs.
"""

import argparse
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
ROOT = HERE.parent
MARK = re.compile(r"<!-- quote (\S+) -->(.*?)<!-- /quote -->", re.DOTALL)
REFRESH = "python -m benchmarks.quote"
PEERS, STEP, AUTO = (
    "Every algorithm, compared with other libraries",
    "A decision and a reward",
    "What auto costs",
)
OFFERS, SHORT = (
    "A decision among arms of the call, and its reward",
    "labels, 1,000 rows at most, slow libraries too",
)


def ratio(value: float) -> str:
    """A ratio as pages quote it: two digits from 0.1 to 10, whole numbers above."""
    return (
        f"{value:.0f}×"
        if value >= 9.95
        else f"{value:.1f}×"
        if value >= 0.995
        else f"{value:.2f}×"
    )


def regret(value: float) -> str:
    """A ratio of regrets, to two decimals."""
    return f"{value:.2f}"


def microseconds(value: float) -> str:
    """A time in whole microseconds, or to one digit below 10."""
    return f"{value:,.0f} µs" if value >= 9.95 else f"{value:.1f} µs"


class Quote(NamedTuple):
    """A cell: file, section, beginnings of the first cells of its row, column; `after`
    the row that begins so, `over` another row of the same table. `side` of 1 is what
    the sentences around it say.
    """

    file: str
    section: str
    row: tuple[str, ...]
    column: str
    shown: Callable[[float], str] = ratio
    after: str = ""
    over: tuple[str, ...] = ()
    side: str = ""


def _peer(algorithm: str, peer: str, side: str = "") -> Quote:
    return Quote(
        "RESULTS.md", PEERS, (f"— {peer}",), "times slower", after=algorithm, side=side
    )


def _step(loop: str, column: str, side: str = "") -> Quote:
    return Quote(
        "RESULTS.md", STEP, (f"oddsmith, {loop}, Agent",), f"÷ {column}", side=side
    )


def _auto(arms: str, policy: str) -> Quote:
    return Quote("RESULTS.md", AUTO, (arms, policy), "÷ Vowpal Wabbit")


def _offer(arms: str, side: str = "") -> Quote:
    return Quote(
        "RESULTS.md",
        OFFERS,
        (arms, "oddsmith, auto()"),
        "÷ VW, text made in the loop",
        side=side,
    )


def _family(family: str, column: str = "auto ÷ it", side: str = "") -> Quote:
    return Quote("BAKEOFF.md", "Answers", (family,), column, regret, side=side)


def _short(peer: str, side: str = "less") -> Quote:
    return Quote("BAKEOFF.md", SHORT, (f"{peer}: ",), "auto ÷ it", regret, side=side)


_VW = "÷ best single VW"
QUOTES: dict[str, Quote] = {
    "step-numpy": Quote(
        "RESULTS.md", STEP, ("oddsmith, numpy, Agent",), "CPU µs/step", microseconds
    ),
    "step-numba": Quote(
        "RESULTS.md", STEP, ("oddsmith, numba, Agent",), "CPU µs/step", microseconds
    ),
    "step-numba-vw-text": _step(
        "numba", "documented loop on text made beforehand", "more"
    ),
    "step-numba-vw-arrays": _step("numba", "examples from arrays", "more"),
    "step-numpy-vw-arrays": _step("numpy", "examples from arrays", "more"),
    "auto-numba-vw": _auto("10 arms × 20 numbers", "auto, normal, numba"),
    "auto-small-vw": _auto("10 arms × 20 numbers", "auto, small, numba"),
    "auto-numpy-vw": _auto("10 arms × 20 numbers", "auto, normal, numpy"),
    "offers-10-vw": _offer("10", "more"),
    "offers-50-vw": _offer("50"),
    "offers-1000-vw": _offer("1,000", "less"),
    "mabwiser-ucb1": _peer("UCB1", "mabwiser", "more"),
    "mabwiser-beta": _peer("Beta Thompson", "mabwiser", "more"),
    "mabwiser-linucb": _peer("LinUCB, disjoint", "mabwiser", "more"),
    "mabwiser-lints": _peer("linear Thompson, disjoint", "mabwiser", "more"),
    "river-ucb1": _peer("UCB1", "river"),
    "river-beta": _peer("Beta Thompson", "river"),
    "river-linucb": _peer("LinUCB, disjoint", "river", "more"),
    "river-adpredictor": _peer("adPredictor", "river", "less"),
    "bayesianbandits-us": Quote(
        "BAKEOFF.md",
        SHORT,
        ("bayesianbandits: LinUCB",),
        "µs a step",
        over=("oddsmith: auto",),
        side="more",
    ),
    "short-mabwiser": _short("mabwiser"),
    "short-river": _short("river"),
    "short-bayesianbandits": _short("bayesianbandits"),
    "labels-peer": _family("labels", side="less"),
    "labels-vw": _family("labels", _VW, "less"),
    "clicks-03-peer": _family("clicks 0.3/0.05"),
    "clicks-03-vw": _family("clicks 0.3/0.05", _VW, "less"),
    "clicks-010-peer": _family("clicks 0.10/0.02"),
    "clicks-010-vw": _family("clicks 0.10/0.02", _VW, "less"),
    "worlds-peer": _family("worlds"),
    "worlds-vw": _family("worlds", _VW, "less"),
    "rows-vw": _family("rows", _VW, "less"),
    "groups-vw": _family("groups", _VW, "less"),
    "routing-peer": _family("routing"),
    "routing-vw": _family("routing", _VW, "less"),
}


def rows_of(text: str, section: str) -> Iterator[dict[str, str]]:
    """Rows of the tables of a section, in their order, as dicts by column."""
    found = re.search(
        rf"^## {re.escape(section)}\n(.*?)(?=^## |\Z)", text, re.DOTALL | re.MULTILINE
    )
    if found is None:
        raise LookupError(f"there is no section {section!r}")
    header: list[str] = []
    for line in found[1].splitlines():
        cells = (
            [cell.strip() for cell in line.strip("| ").split(" | ")]
            if line.startswith("|")
            else []
        )
        if not cells or set(line) <= set("|-: "):
            header = header if cells else []
        elif not header:
            header = cells
        else:
            cells = [cell.strip() for cell in line[1:].removesuffix("|").split("|")]
            yield dict(zip(header, cells, strict=True))


def cell(quote: Quote, text: str, row: tuple[str, ...]) -> float:
    """The number in the first row that begins so."""
    reached = not quote.after
    for found in rows_of(text, quote.section):
        first = list(found.values())
        reached = reached or first[0] == quote.after
        if reached and quote.column in found and all(map(str.startswith, first, row)):
            number = re.search(r"-?[\d,]*\.?\d+", found[quote.column])
            if number is not None:
                return float(number[0].replace(",", ""))
    raise LookupError(
        f"section {quote.section!r} has no number in column {quote.column!r} of a row "
        f"{' | '.join(row)}"
    )


def value(name: str, folder: Path = HERE) -> float:
    """The number behind a quote, as its file has it now."""
    if name not in QUOTES:
        raise LookupError(
            f"there is no quote {name!r} in benchmarks/quote.py; there are "
            f"{', '.join(QUOTES)}"
        )
    quote = QUOTES[name]
    text = (folder / quote.file).read_text()
    try:
        found = cell(quote, text, quote.row)
        return found / cell(quote, text, quote.over) if quote.over else found
    except LookupError as error:
        raise LookupError(
            f"quote {name}: {quote.file}: {error}; mend QUOTES in benchmarks/quote.py"
        ) from None


def written(text: str, folder: Path = HERE) -> str:
    """A page with its quotes as the files have them now."""

    def again(mark: re.Match[str]) -> str:
        return (
            f"<!-- quote {mark[1]} "
            f"-->{QUOTES[mark[1]].shown(value(mark[1], folder))}<!-- /quote -->"
        )

    for name, _ in MARK.findall(text):
        value(name, folder)
    return MARK.sub(again, text)


def pages(root: Path = ROOT) -> list[Path]:
    """README and the pages of the site that quote."""
    found = [root / "README.md", *sorted((root / "docs").rglob("*.md"))]
    return [page for page in found if MARK.search(page.read_text())]


def refresh(root: Path = ROOT, *, check: bool = False) -> list[str]:
    """Write all quotes anew, or only look; a line for each quote that differs."""
    changed = []
    for page in pages(root):
        before = page.read_text()
        after = written(before, root / "benchmarks")
        for (name, old), (_, new) in zip(
            MARK.findall(before), MARK.findall(after), strict=True
        ):
            if old != new:
                changed.append(f"{page.relative_to(root)}: {name}: {old} is now {new}")
        if after != before and not check:
            page.write_text(after)
    return changed


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit 1 if a quote differs"
    )
    asked = parser.parse_args()
    changed = refresh(check=asked.check)
    print(
        "\n".join(changed)
        or (
            "All quotes are as benchmarks/RESULTS.md and benchmarks/BAKEOFF.md have "
            "them."
        )
    )
    sys.exit(asked.check and bool(changed))


if __name__ == "__main__":
    main()
