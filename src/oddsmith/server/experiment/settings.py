"""What an experiment needs beside its policy: the table [service] of a policy file."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from oddsmith.contexts.rewards import RewardScale
from oddsmith.core.errors import InvalidInput, OddsmithError
from oddsmith.experts.guard.pace import TimeLimit
from oddsmith.files.keys import Keys
from oddsmith.files.policy import PolicyFile
from oddsmith.server.store.address import public_address
from oddsmith.server.store.protocol import RULES, Late, Rule

__all__ = ["Settings", "read_settings"]

_POSTGRES = ("postgresql://", "postgres://")


@dataclass(frozen=True)
class Settings:
    """How an experiment is served; see docs/reference/service.md.

    `store` is a file, or the address of a PostgreSQL database. `window` (seconds)
    closes with `default`, a reward in [0, 1]; without a window rewards are waited for
    for ever. `start` is a state that `oddsmith fit` made. Without `show_contexts` no
    answer has a context or a unit: the store has them.
    """

    store: str
    rule: Rule = "first"
    late: Late = "arrives"
    window: float | None = None
    default: float = 0.0
    sticky: bool = False
    shadow: bool = False
    erase_after_days: float | None = None
    snapshot_every: int = 10_000
    timeout_ms: TimeLimit = "measured"
    start: Path | None = None
    show_contexts: bool = True

    @property
    def shared(self) -> bool:
        """Whether other replicas may write to the store, too."""
        return self.store.startswith(_POSTGRES)

    @property
    def place(self) -> str:
        """The store as people may see it: without the passwords of a database."""
        return public_address(self.store)

    def changed(self, value: Mapping[str, Any], scale: RewardScale) -> "Settings":
        """These settings with what a `ConfigurationChange` in the log says of them, in
        the units of `scale`."""
        default, shadow = scale.reward(value["default_reward"]), value["shadow"]
        return replace(
            self,
            window=value["window_s"],
            default=default,
            shadow=shadow,
            erase_after_days=value["erase_after_days"],
        )


def read_settings(file: PolicyFile) -> Settings:
    """The table [service] of a policy file; refusals name the file and the key."""
    keys = Keys(file.table.get("service", {}), "service")
    try:
        return _read(keys, file)
    except OddsmithError as error:
        raise type(error)(f"{file.path}: {error}") from error


def _read(keys: Keys, file: PolicyFile) -> Settings:
    folder = file.path.resolve().parent
    store = keys.text("store", f"{file.name}.sqlite")
    if "://" in store and not store.startswith(_POSTGRES):
        raise InvalidInput(
            "service.store must be a file, or postgresql://…; got "
            f"{store.split('://')[0]}://…"
        )
    named = keys.text("reward_rule", "first", choices=RULES)
    rule: Rule = next(rule for rule in RULES if rule == named)
    late_choices = ("arrives", "rewrites")
    late: Late = (
        "rewrites"
        if keys.text("late_reward", "arrives", choices=late_choices) == "rewrites"
        else "arrives"
    )
    window = _optional(keys, "window_s", 1e-3, 1e10)
    low, high = file.reward_scale.low, file.reward_scale.high
    default = keys.number("default_reward", low, low=low, high=high)
    start = keys.text("start", "")
    timeout_ms = _optional(keys, "timeout_ms", 1e-3, 1e9)
    settings = Settings(
        store if store.startswith(_POSTGRES) else str(folder / store),
        rule,
        late,
        window,
        file.reward_scale.reward(default),
        keys.flag("sticky"),
        keys.flag("shadow"),
        _optional(keys, "erase_after_days", 0.0, 1e6),
        keys.whole("snapshot_every", 10_000),
        "measured" if timeout_ms is None else timeout_ms,
        folder / start if start else None,
        keys.flag("show_contexts", True),
    )
    keys.close()
    if rule != "first" and window is None:
        raise InvalidInput(
            f'service.window_s must be given with reward_rule = "{rule}": rewards '
            "count when it closes"
        )
    if file.design.reward_weights and rule != "sum":
        raise InvalidInput(
            'service.reward_rule must be "sum" with reward.metrics: amounts are added '
            f"up until the window closes; got {rule!r}"
        )
    if "default_reward" in keys.values and window is None:
        raise InvalidInput(
            "service.default_reward must stand beside window_s; got it without"
        )
    return settings


def _optional(keys: Keys, name: str, low: float, high: float) -> float | None:
    if keys.get(name, None) is None:
        return None
    return keys.number(name, low=low, high=high)
