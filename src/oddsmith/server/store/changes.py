"""Read changes of an experiment from its log: its arms, settings and kernels.

New arms are added at the end, so the arms of a decision are a prefix of later arms.
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
    """Return all arms that a line declares; None if the line does not change the arms.

    A damaged line has no arms.
    """
    if (line.kind, line.id) != ("configuration", ARMS):
        return None
    try:
        names = json.loads(line.body or "")["value"]
    except (ValueError, TypeError, KeyError):
        return ()
    return tuple(names) if isinstance(names, list) else ()


def arms_since(reading: Reading) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Yield every list of arms with the position from which it is valid.

    Nothing is yielded if calls pass their arms.
    """
    first = reading.about.get("arms")
    if first is None:
        return
    yield 0, tuple(first)
    for line in reading.changes():
        arms = arms_of(line)
        if arms is not None:
            yield line.position, arms


def arms_at(reading: Reading, position: int) -> tuple[str, ...] | None:
    """Return the arms as of a position; None if calls pass their arms."""
    arms = None
    for since, names in arms_since(reading):
        if since <= position:
            arms = names
    return arms


def setting_of(line: Line) -> dict[str, Any]:
    """Return the value of a `ConfigurationChange` of the service's settings."""
    value: dict[str, Any] = json.loads(line.body or "")["value"]
    return value


def metrics_of(reading: Reading) -> dict[str, dict[str, Any]]:
    """Return the declarations of metrics: the last ones in the log, or else the ones
    that the log was created with."""
    changes = reading.of_setting(METRICS)
    if changes:
        last: dict[str, dict[str, Any]] = json.loads(changes[-1].body or "")["value"]
        return last
    began: dict[str, dict[str, Any]] = reading.about.get("metrics", {})
    return began


def facts_of(reading: Reading) -> dict[str, Any]:
    """Return the facts of a store, with the metrics that are declared now."""
    return reading.about | {"metrics": reading.metrics}


def kernels_of(reading: Reading) -> str | None:
    """Return the name of the kernels that compute the state: the kernels of the last
    change, or else the kernels that the log was created with."""
    changes = reading.of_setting(KERNELS)
    if changes:
        last: str = json.loads(changes[-1].body or "")["value"]
        return last
    began: str | None = reading.about.get("kernels")
    return began


def window_of(reading: Reading) -> float | None:
    """Return the current reward window in seconds; None without windows."""
    facts = reading.about
    changes = reading.of_setting(SETTINGS)
    if changes:
        facts = setting_of(changes[-1])
    window: float | None = facts.get("window_s")
    return window
