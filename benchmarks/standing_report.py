"""Standings as reports: the tables of a family as Markdown and as a page, and a picture
of all families."""

from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.standing_tables import AIMS, aimed, by_set, league, summary, unfinished
from benchmarks.standings import AUTO, Field, answers, fields
from oddsmith.files.reports import Figure, Section, Table, write
from oddsmith.files.reports.style import (
    COLOURS,
    EDGE,
    INK,
    SOFT,
    legend,
    panels,
    plain,
    svg,
)


def report(records: list[dict[str, Any]], out: Path | None) -> str:
    """The summary and the league of each field; with `out`, files there with the sets,
    too: .md, .html and .svg."""
    found = fields(records)
    text = "\n".join(
        f"## {field.title}\n\n{summary(field)}\n{league(field)}\n{unfinished(field)}"
        for field in found
    )
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        family = found[0].family
        by_set_too = "\n".join(by_set(field) for field in found)
        (out / f"{family}.md").write_text(f"{text}\n{by_set_too}\n")
        page(found, out / f"{family}.html")
        draw(found, out / f"{family}.svg")
    return text


def page(found: list[Field], path: Path) -> None:
    """Write a page: how auto compares, the picture, the leagues, and behind them every
    set."""
    drawn = picture(found)
    sections = [Section("Set by set", figures=(drawn,))] if drawn else []
    for field in found:
        said = "\n\n".join(
            line.removeprefix("* ") for line in summary(field).splitlines() if line
        )
        sections.append(
            Section(
                field.title,
                said,
                tables=(as_table(league(field), f"League: {field.title}"),),
            )
        )
    for field in found:
        if rows := by_set(field):
            name = f"Every set: {field.title}"
            sections.append(
                Section(
                    name,
                    unfinished(field).strip(),
                    tables=(as_table(rows, name),),
                    folded=True,
                )
            )
    write(path, "Bake-off", verdict(found), sections)


def verdict(found: list[Field]) -> str:
    """Where auto loses less than the best single peer."""
    ratios = {
        field.title: (one, aimed(field, AIMS))
        for field in found
        if (one := answers(field)) is not None
    }
    if not ratios:
        return "auto or all peers have not played every set: nothing can be said."
    if len(ratios) > 1:
        less = sum(one.ratio < 1 for one, _ in ratios.values())
        return (
            f"auto loses less than the best single peer in {less} of {len(ratios)} "
            "families."
        )
    ((title, (one, aim)),) = ratios.items()
    return (
        f"{title}: auto's regret is {one.ratio:.3f} times that of the best single "
        f"peer, {one.peer}{aim}."
    )


def as_table(text: str, caption: str) -> Table:
    """The table of a page, from one in Markdown."""
    lines = [line[2:-2].split(" | ") for line in text.splitlines() if line[:1] == "|"]
    header, _, *rows = map(tuple, lines)
    return Table(header, tuple(rows), caption)


def draw(found: list[Field], path: Path) -> None:
    """Write the picture, if there is one."""
    if (drawn := picture(found)) is not None:
        path.write_text(drawn.file(), encoding="utf-8")


_MARKS: tuple[dict[str, Any], ...] = (
    {"color": COLOURS[0], "marker": "o", "ms": 4.5, "alpha": 0.7},
    {"color": COLOURS[1], "marker": "X", "ms": 6},
)


def picture(found: list[Field]) -> Figure | None:
    """A dot for each set: auto's regret over the best single peer's; a bar where the
    mean is, dashes for the aim."""
    shown = [field for field in found if field.peers and AUTO in field.complete]
    if not shown:
        return None
    figure, (panel,) = panels(height=1.2 + 0.6 * len(shown))
    for row, field in enumerate(reversed(shown)):
        pair = field.pair(AUTO, field.peers[0])
        ratios = np.clip(pair.mine / np.maximum(pair.theirs, 1e-9), 0.05, 20)
        places = row + 0.5 * (np.random.default_rng(0).random(len(ratios)) - 0.5)
        bad = pair.wins(1.10) < 0
        panel.plot(
            ratios[~bad],
            places[~bad],
            ls="none",
            label="" if row else "a set",
            **_MARKS[0],
        )
        panel.plot(
            ratios[bad],
            places[bad],
            ls="none",
            label="" if row else "significantly over 1.10",
            **_MARKS[1],
        )
        ends = row - 0.35, row + 0.35
        panel.vlines(
            field.ratio(AUTO, field.peers[0]),
            *ends,
            color=INK,
            lw=2,
            label="" if row else "all sets",
        )
        if field.family in AIMS:
            panel.vlines(AIMS[field.family], *ends, color=SOFT, lw=1, ls="--")
    panel.plot([], [], color=SOFT, lw=1, ls="--", label="the aim")
    panel.axvline(1.0, color=EDGE, lw=1)
    labels = [
        f"{field.title}\n{plain(field.peers[0], 24)}" for field in reversed(shown)
    ]
    panel.set(yticks=range(len(shown)), yticklabels=labels, xscale="log")
    panel.set_xlabel("auto's regret ÷ the peer's: left of 1, auto is better")
    legend(panel)
    caption = (
        "Each set, and all of a family: auto's regret over that of the one peer that "
        "is the best on average."
    )
    return Figure(svg(figure), caption)
