"""reproduce: the paper's claims, run as experiments, as one report; finished experiments are kept."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import oddsmith
from oddsmith import disk
from oddsmith.engines import each
from oddsmith.errors import InvalidInput
from oddsmith.fingerprint import source_digest
from oddsmith.lab.claims import EXPERIMENTS
from oddsmith.lab.claims.base import Claim, Outcome, Sizes
from oddsmith.progress import progress
from oddsmith.reports.page import Figure, Section, Table, write
from oddsmith.reports.style import COLOURS, legend, panels, svg
from oddsmith.spelling import hint

__all__ = ["report", "reproduce", "verdict"]

_HEADERS = ("claim", "where", "predicted", "measured (± standard error)", "holds?")
_CAPTION = "What was claimed, and what was measured"


def reproduce(
    out: Path | str,
    names: Sequence[str] = (),
    *,
    quick: bool = False,
    engine: str = "local",
    workers: int | None = None,
) -> dict[str, Outcome]:
    """Run the experiments of these names (all if none), write out/index.html, and give back what was found.

    A finished experiment is kept in out/experiments under a hash of its name, its size and the library's source, so
    that a run that was stopped goes on where it was, and a changed library starts anew.
    """
    if unknown := [name for name in names if not any(_is_named(known, name) for known in EXPERIMENTS)]:
        meant = hint(unknown[0], EXPERIMENTS)
        raise InvalidInput(f"experiments must be of {', '.join(EXPERIMENTS)}; got {unknown[0]!r}{meant}")
    chosen = [known for known in EXPERIMENTS if not names or any(_is_named(known, name) for name in names)]
    folder = Path(out) / "experiments"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInput(f"out must be a folder that can be written to; {error}") from error
    stamp = _stamp(quick)
    paths = {name: folder / f"{name}-{stamp}.json" for name in chosen}
    found = {name: outcome for name, path in paths.items() if (outcome := _finished(path)) is not None}
    missing = [name for name in chosen if name not in found]
    results = each(_run, [(name, quick) for name in missing], engine=engine, workers=workers)
    for place, outcome in progress(results, len(missing), "experiments"):
        found[missing[place]] = outcome
        disk.write(paths[missing[place]], json.dumps(asdict(outcome)).encode())
    ordered = {name: found[name] for name in chosen}
    report(Path(out) / "index.html", ordered, quick=quick)
    return ordered


def _is_named(experiment: str, name: str) -> bool:
    """Whether an experiment is the one of that name, or of that family: gallery is all that begin with gallery-."""
    return experiment == name or experiment.startswith(f"{name}-")


def verdict(outcomes: dict[str, Outcome]) -> str:
    """How many claims hold, and the first that does not, in one sentence."""
    claims = [(name, claim) for name, outcome in outcomes.items() for claim in outcome.claims]
    failing = [(name, claim) for name, claim in claims if not claim.holds]
    if not failing:
        return (
            f"All {len(claims)} claims of {len(outcomes)} {'experiment' if len(outcomes) == 1 else 'experiments'} hold."
        )
    (name, claim), more = failing[0], " and others" if len(failing) > 1 else ""
    why = f"{claim.what} (predicted {claim.predicted}, measured {claim.measured})"
    return f"{len(failing)} of {len(claims)} claims do not hold: in {name}, {why}{more}."


def report(path: Path, outcomes: dict[str, Outcome], *, quick: bool) -> Path:
    """Write the page: one table of all claims, then each experiment with its claims and figures."""
    size = "A quick look: shorter horizons and fewer runs. " if quick else ""
    told = (
        f"{size}Generalized Thompson Sampling (Lihong Li, 2013): each claim of the paper, and "
        f"each sharper one of the library's mathematics, as an experiment with known truth. Regret is exact, not "
        f"estimated.\n\noddsmith {oddsmith.__version__}"
    )
    summary = Section("At a glance", tables=(_summary(outcomes),), figures=(_picture(outcomes),))
    sections = [
        Section(
            outcome.title,
            outcome.text,
            tables=(*outcome.tables, Table(_HEADERS, tuple(_row(c) for c in outcome.claims), _CAPTION)),
            figures=outcome.figures,
        )
        for outcome in outcomes.values()
    ]
    details = Section("Details", told, folded=True)
    return write(path, "The paper's claims, measured", verdict(outcomes), [summary, *sections, details])


def _picture(outcomes: dict[str, Outcome]) -> Figure:
    """A mark for each claim, a line for each experiment."""
    drawing, (panel,) = panels(height=0.8 + 0.24 * len(outcomes))
    styles: dict[bool, Any] = {
        True: {"color": COLOURS[2], "marker": "o", "ms": 5, "label": "holds"},
        False: {"color": COLOURS[1], "marker": "X", "ms": 9, "label": "does not hold"},
    }
    for held, style in styles.items():
        places = [
            (x, y)
            for y, outcome in enumerate(outcomes.values())
            for x, claim in enumerate(outcome.claims, 1)
            if claim.holds is held
        ]
        if places:
            panel.plot(*zip(*places, strict=True), ls="none", **style)
    panel.set_yticks(range(len(outcomes)), list(outcomes))
    panel.set(ylim=(len(outcomes) - 0.5, -0.5), xlim=(0, None), xlabel="claims of each experiment")
    panel.grid(visible=False, axis="x")
    legend(panel)
    return Figure(svg(drawing), "A mark for each claim: a round one holds, a cross does not.")


def _summary(outcomes: dict[str, Outcome]) -> Table:
    rows = []
    for name, outcome in outcomes.items():
        held = sum(claim.holds for claim in outcome.claims)
        answer = "yes" if held == len(outcome.claims) else "no"
        rows.append((outcome.title, name, f"{held} of {len(outcome.claims)}", answer))
    headers = ("experiment", "name for the command line", "claims that hold", "holds?")
    return Table(headers, tuple(rows), "How many claims of each experiment hold")


def _row(claim: Claim) -> tuple[str, ...]:
    return claim.what, claim.where, claim.predicted, claim.measured, "yes" if claim.holds else "no"


def _run(task: tuple[str, bool]) -> Outcome:
    name, quick = task
    return EXPERIMENTS[name](Sizes(quick))


def _stamp(quick: bool) -> str:
    """The size, and a hash of the library's source."""
    return f"{'quick' if quick else 'full'}-{source_digest()[:16]}"


def _finished(path: Path) -> Outcome | None:
    """What an earlier run found, if it is there and whole."""
    try:
        kept: Any = json.loads(path.read_text(encoding="utf-8"))
        claims = tuple(Claim(**claim) for claim in kept["claims"])
        figures = tuple(Figure(**figure) for figure in kept["figures"])
        tables = tuple(
            Table(tuple(t["headers"]), tuple(tuple(row) for row in t["rows"]), t["caption"]) for t in kept["tables"]
        )
        return Outcome(kept["title"], kept["text"], claims, figures, tables)
    except (OSError, ValueError, KeyError, TypeError):
        return None
