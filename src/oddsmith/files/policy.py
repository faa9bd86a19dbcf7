"""Policy files: TOML files that describe a policy with its arms, schema, experts,
bounds and experiment."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np

from oddsmith.contexts.rewards import RewardScale
from oddsmith.contexts.rules import Rule
from oddsmith.contexts.schema import Schema
from oddsmith.core.errors import InvalidInput, OddsmithError
from oddsmith.core.experts import Experts
from oddsmith.core.names import Arms
from oddsmith.core.policy import Policy
from oddsmith.experts.guard.pace import LONGEST_MS
from oddsmith.experts.guard.policy import guarded
from oddsmith.files.build import Bank, BuildContext
from oddsmith.files.experiment import ExperimentDesign, read_design
from oddsmith.files.experts import read_bank
from oddsmith.files.keys import Keys, read_toml
from oddsmith.files.kinds import KINDS, parameters, read_policy_table, settings
from oddsmith.files.rules import read_rules
from oddsmith.policies.bounds import Bounded
from oddsmith.policies.cap_groups import CapGroup
from oddsmith.policies.roster import changes_experts

__all__ = ["EXPERIMENT_NAME", "PolicyFile", "read_flag_values", "read_policy"]

_KINDS = {
    bool: "booleans",
    int: "whole numbers",
    float: "numbers",
    str: "texts",
    dict: "objects",
    list: "lists",
}


def read_flag_values(keys: Keys, arms: Arms | None) -> dict[str, Any]:
    """Return the value of each arm, all of one JSON type, in the table [flag].

    >>> read_flag_values(
    ...     Keys({"flag": {"values": {"slow": 1, "fast": 2.5}}}), Arms(["slow", "fast"])
    ... )
    {'slow': 1.0, 'fast': 2.5}
    """
    table = keys.table("flag")
    given = table.table("values").values
    table.close()
    if arms is None:
        raise InvalidInput(
            "flag requires arms in the same file, because each arm has a flag value; "
            "got flag without arms"
        )
    if set(given) != set(arms):
        missing, strange = (
            [arm for arm in arms if arm not in given],
            [arm for arm in given if arm not in arms],
        )
        got = (
            f"none for {missing[0]!r}"
            if missing
            else f"one for {strange[0]!r}, which is not an arm"
        )
        raise InvalidInput(f"flag.values must have a value for each arm; got {got}")
    for arm, value in given.items():
        _check(f"flag.values.{arm}", value)
    kinds = {type(value) for value in given.values()}
    if kinds == {int, float}:
        # Use one type for all arms, because programs request a flag with one fixed
        # type.
        return {arm: float(value) for arm, value in given.items()}
    if len(kinds) > 1:
        found = " and ".join(sorted(_KINDS[kind] for kind in kinds))
        raise InvalidInput(
            "flag.values must have the same type, because programs request one type; "
            f"got {found}"
        )
    return given


def _check(where: str, value: Any) -> None:
    """Raise for values that JSON cannot represent, at any depth."""
    if type(value) not in _KINDS or (isinstance(value, float) and not isfinite(value)):
        raise InvalidInput(
            f"{where} must be JSON, without dates and infinite numbers; got "
            f"{value!s:.60}"
        )
    if isinstance(value, dict | list):
        for name, inner in (
            value.items() if isinstance(value, dict) else enumerate(value)
        ):
            _check(f"{where}.{name}", inner)


EXPERIMENT_NAME = re.compile(r"[a-z0-9_-]{1,64}")
"""Allowed names of experiments."""


@dataclass(frozen=True, eq=False)
class PolicyFile:
    """Content of a policy file. `table` is the parsed TOML; `seed` is None if the file
    has none.

    `arms` are None if they are passed in each call; `arm_schema` then encodes their
    features as numbers. `bench` are spare experts by name, which may join the policy
    while it is served. `flag_values` are the values of the arms in a feature flag, by
    default their names. `design` is the experiment around the policy: control, holdout,
    metrics and segments. `rules` bar arms.
    """

    path: Path
    name: str
    arms: Arms | None
    schema: Schema | None
    arm_schema: Schema | None
    policy: Policy
    reward_scale: RewardScale
    seed: int | None
    table: dict[str, Any]
    bench: dict[str, Experts]
    flag_values: dict[str, Any] = field(default_factory=dict)
    design: ExperimentDesign = field(default_factory=ExperimentDesign)
    rules: tuple[Rule, ...] = ()

    @property
    def kind(self) -> str:
        """Return the kind of the policy."""
        return str(self.table.get("policy", {}).get("kind", "gts"))


def read_policy(
    path: Path | str,
    world: BuildContext | None = None,
    *,
    arms: Sequence[str] | None = None,
) -> PolicyFile:
    """Return the policy that a TOML file describes. Errors name the file and the key.
    See docs/reference/policy-file.md.

    Paths in the file are relative to its folder. A factory's module is searched there
    and in Python's path. If the file has no experts, those of `world` are used. `arms`
    replace the file's own, which may have been extended.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "news.toml"
    ...     text = 'arms = ["sports", "tech"]\\n[policy]\\nkind = "auto"\\n'
    ...     _ = file.write_text(text)
    ...     read_policy(file).policy.gamma
    0.005
    """
    path = Path(path)
    keys = read_toml(path)
    try:
        return _parse_policy(keys, path, world, arms)
    except OddsmithError as error:
        raise type(error)(f"{path}: {error}") from error


def _parse_policy(
    keys: Keys, path: Path, world: BuildContext | None, given: Sequence[str] | None
) -> PolicyFile:
    name = keys.text("name", path.stem)
    if not EXPERIMENT_NAME.fullmatch(name):
        raise InvalidInput(
            "name must be 1 to 64 of a-z, 0-9, - and _ (unless given, the file's "
            f"name); got {name!r}"
        )
    arms = (
        None
        if keys.get("arms", None) is None
        else Arms(keys.get("arms") if given is None else given)
    )
    schema = None
    arm_schema = None
    if keys.has("schema"):
        schema, arm_schema = _schemas(keys.table("schema"), arms)
    seed = keys.get("seed", None)
    if seed is not None:
        seed = keys.whole("seed", least=0, most=2**63 - 1)
    guard, timeout_ms = keys.flag("guard"), keys.get("timeout_ms", None)
    if timeout_ms is not None:
        timeout_ms = keys.number("timeout_ms", low=1e-3, high=1e9)
        if not guard:
            raise InvalidInput(
                "timeout_ms requires guard = true in the same file; got it without"
            )
    table = keys.table("policy", {})
    drifts, limit = (
        bool(table.values.get("share")),
        LONGEST_MS if timeout_ms is None else timeout_ms,
    )
    about: Any = {"arm_schema": arm_schema, "drifts": drifts, "timeout_ms": limit}
    build = BuildContext(path.resolve().parent, arms, schema, **about)
    bench, banks = _experts(keys, build)
    kind = table.text("kind", "gts")
    of_world = {} if world is None or kind == "auto" else world.banks
    policy = read_policy_table(table, replace(build, banks=banks or of_world))
    _check_experts(kind, policy, banks, bench)
    policy = guarded(policy, timeout_ms, arms=arms) if guard else policy
    bounds = [name for name in ("floors", "caps", "cap_groups") if keys.has(name)]
    if bounds:
        policy = _bounded(keys, policy, arms)
    scale = RewardScale(0.0, 1.0)
    if keys.has("reward"):
        scale = _reward_scale(keys.table("reward"))
    values = {}
    if keys.has("flag"):
        own_arms = None if arms is None else Arms(keys.get("arms"))
        values = read_flag_values(keys, own_arms)
    design = read_design(
        keys, path.resolve().parent, arms, lambda file: read_policy(file).policy
    )
    rules: tuple[Rule, ...] = ()
    if keys.has("rules"):
        rules = read_rules(keys, None if arms is None else Arms(keys.get("arms")))
    keys.table("service", {})  # mark the table as known: the service reads it
    keys.close(lambda: {name: "[policy]" for kind in KINDS for name in settings(kind)})
    return PolicyFile(
        path,
        name,
        arms,
        schema,
        arm_schema,
        policy,
        scale,
        seed,
        keys.values,
        bench,
        values,
        design,
        rules,
    )


def _experts(
    keys: Keys, build: BuildContext
) -> tuple[dict[str, Experts], dict[str, Bank]]:
    """Return the spare experts by name, and the banks of the other tables."""
    tables = {} if keys.get("experts", None) is None else keys.tables("experts")
    waiting = {name: table for name, table in tables.items() if table.flag("joins")}
    bench = {}
    for name, table in waiting.items():
        bank = read_bank(name, table, build).experts
        if len(bank.names) != 1:
            raise InvalidInput(
                f"{table.named('joins')} must be in a table of one expert; got "
                f"{len(bank.names)}"
            )
        bench[bank.names[0]] = bank
    return bench, {
        name: read_bank(name, table, build)
        for name, table in tables.items()
        if name not in waiting
    }


def _check_experts(
    kind: str, policy: Policy, banks: dict[str, Bank], bench: dict[str, Experts]
) -> None:
    """Raise for experts that the policy does not use."""
    if banks and not {"experts", "models"} & set(parameters(kind)):
        raise InvalidInput(
            f'experts must be left out with kind = "{kind}", which uses none; got both'
        )
    if bench and (policy.bank is None or not changes_experts(policy)):
        raise InvalidInput(
            "experts with joins = true require a policy that they can join; got "
            f'"{kind}"'
        )


def _schemas(table: Keys, arms: Arms | None) -> tuple[Schema | None, Schema | None]:
    """Return the schema of contexts, and that of the arms' features if arms are passed
    in each call."""
    if table.get("arms", None) is None:
        return _schema(table), None
    if arms is not None:
        raise InvalidInput(
            "schema.arms requires a file without arms, that is, arms passed in each "
            "call; got both"
        )
    own = {name for name in table.values if name != "arms"}
    return _schema(table) if own else None, _schema(table.table("arms"))


def _schema(table: Keys) -> Schema:
    columns: Any = {what: table.get(what, []) for what in ("numbers", "categories")}
    for what, names in columns.items():
        if not isinstance(names, list):
            raise InvalidInput(
                f"{table.named(what)} must be a list of columns; got {names!r:.60}"
            )
    sizes: Any = {
        what: table.whole(what, default, most=2**20)
        for what, default in (("buckets", 8), ("slots", 64))
    }
    values = table.table("values", {})
    table.close()
    try:
        return Schema(**columns, **sizes, values=values.values)
    except InvalidInput as error:
        raise table.blame(error) from error


def _reward_scale(table: Keys) -> RewardScale:
    ends = (
        table.number(what, default, low=-np.inf, high=np.inf)
        for what, default in (("low", 0.0), ("high", 1.0))
    )
    try:
        scale = RewardScale(*ends)
    except InvalidInput as error:
        raise table.blame(error) from error
    table.get("metrics", None)  # mark the weights as known: `read_design` reads them
    table.close()
    return scale


def _bounded(keys: Keys, policy: Policy, arms: tuple[str, ...] | None) -> Policy:
    """Return the policy within its floors and caps."""
    ends = {"floors": 0.0, "caps": 1.0}
    bounds: list[Any] = [
        _for_call(keys, what, default)
        if arms is None
        else np.array(_per_arm(keys, what, default, arms))
        for what, default in ends.items()
    ]
    groups = _cap_groups(keys, None if policy.arms is not None else arms)
    if not groups and not any(what in keys.values for what in ends):
        return policy
    floors, caps = bounds
    bounded = Bounded(policy, floors, caps, groups)
    if arms is not None:
        bounded.check_feasible(len(arms))
    return bounded


def _cap_groups(keys: Keys, arms: Sequence[str] | None) -> list[CapGroup]:
    """Return the caps on groups of arms from the tables [[cap_groups]]. Arms are
    numbers if the policy does not know their names."""
    given = keys.get("cap_groups", [])
    if not isinstance(given, list) or not all(isinstance(one, dict) for one in given):
        raise InvalidInput(
            f"cap_groups must be tables [[cap_groups]]; got {given!r:.60}"
        )
    groups = []
    for place, one in enumerate(given, 1):
        table = Keys(one, f"cap_groups {place}")
        at_most = table.number("at_most", low=0, high=1)
        names = table.get("arms", [])
        feature = table.get("feature", None)
        value = table.get("value", None)
        table.close()
        if not isinstance(names, list) or not all(isinstance(n, str) for n in names):
            raise InvalidInput(
                f"cap_groups {place}.arms must be a list of names; got {names!r:.60}"
            )
        unknown = [name for name in names if arms is not None and name not in arms]
        if unknown:
            raise InvalidInput(
                f"cap_groups {place}.arms must be arms of the file; got {unknown[0]!r}"
            )
        if arms is not None:
            names = [list(arms).index(name) for name in names]
        try:
            groups.append(CapGroup(at_most, names, feature, value))
        except InvalidInput as error:
            raise table.blame(error) from error
    return groups


def _for_call(keys: Keys, what: str, default: float) -> float | dict[str, float]:
    """Return the bound of all arms that are passed in the call, or bounds of some of
    them by name."""
    if not isinstance(keys.get(what, default), dict):
        return keys.number(what, default, low=0, high=1)
    table = keys.table(what)
    return {arm: table.number(arm, low=0, high=1) for arm in table.values}


def _per_arm(
    keys: Keys, what: str, default: float, arms: tuple[str, ...]
) -> float | list[float]:
    """Return one bound for all arms, including later ones, or a bound for each arm."""
    if not isinstance(keys.get(what, default), dict):
        return keys.number(what, default, low=0, high=1)
    table = keys.table(what)
    bounds = [table.number(arm, default, low=0, high=1) for arm in arms]
    table.close()
    return bounds
