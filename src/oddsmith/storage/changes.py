"""Settings that were changed while an experiment was served: what the log says of them."""

import json
from typing import Any

from oddsmith.storage.base import Line, Reading
from oddsmith.storage.events import SETTINGS

__all__ = ["may_shadow", "setting_of", "window_of"]


def setting_of(line: Line) -> dict[str, Any]:
    """What a `ConfigurationChange` of the service's settings has set."""
    value: dict[str, Any] = json.loads(line.body or "")["value"]
    return value


def may_shadow(reading: Reading) -> bool:
    """Whether an incumbent may have acted: the store was made for it, or was told so later."""
    changes = reading.of_setting(SETTINGS)
    return bool(reading.about.get("shadow")) or any(setting_of(line)["shadow"] for line in changes)


def window_of(reading: Reading) -> float | None:
    """The seconds after which reward windows close: as they were last set; None where they never do."""
    changes = reading.of_setting(SETTINGS)
    window: float | None = setting_of(changes[-1])["window_s"] if changes else reading.about.get("window_s")
    return window
