"""Standings of a bake-off: mean error, mean rank, significant wins minus losses, time; tables and figures.

Ranked are `auto` and the peers. What is told every answer is a check of the set; an expert of `auto` alone is what
`auto` is compared with to see what following them costs.
"""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import norm, rankdata, studentized_range

from benchmarks.timing import table
from oddsmith.reports.style import COLOURS, panels, pyplot

AUTO = "oddsmith: auto"


class Standings(NamedTuple):
    """Names of configurations and sets, mean errors over shuffles (sets, configurations), rows played of each set."""

    names: list[str]
    sets: list[str]
    errors: Any
    sizes: Any

    def of(self, *names: str) -> "Standings":
        """Only these configurations."""
        places = [self.names.index(name) for name in names]
        return self._replace(names=list(names), errors=self.errors[:, places])


def named(record: dict[str, Any]) -> str:
    return f"{record['library']}: {record['name']}"


def ranked(name: str) -> bool:
    return "told every answer" not in name and "alone: " not in name


def ours(name: str) -> bool:
    return name.startswith("oddsmith")


def gathered(records: list[dict[str, Any]]) -> Standings:
    """Mean errors over the shuffles that were played; every configuration must have played every set."""
    names, sets = sorted({named(r) for r in records}), sorted({r["set"] for r in records})
    sums, counts, sizes = np.zeros((len(sets), len(names))), np.zeros((len(sets), len(names))), np.zeros(len(sets))
    for r in records:
        place = sets.index(r["set"]), names.index(named(r))
        sums[place] += r["error"]
        counts[place] += 1
        sizes[place[0]] = r["steps"]
    if not counts.all():
        row, column = np.argwhere(counts == 0)[0]
        raise SystemExit(f"every configuration must play every set; {names[column]} has no result on {sets[row]}")
    return Standings(names, sets, sums / counts, sizes)


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


def mean_ranks(errors: Any) -> Any:
    return np.array([rankdata(row) for row in errors]).mean(axis=0)


def critical_difference(n_names: int, n_sets: int) -> float:
    """Mean ranks that differ by more are significantly apart at 0.05 (Nemenyi; Demšar 2006)."""
    quantile = studentized_range.ppf(0.95, n_names, np.inf) / np.sqrt(2)
    return float(quantile * np.sqrt(n_names * (n_names + 1) / (6 * n_sets)))


def against_own(records: list[dict[str, Any]]) -> dict[str, float]:
    """By set, auto's error over that of its best expert alone, on the shuffles that all of them played."""
    errors: dict[str, dict[tuple[str, int], float]] = {}
    for r in records:
        if named(r) == AUTO or "alone: " in r["name"]:
            errors.setdefault(named(r), {})[r["set"], r["shuffle"]] = r["error"]
    alone = [found for name, found in errors.items() if name != AUTO]
    if AUTO not in errors or not alone:
        return {}
    shared: dict[str, list[tuple[str, int]]] = {}
    for place in sorted(set(errors[AUTO]).intersection(*alone)):
        shared.setdefault(place[0], []).append(place)
    best = {name: min(float(np.mean([found[p] for p in places])) for found in alone) for name, places in shared.items()}
    return {
        name: float(np.mean([errors[AUTO][p] for p in places]) / max(best[name], 1e-9))
        for name, places in shared.items()
    }


def report(records: list[dict[str, Any]], out: Path | None) -> str:
    """The tables as Markdown; with `out`, also in files there, with figures."""
    everything = gathered(records)
    field = everything.of(*(name for name in everything.names if ranked(name)))
    text = f"{_summary(records, field)}\n{_league(records, field)}\n{_unfinished(records)}"
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        (out / "bakeoff.md").write_text(f"{text}\n{_by_set(everything, field)}\n")
        _draw(field, out)
    return text


def _summary(records: list[dict[str, Any]], field: Standings) -> str:
    """What was asked, in one line each."""
    lines = [f"{len(field.sets)} sets, {len(field.names)} ranked configurations."]
    peers = [name for name in field.names if not ours(name)]
    if AUTO not in field.names or not peers:
        return lines[0] + "\n"
    mine = field.of(AUTO).errors[:, 0]
    for what, group in (("peer", peers), ("Vowpal Wabbit", [p for p in peers if p.startswith("vowpal")])):
        if group:
            errors = field.of(*group).errors
            best = int(errors.mean(axis=0).argmin())
            share = mine.mean() / errors[:, best].mean()
            lines.append(f"* auto's mean error is {share:.3f} times that of the best single {what}, {group[best]}.")
    hindsight = field.of(*peers).errors.min(axis=1)
    ratio = np.mean(mine / np.maximum(hindsight, 1e-9))
    lines.append(f"* Against the best peer of each set in hindsight: mean ratio {ratio:.3f}.")
    if ratios := against_own(records):
        worst, mean = max(ratios, key=lambda name: ratios[name]), np.mean(list(ratios.values()))
        lines.append(f"* Against its own best expert alone: mean {mean:.3f}, worst {ratios[worst]:.3f} ({worst}).")
    net = significant(field.errors, field.sizes)[field.names.index(AUTO)]
    others = [n for n, name in zip(net, field.names, strict=True) if not ours(name)]
    lines.append(f"* Significant wins minus losses against each single peer: {min(others):+d} at least.")
    return "\n".join(lines) + "\n"


