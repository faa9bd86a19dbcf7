"""reproduce: the paper's claims, run as experiments, as one report; finished
experiments are kept."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from oddsmith.claims import EXPERIMENTS
from oddsmith.claims.claim import Claim, Outcome, Rule, Setup
from oddsmith.claims.report import report
from oddsmith.core.errors import InvalidInput
from oddsmith.core.names import hint
from oddsmith.files import disk
from oddsmith.files.fingerprint import source_digest
from oddsmith.files.reports.page import Figure, Table
from oddsmith.logs.engines import each
from oddsmith.logs.progress import progress

__all__ = ["broken", "chosen", "reproduce"]


def reproduce(
    out: Path | str,
    names: Sequence[str] = (),
    *,
    quick: bool = False,
    engine: str = "local",
    workers: int | None = None,
) -> dict[str, Outcome]:
    """Run the experiments of these names (all if none), write out/index.html, and give
    back what was found.

    A finished experiment is kept in out/experiments under a hash of its name, its size
    and the library's source, so that a run that was stopped goes on where it was, and a
    changed library starts anew.
    """
    experiments = chosen(names)
    folder = Path(out) / "experiments"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInput(
            f"out must be a folder that can be written to; {error}"
        ) from error
    stamp = _stamp(quick)
    paths = {name: folder / f"{name}-{stamp}.json" for name in experiments}
    found = {
        name: outcome
        for name, path in paths.items()
        if (outcome := _finished(path)) is not None
    }
    missing = [name for name in experiments if name not in found]
    results = each(
        _run, [(name, quick, "") for name in missing], engine=engine, workers=workers
    )
    for place, outcome in progress(results, len(missing), "experiments"):
        found[missing[place]] = outcome
        disk.write(paths[missing[place]], json.dumps(asdict(outcome)).encode())
    ordered = {name: found[name] for name in experiments}
    report(Path(out) / "index.html", ordered, quick=quick)
    return ordered


def broken(
    names: Sequence[str] = (),
    *,
    quick: bool = True,
    engine: str = "local",
    workers: int | None = None,
) -> dict[tuple[str, str], list[str]]:
    """Of each experiment and each thing done wrong in it, the statements that were
    rejected: the claims' power."""
    tasks = [
        (name, quick, wrong.name)
        for name in chosen(names)
        for wrong in EXPERIMENTS[name].breaks
    ]
    results = each(_run, tasks, engine=engine, workers=workers)
    rejected: dict[tuple[str, str], list[str]] = {
        (name, wrong): [] for name, _, wrong in tasks
    }
    for place, outcome in progress(results, len(tasks), "broken variants"):
        name, _, wrong = tasks[place]
        rejected[name, wrong] = list(
            dict.fromkeys(c.rule.statement for c in outcome.claims if not c.holds)
        )
    return rejected


def chosen(names: Sequence[str]) -> list[str]:
    """The experiments of these names or families, all if there are none."""
    if unknown := [
        name
        for name in names
        if not any(_is_named(known, name) for known in EXPERIMENTS)
    ]:
        meant = hint(unknown[0], EXPERIMENTS)
        raise InvalidInput(
            f"experiments must be of {', '.join(EXPERIMENTS)}; got "
            f"{unknown[0]!r}{meant}"
        )
    return [
        known
        for known in EXPERIMENTS
        if not names or any(_is_named(known, name) for name in names)
    ]


def _is_named(experiment: str, name: str) -> bool:
    """Whether an experiment is the one of that name; where there is none, gallery is
    all that begin with gallery-."""
    return experiment == name or (
        name not in EXPERIMENTS and experiment.startswith(f"{name}-")
    )


def _run(task: tuple[str, bool, str]) -> Outcome:
    name, quick, wrong = task
    experiment = EXPERIMENTS[name]
    if not wrong:
        return experiment(Setup(quick))
    return experiment.broken(
        Setup(quick), next(one for one in experiment.breaks if one.name == wrong)
    )


def _stamp(quick: bool) -> str:
    """The size, and a hash of the library's source."""
    return f"{'quick' if quick else 'full'}-{source_digest()[:16]}"


def _finished(path: Path) -> Outcome | None:
    """What an earlier run found, if it is there and whole."""
    try:
        kept: Any = json.loads(path.read_text(encoding="utf-8"))
        claims = tuple(
            Claim(**(claim | {"rule": Rule(**claim["rule"])}))
            for claim in kept["claims"]
        )
        figures = tuple(Figure(**figure) for figure in kept["figures"])
        tables = tuple(
            Table(
                tuple(t["headers"]),
                tuple(tuple(row) for row in t["rows"]),
                t["caption"],
            )
            for t in kept["tables"]
        )
        return Outcome(kept["title"], kept["text"], claims, figures, tables)
    except (OSError, ValueError, KeyError, TypeError):
        return None
