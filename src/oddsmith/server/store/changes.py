"""The arms of an experiment that has its own: those its log was begun with, and those
that were added, in order.

New arms stand behind the old ones, so that the arms of a decision are the first of
those that there are later.
"""

import json
from collections.abc import Iterator
from typing import Any

from oddsmith.server.store.events import ARMS, KERNELS, METRICS, SETTINGS
from oddsmith.server.store.protocol import Line, Reading

__all__ = [
    "arms_at",
    "arms_of",
    "arms_since",
    "facts_of",
    "kernels_of",
    "metrics_of",
    "setting_of",
    "window_of",
]


def arms_of(line: Line) -> tuple[str, ...] | None:
    """All arms from this line on; None where it is about something else. A damaged one
    has none."""
    if (line.kind, line.id) != ("configuration", ARMS):
        return None
    try:
        names = json.loads(line.body or "")["value"]
    except (ValueError, TypeError, KeyError):
        return ()
    return tuple(names) if isinstance(names, list) else ()


def arms_since(reading: Reading) -> Iterator[tuple[int, tuple[str, ...]]]:
    """The positions from which on there are other arms, in order, with all of them;
    nothing where calls bring them."""
    first = reading.about.get("arms")
    if first is not None:
        yield 0, tuple(first)
        for line in reading.changes():
            if (arms := arms_of(line)) is not None:
                yield line.position, arms


def arms_at(reading: Reading, position: int) -> tuple[str, ...] | None:
    """The arms as of a position; None where they come with calls."""
    arms = None
    for since, known in arms_since(reading):
        arms = known if since <= position else arms
    return arms


def setting_of(line: Line) -> dict[str, Any]:
    """What a `ConfigurationChange` of the service's settings has set."""
    value: dict[str, Any] = json.loads(line.body or "")["value"]
    return value


def metrics_of(reading: Reading) -> dict[str, dict[str, Any]]:
    """The declarations of metrics: as they were last set, else as the log was begun."""
    changes = reading.of_setting(METRICS)
    if changes:
        last: dict[str, dict[str, Any]] = json.loads(changes[-1].body or "")["value"]
        return last
    began: dict[str, dict[str, Any]] = reading.about.get("metrics", {})
    return began


def facts_of(reading: Reading) -> dict[str, Any]:
    """The facts of a store, with the metrics that are declared now."""
    return reading.about | {"metrics": reading.metrics}


def kernels_of(reading: Reading) -> str | None:
    """The arithmetic that the state is folded with: as it was last set, else as the log
    was begun."""
    changes = reading.of_setting(KERNELS)
    if changes:
        last: str = json.loads(changes[-1].body or "")["value"]
        return last
    began: str | None = reading.about.get("kernels")
    return began


def window_of(reading: Reading) -> float | None:
    """The seconds after which reward windows close: as they were last set; None where
    they never do."""
    changes = reading.of_setting(SETTINGS)
    window: float | None = (
        setting_of(changes[-1])["window_s"]
        if changes
        else reading.about.get("window_s")
    )
    return window
