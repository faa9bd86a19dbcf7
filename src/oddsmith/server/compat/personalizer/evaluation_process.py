"""The process of an evaluation: an order as JSON on its standard input, the answer on
its standard output.

It reads the store by itself, and has a low priority: decisions do not wait for it.
"""

import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import closing, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from oddsmith.contexts.rewards import RewardScale
from oddsmith.core.errors import InvalidInput, OddsmithError
from oddsmith.logs.table import Log
from oddsmith.server.audit.log_export import log_batches_of
from oddsmith.server.compat.personalizer.estimates import Candidate, policy_results
from oddsmith.server.store.place import open_reader
from oddsmith.server.store.protocol import Reading

__all__ = ["CELLS", "answer", "log_between", "main"]

CELLS = 5_000_000
"""Decisions times actions that one evaluation reads: a matrix of them has 40 MB."""
_NICE = 10  # a tenth of the service's share of a core that both need
_UNUSED = (
    "context",
    "features",
    "advice",
    "bonus",
    "log_weights",
    "step",
    "decision_id",
    "fingerprint",
)


def main() -> None:
    """Answer one order."""
    order = json.load(sys.stdin)
    # also where the service is gone
    signal.setitimer(signal.ITIMER_REAL, order["seconds"])
    _go_last()
    try:
        with closing(open_reader(order["place"], order["experiment"])) as reading:
            told = answer(reading, order)
    except OddsmithError as error:
        told = {"why": str(error)}
    print(json.dumps(told, allow_nan=False))


def _go_last() -> None:
    """Take what time the service leaves, and be the first to go where memory ends."""
    os.nice(_NICE)
    for file, value in (
        ("autogroup", str(_NICE)),
        ("oom_score_adj", "1000"),
    ):  # sessions are weighed before their processes
        with suppress(OSError):
            Path(f"/proc/self/{file}").write_text(value)


def answer(reading: Reading, order: dict[str, Any]) -> dict[str, Any]:
    """The results of an order, with how many decisions they are of."""
    log = log_between(reading, order["start"], order["end"])
    custom = [Candidate(*one) for one in order["policies"]]
    return {
        "events": len(log),
        "policyResults": policy_results(log, custom, RewardScale(*order["reward"])),
    }


def log_between(reading: Reading, start: float, end: float) -> Log:
    """The decisions that were made from `start` to `end`, in seconds since 1970,
    without what they were about."""
    parts: list[Log] = []
    cells = 0
    for part in _parts(reading, np.array([start, end]) * 1e6):
        cells += len(part) * part.n_arms
        if cells > CELLS:
            most = f"{CELLS:,} (decisions times actions)"
            raise InvalidInput(
                f"an evaluation must be of at most {most}; got more: choose a shorter "
                "time"
            )
        parts.append(part)
    if not parts:
        times = " to ".join(
            datetime.fromtimestamp(time, UTC).isoformat(timespec="seconds")
            for time in (start, end)
        )
        raise InvalidInput(
            f"there must be decisions from startTime to endTime; got none from {times}"
        )
    return Log.concatenated(parts)


def _parts(reading: Reading, ends: Any) -> Iterator[Log]:
    """The rows of the store within these times, some thousand at a time."""
    low, high = ends.astype("datetime64[us]")
    for batch, _ in log_batches_of(reading):
        if batch is not None and len(
            part := batch[(batch.time >= low) & (batch.time <= high)]
        ):
            yield part.without(*_UNUSED)


if __name__ == "__main__":
    main()
