"""Bytes of a decision among arms of the call in a store: 20 numbers for each arm, 10 of
context.

    python -m benchmarks.offers_on_disk [--arms 10 50 1000] [--decisions 200] [--url
        postgresql://…]

Decisions go through the service, in this process. Bytes are what the file has grown by,
after its log was emptied, or the tables and their indexes of a database.
"""

import argparse
import asyncio
import sqlite3
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.offers_served import CONTEXT, FEATURES, Asked, calls_of
from benchmarks.timing import table
from oddsmith.server.experiment.experiment import Experiment
from oddsmith.server.experiment.start import open_experiments
from oddsmith.server.http.app import make_app
from oddsmith.server.http.routes.decide import decide
from oddsmith.server.messages.calls import Decide

SIZES, EXPERTS = (10, 50, 1000), 64
TABLES = ("events", "contexts", "features", "names")
PARTS = {
    "record": "select total(length(body)) + total(length(id)) from events",
    "numbers, votes": "select total(length(numbers)) from events",
    "context": "select total(length(body)) from contexts",
    "digests": "select total(length(features)) from contexts",
    "names": "select total(length(body)) from names",
    "features": "select total(length(body)) from features",
}


def policy_file(folder: Path, policy: str, name: str, store: str) -> Path:
    """Experts over one row for each arm, its context included; or learners."""
    rng = np.random.default_rng(0)
    np.savez(
        folder / "bank.npz",
        weights=rng.normal(size=(EXPERTS, CONTEXT + FEATURES)) * 0.1,
    )
    bank = '[experts.bank]\nkind = "linear"\nfile = "bank.npz"\n'
    experts = '[policy]\nkind = "auto"\n' if policy == "auto" else bank
    (folder / "news.toml").write_text(
        f'name = "{name}"\nseed = 7\n{experts}[service]\nstore = "{store}"\n'
        "snapshot_every = 1000000\n"
    )
    return folder / "news.toml"


def sizes(path: Path) -> dict[str, float]:
    """Bytes of the file, and of the values in it."""
    with closing(sqlite3.connect(path)) as file:
        file.execute("pragma wal_checkpoint(truncate)")
        parts = {
            name: float(file.execute(query).fetchone()[0])
            for name, query in PARTS.items()
        }
    return {"all": float(path.stat().st_size), **parts}


async def tables(url: str) -> dict[str, float]:
    """Bytes of the tables of a database, with their indexes."""
    import asyncpg

    connection = await asyncpg.connect(url)
    try:
        names = ", ".join(
            f"pg_total_relation_size('oddsmith.{name}')" for name in TABLES
        )
        return {"all": float(sum(await connection.fetchrow(f"select {names}")))}
    finally:
        await connection.close()


@asynccontextmanager
async def serving(file: Path) -> AsyncIterator[Experiment]:
    """The experiment of a policy file, ready; no snapshot is kept meanwhile."""
    app: Any = make_app(open_experiments([file]))
    await app.begin()
    try:
        (experiment,) = app.app.service.experiments.values()
        while experiment.follower.trouble:
            await asyncio.sleep(0.01)
        yield experiment
    finally:
        await app.end()


async def measured(
    policy: str, n_arms: int, n: int, url: str | None = None
) -> dict[str, dict[str, float]]:
    """Bytes a decision: with the same list of known arms, with other lists of them,
    with arms that are new."""
    known = max(2 * n_arms, 500)
    few = calls_of(1, 1, n_arms=n_arms, known=known, named=False)[0]
    contexts = calls_of(2, n, n_arms=1, known=known, named=False)
    whole = dict(
        next(iter(calls_of(3, 1, n_arms=known, known=known, named=False))).arms
    )
    groups = {
        "the same known arms": [Asked(call.context, few.arms) for call in contexts],
        "other lists of known arms": calls_of(
            4, n, n_arms=n_arms, known=known, named=False
        ),
        "new arms": [
            Asked(
                call.context,
                {
                    f"{name}/{turn}": [*row[:-1], turn + 0.5]
                    for name, row in few.arms.items()
                },
            )
            for turn, call in enumerate(contexts)
        ],
    }
    names = list(whole)
    parts = [
        {name: whole[name] for name in names[i : i + 1000]}
        for i in range(0, known, 1000)
    ]
    first = [Asked(few.context, part) for part in parts] + [few]
    found = {}
    with tempfile.TemporaryDirectory() as place:
        file = policy_file(
            Path(place), policy, f"{policy.split()[0]}-{n_arms}", url or "news.sqlite"
        )
        async with serving(file) as experiment:
            before: dict[str, float] = {}
            for name, calls in {"first": first, **groups}.items():
                for call in calls:
                    await decide(
                        experiment, Decide(context=call.context, arms=call.arms), ""
                    )
                after = await tables(url) if url else sizes(Path(place) / "news.sqlite")
                found[name] = {
                    part: (after[part] - before.get(part, 0.0)) / len(calls)
                    for part in after
                }
                before = after
    return {name: found[name] for name in groups}


def report(
    arms: Sequence[int] = SIZES, decisions: int = 200, url: str | None = None
) -> str:
    """The section of RESULTS.md."""
    rows = []
    for policy in (f"{EXPERTS} linear experts", "auto"):
        for n_arms in arms:
            found = asyncio.run(measured(policy, n_arms, decisions, url))
            rows += [
                [f"{n_arms:,}", policy, name, *(f"{part:,.0f}" for part in of.values())]
                for name, of in found.items()
            ]
            header = [
                "arms",
                "policy",
                "arms of the call",
                "bytes a decision",
                *list(next(iter(found.values())))[1:],
            ]
    where = "PostgreSQL: tables and indexes" if url else "SQLite: growth of the file"
    return f"""## Bytes of a decision among arms of the call

{FEATURES} numbers for each arm, {CONTEXT} of context; {decisions} decisions. {where}; the other columns are the
values in it. *record* is JSON and id; *numbers* are propensities, predictions, weights and votes.

{table(header, rows)}
"""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--arms", type=int, nargs="*", default=SIZES)
    parser.add_argument("--decisions", type=int, default=200)
    parser.add_argument("--url", help="an empty database to use instead of a file")
    asked = parser.parse_args()
    print(report(asked.arms, asked.decisions, asked.url))


if __name__ == "__main__":
    main()
