"""Program that computes an evaluation. It reads a request as JSON from standard input,
and writes the answer to standard output.

The program opens the store itself, and runs with low priority, so that it does not
delay decisions.
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
"""Maximum number of decisions times number of actions in one evaluation. A matrix of
this size takes 40 MB."""
# nice value; if both need the same core, the program gets a tenth of the service's CPU
# time
_NICE = 10
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
    """Answer one request."""
    order = json.load(sys.stdin)
    # a timer in this process also works if the service has died
    signal.setitimer(signal.ITIMER_REAL, order["seconds"])
    _lower_priority()
    try:
        with closing(open_reader(order["place"], order["experiment"])) as reading:
            result = answer(reading, order)
    except OddsmithError as error:
        result = {"why": str(error)}
    print(json.dumps(result, allow_nan=False))


def _lower_priority() -> None:
    """Run only while the service is idle, and be the first process that the system ends
    if memory is short."""
    os.nice(_NICE)
    # Linux schedules by session before it looks at the nice value of processes.
    settings = {"autogroup": _NICE, "oom_score_adj": 1000}
    for file, value in settings.items():
        with suppress(OSError):
            Path(f"/proc/self/{file}").write_text(str(value))


def answer(reading: Reading, order: dict[str, Any]) -> dict[str, Any]:
    """Return the results of a request, and the number of decisions that they are based
    on."""
    log = log_between(reading, order["start"], order["end"])
    custom = [Candidate(name, arguments) for name, arguments in order["policies"]]
    low, high = order["reward"]
    results = policy_results(log, custom, RewardScale(low, high))
    return {"events": len(log), "policyResults": results}


def log_between(reading: Reading, start: float, end: float) -> Log:
    """Return the decisions made from `start` to `end` (seconds since 1970), without
    contexts."""
    parts: list[Log] = []
    cells = 0
    for part in _parts(reading, start, end):
        cells += len(part) * part.n_arms
        if cells > CELLS:
            raise InvalidInput(
                f"an evaluation must be of at most {CELLS:,} (decisions times "
                "actions); got more: choose a shorter time"
            )
        parts.append(part)
    if not parts:
        first = datetime.fromtimestamp(start, UTC).isoformat(timespec="seconds")
        last = datetime.fromtimestamp(end, UTC).isoformat(timespec="seconds")
        raise InvalidInput(
            "there must be decisions from startTime to endTime; got none from "
            f"{first} to {last}"
        )
    return Log.concatenated(parts)


def _parts(reading: Reading, start: float, end: float) -> Iterator[Log]:
    """Yield the decisions of the store in this time range, a few thousand at a time."""
    low, high = (np.array([start, end]) * 1e6).astype("datetime64[us]")
    for batch, _ in log_batches_of(reading):
        if batch is None:
            continue
        part = batch[(batch.time >= low) & (batch.time <= high)]
        if len(part):
            yield part.without(*_UNUSED)


if __name__ == "__main__":
    main()
