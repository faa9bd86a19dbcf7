"""Logs with known values: a tame setting, a heavy one, and their terms."""

from typing import Any

from benchmarks.known_values import SETTINGS, Setting

from oddsmith import evaluation as ev

LIGHT, HEAVY = SETTINGS[1], SETTINGS[-2]


def terms_of(setting: Setting, seed: int = 0, logs: int = 1) -> tuple[ev.Terms, Any]:
    played, contexts = setting.logs(logs, seed)
    return ev.ips(played, setting.target[contexts]), (played, contexts)
