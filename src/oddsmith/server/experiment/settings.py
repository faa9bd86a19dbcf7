"""Settings of an experiment: the table [service] of a policy file."""

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
    """Settings of the service; see docs/reference/service.md.

    `store` is a file, or the address of a PostgreSQL database. `window` is the length
    of the reward window in seconds. When it closes, a decision without a reward gets
    `default`, a reward in [0, 1]; without a window there is no default. `start` is a
    state that `oddsmith fit` wrote. Without `show_contexts`, answers contain no
    contexts and units, but the store still contains them.
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
        """Whether other replicas of the service can write to the store."""
        return self.store.startswith(_POSTGRES)

    @property
    def place(self) -> str:
        """The place of the store, without the password of a database."""
        return public_address(self.store)

    def with_changes(self, value: Mapping[str, Any], scale: RewardScale) -> "Settings":
        """Return these settings with the values of a `ConfigurationChange`, whose
        default is in the units of `scale`."""
        return replace(
            self,
            window=value["window_s"],
            default=scale.reward(value["default_reward"]),
            shadow=value["shadow"],
            erase_after_days=value["erase_after_days"],
        )


def read_settings(file: PolicyFile) -> Settings:
    """Read the table [service] of a policy file; errors name the file and the key."""
    keys = Keys(file.table.get("service", {}), "service")
    try:
        return _settings_of(keys, file)
    except OddsmithError as error:
        raise type(error)(f"{file.path}: {error}") from error


def _settings_of(keys: Keys, file: PolicyFile) -> Settings:
    folder = file.path.resolve().parent
    store = keys.text("store", f"{file.name}.sqlite")
    if not store.startswith(_POSTGRES):
        scheme, has_scheme, _ = store.partition("://")
        if has_scheme:
            raise InvalidInput(
                f"service.store must be a file, or postgresql://…; got {scheme}://…"
            )
        store = str(folder / store)
    rule: Any = keys.text("reward_rule", "first", choices=RULES)
    late: Any = keys.text("late_reward", "arrives", choices=("arrives", "rewrites"))
    window = _optional(keys, "window_s", 1e-3, 1e10)
    scale = file.reward_scale
    default = keys.number("default_reward", scale.low, low=scale.low, high=scale.high)
    start = keys.text("start", "")
    timeout_ms = _optional(keys, "timeout_ms", 1e-3, 1e9)
    settings = Settings(
        store,
        rule,
        late,
        window,
        scale.reward(default),
        sticky=keys.flag("sticky"),
        shadow=keys.flag("shadow"),
        erase_after_days=_optional(keys, "erase_after_days", 0.0, 1e6),
        snapshot_every=keys.whole("snapshot_every", 10_000),
        timeout_ms="measured" if timeout_ms is None else timeout_ms,
        start=folder / start if start else None,
        show_contexts=keys.flag("show_contexts", True),
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
            "service.default_reward must be given together with window_s; got no "
            "window_s"
        )
    return settings


def _optional(keys: Keys, name: str, low: float, high: float) -> float | None:
    if keys.get(name, None) is None:
        return None
    return keys.number(name, low=low, high=high)
