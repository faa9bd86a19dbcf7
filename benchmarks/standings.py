"""Standings of a bake-off: mean error, mean rank, significant wins minus losses, time; a table and figures."""

from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import norm, rankdata

from benchmarks.timing import table
from oddsmith.reports.style import COLOURS, panels, pyplot

UNRANKED = "told every answer"


def report(records: list[dict[str, Any]], out: Path | None) -> str:
    """The table as Markdown; figures and a table by set in `out`, if given."""
    names = sorted({f"{r['library']}: {r['name']}" for r in records if r["name"] != UNRANKED})
    sets = sorted({r["set"] for r in records})
    errors, sizes = _errors(records, names, sets), _sizes(records, sets)
    ranks = np.array([rankdata(row) for row in errors]).mean(axis=0)
    times = [np.median([r["us"] for r in records if f"{r['library']}: {r['name']}" == name]) for name in names]
    unfinished = [sum(not r["finished"] for r in records if f"{r['library']}: {r['name']}" == name) for name in names]
    net = significant(errors, sizes).sum(axis=1)
    order = np.argsort(errors.mean(axis=0))
    rows = [
        [
            names[i],
            f"{errors[:, i].mean():.4f}",
            f"{ranks[i]:.2f}",
            f"{net[i]:+d}",
            f"{times[i]:,.0f}",
            str(unfinished[i] or ""),
        ]
        for i in order
    ]
    header = ["configuration", "mean error", "mean rank", "wins − losses", "µs per step", "DNF"]
    text = f"{len(sets)} sets, {len(records):,} cells.\n\n{table(header, rows)}\n"
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        by_set = table(["set", *names], [[s, *(f"{e:.3f}" for e in row)] for s, row in zip(sets, errors, strict=True)])
        (out / "bakeoff.md").write_text(f"{text}\n{by_set}\n")
        _draw(names, errors, ranks, out)
    return text


def _errors(records: list[dict[str, Any]], names: list[str], sets: list[str]) -> Any:
    """Mean error over shuffles (sets, configurations); every cell must be there."""
    sums, counts = np.zeros((len(sets), len(names))), np.zeros((len(sets), len(names)))
    for r in records:
        if r["name"] != UNRANKED:
            place = sets.index(r["set"]), names.index(f"{r['library']}: {r['name']}")
            sums[place] += r["error"]
            counts[place] += 1
    return sums / counts


def _sizes(records: list[dict[str, Any]], sets: list[str]) -> Any:
    """Rows of each set that were played."""
    return np.array([next(r["steps"] for r in records if r["set"] == name) for name in sets])


def significant(errors: Any, sizes: Any) -> Any:
    """Over sets, significant wins minus losses of i against j (configurations, configurations), as whole numbers.

    As in the study of Bietti, Agarwal and Langford: i wins on a set if a one-sided z-test of its progressive error
    against j's is significant at 0.05, with the binomial variances of both.
    """
    spread = errors * (1 - errors) / np.maximum(sizes - 1, 1)[:, None]
    scale = np.sqrt(np.maximum(spread[:, :, None] + spread[:, None, :], 1e-300))
    z = (errors[:, None, :] - errors[:, :, None]) / scale
    wins = norm.sf(z) < 0.05
    return wins.sum(axis=0).astype(int) - wins.sum(axis=0).T.astype(int)


def _draw(names: list[str], errors: Any, ranks: Any, out: Path) -> None:
    """Mean ranks of the best twenty; and the best of ours against the best peer, set by set."""
    figure, (left, right) = panels(2, height=6.5, width=6.5)
    order = np.argsort(ranks)[:20][::-1]
    mine = [name.startswith("oddsmith") for name in names]
    left.barh(range(len(order)), ranks[order], color=[COLOURS[0] if mine[i] else COLOURS[1] for i in order])
    left.set(yticks=range(len(order)), yticklabels=[names[i] for i in order], xlabel="mean rank over sets (1 is best)")
    first = min((i for i in range(len(names)) if mine[i]), key=lambda i: errors[:, i].mean())
    peer = min((i for i in range(len(names)) if not mine[i]), key=lambda i: errors[:, i].mean(), default=first)
    right.plot([0, 1], [0, 1], color="grey", lw=1)
    right.scatter(errors[:, peer], errors[:, first], color=COLOURS[0])
    right.set(
        xlabel=f"error of {names[peer]}", ylabel=f"error of {names[first]}", title="below the line: ours is better"
    )
    figure.savefig(out / "bakeoff.png", dpi=130)
    pyplot().close(figure)
