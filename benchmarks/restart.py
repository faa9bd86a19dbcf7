"""How long a restart takes over a million events: with a snapshot 10,000 events back,
and from the beginning.

    python -m benchmarks.restart [--events 1000000]

64 experts and 8 arms, half of the events decisions, half rewards that come late. Times
are of opening the file and restoring the state, as `oddsmith serve` does before it is
ready; the file is in the page cache.
"""

import argparse
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.service_load import ARMS, EXPERTS, FEATURES, policy_file
from oddsmith.core.draw import draw
from oddsmith.server.experiment.start import ExperimentSetup, open_experiments
from oddsmith.server.fold.fold import FoldState, restore, save_snapshot
from oddsmith.server.store import DecisionMade, Event, Reward

_BATCH = 2000
_LATE = 700  # decisions between a decision and its reward


def events(opened: ExperimentSetup, total: int, since: float = 0.0) -> Iterator[Event]:
    """Decisions from one state, which is enough for the work of a restart, one a
    second, and late rewards."""
    rng = np.random.default_rng(0)
    policy, state = opened.policy, opened.policy.init()
    contexts = rng.normal(size=(256, FEATURES)).tolist()
    odds = [policy.odds(state, context) for context in contexts]
    votes = np.eye(ARMS)[rng.integers(ARMS, size=EXPERTS)]
    for number in range(total // 2):
        which = number % 256
        decision = draw(
            odds[which], contexts[which], float(rng.random()), step=number + 1
        )
        yield DecisionMade(f"d{number}", decision, 0, since + number, votes=votes)
        if number >= _LATE:
            yield Reward(
                f"d{number - _LATE}", float(rng.random() < 0.3), since + number
            )


def fill(folder: Path, total: int, *, snapshot: bool, since: float = 0.0) -> int:
    """A store of so many events from a time on; returns how many there are."""
    opened = open_experiments([policy_file(folder)])[0]
    batch: list[Event] = []
    for event in events(opened, total + 2 * _LATE, since):
        batch.append(event)
        if len(batch) == _BATCH:
            opened.store.append(batch).result()
            batch = []
    head = opened.store.head()
    if snapshot:
        save_snapshot(
            opened.store, restore(opened.store, opened.policy, until=head - 10_000), 0.0
        )
    opened.store.close()
    return head


def restart(folder: Path) -> tuple[float, float, FoldState]:
    """Seconds, seconds of CPU, and the state."""
    start, used = time.perf_counter(), time.process_time()
    opened = open_experiments([folder / "load.toml"])[0]
    folded = restore(opened.store, opened.policy, change=opened.change)
    opened.store.tally()
    took = time.perf_counter() - start, time.process_time() - used
    opened.store.close()
    return *took, folded


def report(total: int = 1_000_000) -> str:
    """The table."""
    lines = [
        "## Restart",
        "",
        "| events | start | seconds | CPU seconds |",
        "|---:|---|---:|---:|",
    ]
    states = []
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        head = fill(folder, total, snapshot=True)
        for start in ("a snapshot 10,000 events back", "the beginning"):
            seconds, used, folded = restart(folder)
            states.append(folded.state.log_weights.tobytes())
            lines.append(f"| {head:,} | {start} | {seconds:.2f} | {used:.2f} |")
            if start.startswith("a snapshot"):
                _forget(folder)
    lines += [
        "",
        (
            "Both states are "
            f"{'the same to the last bit' if len(set(states)) == 1 else 'DIFFERENT'}."
        ),
        "",
    ]
    return "\n".join(lines)


def _forget(folder: Path) -> None:
    """Delete the snapshots."""
    import sqlite3

    connection = sqlite3.connect(folder / "load.sqlite")
    connection.execute("delete from snapshots")
    connection.commit()
    connection.close()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=1_000_000)
    print(report(parser.parse_args().events))


if __name__ == "__main__":
    main()
