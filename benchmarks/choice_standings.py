"""Standings of choices among items with features: regret against Vowpal Wabbit's configurations, tables and a figure.

Regrets are compared by ratio, set by set, and ratios averaged geometrically. The best single configuration is the one
with the least geometric mean of regret over the sets; in hindsight, each set has a best one of its own.
"""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.standings import named
from benchmarks.timing import table
from oddsmith.reports.style import COLOURS, panels, pyplot

AUTO, UNIFORM, PEER = "oddsmith: auto", "uniform play", "vowpalwabbit"
ASKED = {"rows": 0.62, "groups": 1.0, "routing": 0.95}


class Regrets(NamedTuple):
    """Names of configurations and sets, and mean regrets over shuffles (sets, configurations), in each round."""

    family: str
    names: list[str]
    sets: list[str]
    values: Any

    def of(self, name: str) -> Any:
        """Those of one configuration (sets)."""
        return self.values[:, self.names.index(name)]

    @property
    def peers(self) -> list[str]:
        """Vowpal Wabbit's configurations, the best single one first."""
        found = [name for name in self.names if name.startswith(PEER)]
        return sorted(found, key=lambda name: mean_log(self.of(name)))


def mean_log(values: Any) -> float:
    """The logarithm of the geometric mean; a regret of 0 counts as a thousandth of a reward each round."""
    return float(np.log(np.maximum(values, 1e-3)).mean())


def ratio(mine: Any, other: Any) -> float:
    return float(np.exp(mean_log(mine) - mean_log(other)))


def gathered(records: list[dict[str, Any]]) -> Regrets:
    """Mean regrets over the shuffles that all of them played, with uniform play as one more configuration."""
    found: dict[tuple[str, str], dict[int, float]] = {}
    for r in records:
        found.setdefault((r["set"], named(r)), {})[r["shuffle"]] = r["regret"] / r["steps"]
        found.setdefault((r["set"], UNIFORM), {})[r["shuffle"]] = r["uniform"] / r["steps"]
    sets, names = sorted({s for s, _ in found}), sorted({name for _, name in found})
    shared = {s: set.intersection(*(set(found.get((s, name), ())) for name in names)) for s in sets}
    if lacking := [s for s in sets if not shared[s]]:
        raise SystemExit(
            f"every configuration must play every set; there is no shuffle of {lacking[0]} that all played"
        )
    values = np.array([[np.mean([found[s, name][i] for i in shared[s]]) for name in names] for s in sets])
    return Regrets(records[0]["family"], names, sets, values)


def report(records: list[dict[str, Any]], out: Path | None) -> str:
    """The tables as Markdown; with `out`, also in files there, with a figure."""
    field = gathered(records)
    text = "\n".join([_summary(field), _league(records, field), "", _by_set(field), _unfinished(records)])
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        (out / f"choices_{field.family}.md").write_text(text)
        if field.peers and AUTO in field.names:
            _draw(field, out)
    return text


def _summary(field: Regrets) -> str:
    """What was asked, in one line each."""
    lines = [f"{field.family}: {len(field.sets)} sets, {len(field.names) - 1} configurations.", ""]
    if AUTO in field.names and field.peers:
        mine, best = field.of(AUTO), field.peers[0]
        lines += [
            f"* auto's regret is {ratio(mine, field.of(best)):.3f} times that of the best single Vowpal Wabbit, {best} "
            f"(asked: {ASKED[field.family]:g} at most).",
            f"* Against the best Vowpal Wabbit of each set in hindsight: {ratio(mine, _hindsight(field)[0]):.3f}.",
            f"* Against uniform play: {ratio(mine, field.of(UNIFORM)):.3f}.",
        ]
    return "\n".join(lines) + "\n"


def _hindsight(field: Regrets) -> tuple[Any, list[str]]:
    """For each set the regret of the best of Vowpal Wabbit's configurations there, and its name."""
    table_of = np.stack([field.of(name) for name in field.peers], axis=1)
    return table_of.min(axis=1), [field.peers[k] for k in table_of.argmin(axis=1)]


def _league(records: list[dict[str, Any]], field: Regrets) -> str:
    """All configurations, by the geometric mean of their regret."""
    mine, rows = field.of(AUTO) if AUTO in field.names else None, []
    for name in sorted(field.names, key=lambda name: mean_log(field.of(name))):
        own = [r for r in records if named(r) == name]
        rows.append(
            [
                name,
                f"{np.exp(mean_log(field.of(name))):.4f}",
                "" if mine is None else f"{ratio(mine, field.of(name)):.3f}",
                "" if mine is None else f"{int((mine < field.of(name)).sum())} : {int((mine > field.of(name)).sum())}",
                f"{np.median([r['us'] for r in own]):,.0f}" if own else "",
                str(len({r["shuffle"] for r in own}) or ""),
            ]
        )
    header = ["configuration", "regret a round", "auto's ÷ it", "sets auto wins : loses", "µs a round", "shuffles"]
    return table(header, rows)


def _by_set(field: Regrets) -> str:
    """Set by set: ours, uniform play, the best single Vowpal Wabbit and the best one there, with auto's ratios."""
    if not field.peers:
        return ""
    mine = [name for name in field.names if name.startswith("oddsmith")]
    (least, which), single = _hindsight(field), field.of(field.peers[0])
    rows = []
    for i, name in enumerate(field.sets):
        shown = [*(field.of(other)[i] for other in mine), field.of(UNIFORM)[i], single[i], least[i]]
        against = [field.of(AUTO)[i] / max(other, 1e-3) if AUTO in mine else np.nan for other in (single[i], least[i])]
        rows.append([name, *(f"{v:.4f}" for v in shown), *(f"{v:.3f}" for v in against), which[i].split(": ", 1)[1]])
    header = ["set", *mine, UNIFORM, "best single VW", "best VW there", "auto ÷ single", "auto ÷ there", "which"]
    return table(header, rows)


def _unfinished(records: list[dict[str, Any]]) -> str:
    late = sorted({f"{named(r)} on {r['set']}" for r in records if not r["finished"]})
    return f"\nDid not finish, charged uniform play: {'; '.join(late)}.\n" if late else ""


def _draw(field: Regrets, out: Path) -> None:
    """A dot for each set: auto's regret over that of the best single Vowpal Wabbit, and of the best one there."""
    figure, (panel,) = panels(1, height=1.2 + 0.3 * len(field.sets), width=7.0)
    rows = np.arange(len(field.sets))
    for i, (label, other) in enumerate(
        [("the best single one", field.of(field.peers[0])), ("the best one of each set", _hindsight(field)[0])]
    ):
        panel.scatter(field.of(AUTO) / np.maximum(other, 1e-3), rows, color=COLOURS[i], marker="os"[i], label=label)
    panel.axvline(1.0, color="grey", lw=1)
    panel.axvline(ASKED[field.family], color="grey", lw=1, ls="--")
    panel.set(yticks=rows, yticklabels=field.sets, xscale="log", title=f"{field.family}: left of 1, auto is better")
    panel.set_xlabel("auto's regret over Vowpal Wabbit's")
    panel.xaxis.set_major_formatter("{x:g}")
    panel.xaxis.set_minor_formatter("{x:.1g}")
    panel.legend(fontsize=8)
    figure.savefig(out / f"choices_{field.family}.png", dpi=130)
    pyplot().close(figure)