def _league(records: list[dict[str, Any]], field: Standings) -> str:
    """The ranked configurations, by mean error."""
    ranks, net = mean_ranks(field.errors), significant(field.errors, field.sizes).sum(axis=1)
    rows = []
    for i in np.argsort(field.errors.mean(axis=0)):
        mine = [r for r in records if named(r) == field.names[i]]
        rows.append(
            [
                field.names[i],
                f"{field.errors[:, i].mean():.4f}",
                f"{ranks[i]:.2f}",
                f"{net[i]:+d}",
                f"{np.median([r['us'] for r in mine]):,.0f}",
                str(len({r["shuffle"] for r in mine})),
                str(sum(not r["finished"] for r in mine) or ""),
            ]
        )
    header = ["configuration", "mean error", "mean rank", "wins − losses", "µs per step", "shuffles", "DNF"]
    return table(header, rows)


def _unfinished(records: list[dict[str, Any]]) -> str:
    """Who did not finish where: charged the error of uniform play there."""
    late = sorted({f"{named(r)} on {r['set']}" for r in records if not r["finished"]})
    return f"\nDid not finish, charged uniform play: {'; '.join(late)}.\n" if late else ""


def _by_set(everything: Standings, field: Standings) -> str:
    """Set by set: ours, each expert of auto alone, and the best peer in hindsight."""
    mine = [name for name in everything.names if ours(name)]
    peers = [name for name in field.names if not ours(name)]
    own, rows = everything.of(*mine).errors, []
    theirs = field.of(*peers).errors if peers else None
    for i, name in enumerate(field.sets):
        best = [] if theirs is None else [f"{theirs[i].min():.3f}", peers[int(theirs[i].argmin())]]
        rows.append([name, f"{int(field.sizes[i]):,}", *(f"{error:.3f}" for error in own[i]), *best])
    return table(["set", "rows", *mine, *([] if theirs is None else ["best peer", "which"])], rows)


def _draw(field: Standings, out: Path) -> None:
    """Mean ranks of the best fifteen with the critical difference; and auto against the best peer, set by set."""
    figure, (left, right) = panels(2, height=6.5, width=6.5)
    ranks = mean_ranks(field.errors)
    order, reach = np.argsort(ranks)[:15][::-1], critical_difference(len(ranks), len(field.sets))
    colours = [COLOURS[0] if ours(field.names[i]) else COLOURS[1] for i in order]
    left.scatter(ranks[order], range(len(order)), c=colours, zorder=3)
    left.hlines(range(len(order)), ranks[order], ranks[order] + reach, colors=colours, lw=2, alpha=0.6)
    left.axvline(ranks[order[-1]] + reach, color="grey", lw=1, ls=":")
    left.set(
        yticks=range(len(order)),
        yticklabels=[field.names[i] for i in order],
        xlabel=f"mean rank (1 is best); bars: critical difference {reach:.1f} (Nemenyi, 0.05)",
    )
    means = field.errors.mean(axis=0)
    first = min((i for i in range(len(means)) if ours(field.names[i])), key=lambda i: means[i], default=0)
    peer = min((i for i in range(len(means)) if not ours(field.names[i])), key=lambda i: means[i], default=first)
    right.plot([0, 1], [0, 1], color="grey", lw=1)
    right.scatter(field.errors[:, peer], field.errors[:, first], color=COLOURS[0])
    for i, name in enumerate(field.sets):
        if abs(field.errors[i, peer] - field.errors[i, first]) > 0.06:
            right.annotate(
                name,
                (field.errors[i, peer], field.errors[i, first]),
                fontsize=7,
                xytext=(4, -3),
                textcoords="offset points",
            )
    right.set(
        xlabel=f"error of {field.names[peer]}",
        ylabel=f"error of {field.names[first]}",
        title="below the line: ours is better",
    )
    figure.savefig(out / "bakeoff.png", dpi=130)
    pyplot().close(figure)
