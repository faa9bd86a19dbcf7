"""Standings as text: a summary of a family, its league, and set by set."""

import numpy as np

from benchmarks.standings import AUTO, Field, answers, hindsight, median_us, net
from benchmarks.timing import table

AIMS = {"labels": 0.86, "clicks": 0.88}
"""What auto's regret should be, at most, of the best single peer's."""
VOWPAL_AIMS = {"labels": 0.64, "rows": 0.52, "groups": 0.92, "routing": 0.88}
"""The same, of the best single Vowpal Wabbit's."""


def summary(field: Field) -> str:
    """What was asked, in one line each."""
    shuffles = sorted({i for runs in field.runs.values() for _, i in runs})
    lines = [
        (
            f"{len(field.sets)} sets, {len(field.complete)} configurations, "
            f"{len(shuffles)} shuffles."
        ),
        "",
    ]
    if missing := sorted(set(field.runs) - set(field.complete)):
        lines += [
            f"Excluded because they have not played all datasets: {', '.join(missing)}.",
            "",
        ]
    if (found := answers(field)) is None:
        return "\n".join(lines)
    aim, vowpal_aim = aimed(field, AIMS), aimed(field, VOWPAL_AIMS)
    lines.append(
        f"* auto's regret is {found.ratio:.3f} times that of the best single peer, "
        f"{found.peer}{aim}."
    )
    if found.vowpal:
        lines.append(
            f"* Ratio to the best single configuration of Vowpal Wabbit, {found.vowpal}: "
            f"{found.vowpal_ratio:.3f}{vowpal_aim}."
        )
    lines += [
        (
            "* Ratio to the best configuration for each dataset in hindsight, geometric mean: "
            f"{found.in_hindsight:.3f}."
        ),
        (
            f"* Significant wins minus losses: {found.net:+d} against the best single "
            f"peer, {found.least_net:+d} at least."
        ),
        (
            "* Datasets of 1,000 rounds or more on which it is significantly worse than "
            f"1.10 times the best single peer: {len(found.worse)} of "
            f"{found.many}{' (' if found.worse else ''}{', '.join(found.worse)}"
            f"{')' if found.worse else ''}."
        ),
    ]
    if found.own:
        mean, worst = np.mean(list(found.own.values())), found.own_worst
        lines.append(
            f"* Ratio to its best expert alone: mean {mean:.3f}, worst "
            f"{found.own[worst]:.3f} ({worst})."
        )
    if field.own and field.family == "worlds":
        lines.append(captured(field))
    us = (
        f"auto {median_us(field, AUTO):,.0f}, {found.peer} "
        f"{median_us(field, found.peer):,.0f}"
    )
    return "\n".join([*lines, f"* µs a step: {us}."]) + "\n"


def aimed(field: Field, aims: dict[str, float]) -> str:
    return f" (aim: {aims[field.family]:g})" if field.family in aims else ""


def captured(field: Field) -> str:
    """What auto captures of what there is to win, next to the best of our own policies
    and of the peers, in each."""
    mine = 1 - field.values(AUTO)
    own = 1 - np.min([field.values(name) for name in field.own], axis=0)
    theirs = 1 - np.min([field.values(name) for name in field.peers], axis=0)
    behind, ahead = int((own - mine > 0.02).sum()), int((mine > theirs).sum())
    return (
        f"* Captured share of the possible gain: auto {mine.mean():.3f}; the best of our "
        f"own policies in each world {own.mean():.3f} (auto is more than 0.02 behind "
        f"in {behind} of {len(mine)}, by {(own - mine).max():.3f} at most); the best "
        f"peer in each {theirs.mean():.3f} (auto is ahead in {ahead})."
    )


def league(field: Field) -> str:
    """All configurations that played every set, best first."""
    rows = []
    for name in field.complete:
        runs, values = list(field.runs[name].values()), field.values(name)
        shown = [name, f"{field.mean(values):.4f}", ""]
        if AUTO in field.complete and name != AUTO:
            shown[2:] = [f"{field.ratio(AUTO, name):.3f}", f"{net(field, name):+d}"]
        else:
            shown.append("")
        late = sum(not r["finished"] for r in runs)
        shown += [
            f"{median_us(field, name):,.0f}",
            str(len({r["shuffle"] for r in runs})),
            str(late or ""),
        ]
        rows.append(shown)
    what = {"labels": "error", "worlds": "regret ÷ uniform play's"}.get(
        field.family, "regret a round"
    )
    return table(
        [
            "configuration",
            what,
            "auto ÷ it",
            "auto's wins − losses",
            "µs a step",
            "shuffles",
            "DNF",
        ],
        rows,
    )


def unfinished(field: Field) -> str:
    """Who did not finish where: charged the regret of uniform play there."""
    late: dict[str, set[str]] = {}
    for name, runs in field.runs.items():
        for (place, _), record in runs.items():
            if not record["finished"]:
                late.setdefault(name, set()).add(place)
    if not late:
        return ""
    return (
        "\nDid not finish, and therefore have the regret of uniform choice: "
        + "; ".join(
            f"{name} on {', '.join(sorted(places))}"
            for name, places in sorted(late.items())
        )
        + ".\n"
    )


def by_set(field: Field) -> str:
    """Set by set: ours, uniform play, the best single peer and the best one there, with
    auto's ratios."""
    if not field.peers or AUTO not in field.complete:
        return ""
    mine, single = [AUTO, *sorted(field.own)], field.pair(AUTO, field.peers[0])
    values, (ratios, which), rows = (
        [field.values(name) for name in mine],
        hindsight(field),
        [],
    )
    for i, name in enumerate(field.sets):
        steps = next(r["steps"] for (s, _), r in field.runs[AUTO].items() if s == name)
        shown = [f"{v[i]:.4f}" for v in values]
        against = [
            f"{single.mine[i] / max(single.theirs[i], 1e-9):.3f}",
            f"{ratios[i]:.3f}",
        ]
        rows.append(
            [name, f"{steps:,}", *shown, f"{single.theirs[i]:.4f}", *against, which[i]]
        )
    header = ["set", "rounds", *(name.removeprefix("oddsmith: ") for name in mine)]
    header += ["best single peer", "auto ÷ single", "auto ÷ best there", "which"]
    return f"\n### {field.title}: set by set\n\n{table(header, rows)}\n"
