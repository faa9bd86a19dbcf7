"""Run the paper's claims as experiments and write one report. Results of finished
experiments are saved, so that an interrupted run can continue."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

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

__all__ = ["experiment_names", "rejected_statements", "reproduce"]


def reproduce(
    out: Path | str,
    names: Sequence[str] = (),
    *,
    quick: bool = False,
    engine: str = "local",
    workers: int | None = None,
) -> dict[str, Outcome]:
    """Run the named experiments (all if `names` is empty), write out/index.html, and
    return the outcomes.

    The result of each finished experiment is saved in out/experiments, under a hash of
    its name, its size and the library's source. An interrupted run continues where it
    stopped; after a change of the library everything runs again.
    """
    experiments = experiment_names(names)
    folder = Path(out) / "experiments"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInput(f"out must be a writable folder; {error}") from error
    size = "full"
    if quick:
        size = "quick"
    stamp = f"{size}-{source_digest()[:16]}"
    paths = {}
    for name in experiments:
        paths[name] = folder / f"{name}-{stamp}.json"
    found = {}
    for name, path in paths.items():
        outcome = _finished(path)
        if outcome is not None:
            found[name] = outcome
    missing = [name for name in experiments if name not in found]
    tasks = [_Task(name, quick) for name in missing]
    results = each(_run, tasks, engine=engine, workers=workers)
    for place, outcome in progress(results, len(missing), "experiments"):
        name = missing[place]
        found[name] = outcome
        text = json.dumps(asdict(outcome))
        disk.write(paths[name], text.encode())
    ordered = {name: found[name] for name in experiments}
    report(Path(out) / "index.html", ordered, quick=quick)
    return ordered


def rejected_statements(
    names: Sequence[str] = (),
    *,
    quick: bool = True,
    engine: str = "local",
    workers: int | None = None,
) -> dict[tuple[str, str], list[str]]:
    """Return the statements that are rejected under each deliberate error, by
    experiment and error. This measures the power of the claims."""
    tasks = []
    for name in experiment_names(names):
        for wrong in EXPERIMENTS[name].breaks:
            tasks.append(_Task(name, quick, wrong.name))
    results = each(_run, tasks, engine=engine, workers=workers)
    found: dict[int, list[str]] = {}
    for place, outcome in progress(results, len(tasks), "broken variants"):
        rejected = []
        for one in outcome.claims:
            if not one.holds:
                rejected.append(one.rule.statement)
        found[place] = list(dict.fromkeys(rejected))
    by_task = {}
    for place, task in enumerate(tasks):
        by_task[task.experiment, task.wrong] = found[place]
    return by_task


class _Task(NamedTuple):
    """An experiment to run, and its deliberate error, if any."""

    experiment: str
    quick: bool
    wrong: str = ""


def experiment_names(names: Sequence[str]) -> list[str]:
    """Return the experiments with these names or families; all experiments if `names`
    is empty."""
    found = set()
    for name in names:
        own = [known for known in EXPERIMENTS if _is_named(known, name)]
        if not own:
            raise InvalidInput(
                f"experiments must be among {', '.join(EXPERIMENTS)}; got "
                f"{name!r}{hint(name, EXPERIMENTS)}"
            )
        found.update(own)
    return [known for known in EXPERIMENTS if not names or known in found]


def _is_named(experiment: str, name: str) -> bool:
    """Return whether the name selects the experiment. A name without an experiment of
    its own is a family: gallery selects all that begin with gallery-."""
    if name in EXPERIMENTS:
        return experiment == name
    return experiment.startswith(f"{name}-")


def _run(task: _Task) -> Outcome:
    experiment = EXPERIMENTS[task.experiment]
    setup = Setup(task.quick)
    for wrong in experiment.breaks:
        if wrong.name == task.wrong:
            return experiment.run_wrong(setup, wrong)
    return experiment(setup)


def _finished(path: Path) -> Outcome | None:
    """Return the saved outcome of an earlier run, or None if the file is missing or
    damaged."""
    try:
        saved: Any = json.loads(path.read_text(encoding="utf-8"))
        claims = []
        for claim in saved["claims"]:
            rule = Rule(**claim["rule"])
            claims.append(Claim(**claim | {"rule": rule}))
        figures = [Figure(**figure) for figure in saved["figures"]]
        tables = []
        for table in saved["tables"]:
            rows = tuple(tuple(row) for row in table["rows"])
            headers = tuple(table["headers"])
            tables.append(Table(headers, rows, table["caption"]))
        return Outcome(
            saved["title"], saved["text"], tuple(claims), tuple(figures), tuple(tables)
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None
