"""The front page of the benchmarks, and RESULTS.md behind it: both are made of what the
parts have told."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import get_args

from benchmarks.kept import PACKAGES, Kept
from benchmarks.parts import BY_HAND
from benchmarks.timing import machine, table
from benchmarks.told import NEAR, Compared, Verdict

HEADER = [
    "what is measured",
    "against whom",
    "ours",
    "theirs",
    "ours ÷ theirs",
    "",
    "where",
]


def title(part: Kept) -> str:
    """The heading of a section."""
    return part.text.partition("\n")[0].removeprefix("## ")


def anchor(heading: str) -> str:
    """The fragment of a heading, as readers of Markdown make it.

    >>> anchor("A decision among arms of the call, and its reward")
    'a-decision-among-arms-of-the-call-and-its-reward'
    """
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def number(value: float) -> str:
    """Three digits that count, more of large numbers.

    >>> [number(x) for x in (0, 0.00012345, 0.2296, 11.43, 850.4, 11183.2)]
    ['0', '0.000123', '0.230', '11.4', '850', '11,183']
    """
    if value == 0 or value >= 100:
        return f"{value:,.0f}"
    return f"{value:#.3g}"


def row(one: Compared, where: str) -> list[str]:
    """A comparison as a row; who is behind stands in bold."""
    shown = (
        f"**{one.verdict}**" if one.verdict in ("lost", "DIFFERENT") else one.verdict
    )
    ratio = "" if one.better == "same" else f"{one.ratio:.2f}"
    theirs = number(one.theirs) if one.better != "same" else f"{one.theirs:g} allowed"
    better = "; more is better" if one.better == "higher" else ""
    return [
        f"{one.what} ({one.unit}{better})",
        one.peer,
        number(one.ours),
        theirs,
        ratio,
        shown,
        where,
    ]


def count(parts: Sequence[Kept]) -> str:
    """How many comparisons are won and lost."""
    found, names = (
        Counter(one.verdict for part in parts for one in part.compared),
        get_args(Verdict),
    )
    return ", ".join(f"{found[name]} {name}" for name in names if found[name])


def state(parts: Sequence[Kept]) -> str:
    """Of which sources the parts are, and what they took."""
    sources = Counter(part.source for part in parts)
    newest, last = max(part.date for part in parts), parts[-1].source
    older = [
        f"{part.name} of source {part.source} ({part.date})"
        for part in parts
        if part.source != last
    ]
    said = (
        f"All of source `{last}`"
        if len(sources) == 1
        else f"Source `{last}`, but for {'; '.join(older)}"
    )
    minutes = sum(part.seconds for part in parts) / 60
    return f"{said}; {newest}, {minutes:.0f} minutes in all. {machine(PACKAGES)}."


def front(parts: Sequence[Kept], failed: Mapping[str, str]) -> str:
    """benchmarks/README.md; of parts that failed, why."""
    rows = []
    # what is learnt, then what it costs
    for part in sorted(parts, key=lambda part: part.name != "bakeoff"):
        file = (
            "BAKEOFF.md"
            if part.name == "bakeoff"
            else f"RESULTS.md#{anchor(title(part))}"
        )
        rows += [row(one, f"[{part.name}]({file})") for one in part.compared]
    without = [
        f"[{part.name}](RESULTS.md#{anchor(title(part))})"
        for part in parts
        if not part.compared
    ]
    others = f"\nParts without a comparison: {', '.join(without)}.\n" if without else ""
    missing = [
        f"\n**Not measured**, for it failed: {name}: {why}\n"
        for name, why in failed.items()
    ]
    by_hand = ", ".join(f"`{name}`" for name in BY_HAND)
    return f"""# Benchmarks: won and lost

{count(parts)}. `make bench` writes this page from the numbers of its parts. {state(parts)}

{table(HEADER, rows).replace("---: |", "--- |", 1)}

*level*: within {NEAR:.0%}. Of several libraries, or ways to use one, the table has the fastest or best. Regret is that of `auto`,
on datasets that it was designed on. *In hindsight*: the other library uses its best configuration for each dataset, which is
unknown in practice.
{others}{"".join(missing)}
Studies without a comparison, run by hand (`python -m benchmarks.NAME`): {by_hand}.
The results for `auto` are on a [separate page](AUTO.md). [Measurements for the mathematics](MATHEMATICS.md) and
[reliability](RELIABILITY.md) have their own pages, too.
"""


def took(part: Kept) -> str:
    """The line under a section's heading."""
    run = f"{part.seconds:,.0f} s on {part.date}, load {part.load:.1f} before it"
    return f"*{part.name}: {run}, source `{part.source}`.*"


def results(parts: Sequence[Kept]) -> str:
    """RESULTS.md."""
    sections = []
    for part in parts:
        heading, _, rest = part.text.partition("\n")
        sections.append(f"{heading}\n\n{took(part)}\n{rest}")
    head = (
        "# Results\n\nThe [first page](README.md) summarises the comparisons that are won and lost. "
        f"{state(parts)}\n"
    )
    return "\n".join([head, *sections])
