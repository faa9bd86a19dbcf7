"""Policy files: one TOML that describes arms, schema, experts and policy, for whoever evaluates, fits or serves it."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from oddsmith.arrays import Array, simplex
from oddsmith.errors import InvalidInput, OddsmithError
from oddsmith.experts.base import Experts, check_names
from oddsmith.experts.schema import Schema
from oddsmith.experts.stack import stack
from oddsmith.files.experts import Bank, Seat, from_factory, read_bank, read_flag
from oddsmith.files.keys import Keys, read_toml
from oddsmith.losses import LOSSES
from oddsmith.policies.auto import auto
from oddsmith.policies.base import Policy, check_policy
from oddsmith.policies.bounded import Bounded
from oddsmith.policies.gts import GeneralizedThompsonSampling
from oddsmith.policies.guarding import guarded
from oddsmith.policies.projection import project
from oddsmith.policies.schedules import PowerSchedule
from oddsmith.rewards import RewardScale
from oddsmith.theory.coefficients import tight_coefficient

__all__ = ["PolicyFile", "read_gamma", "read_policy"]

_NAME = re.compile(r"[a-z0-9_-]{1,64}")
_WEIGHED = ("experts", "loss", "eta", "gamma", "prior", "share", "discount", "guard", "timeout_ms")


@dataclass(frozen=True, eq=False)
class PolicyFile:
    """What a policy file says. `table` is the TOML as it was read; `seed` is None where the file has none.

    `bench` are experts that are no part of the policy, but may join it while it is served, by name.
    """

    path: Path
    name: str
    arms: tuple[str, ...]
    schema: Schema | None
    policy: Policy
    reward_scale: RewardScale
    seed: int | None
    table: dict[str, Any]
    bench: dict[str, Experts]


def read_policy(path: Path | str) -> PolicyFile:
    """The policy that a TOML file describes; an error names the file and the key. See docs/reference/policy-file.md.

    Files named in it are found from its folder; a factory's module from there too, or where Python finds modules.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "news.toml"
    ...     _ = file.write_text('arms = ["sports", "tech"]\\n[experts.learners]\\nkind = "auto"\\n')
    ...     read_policy(file).policy.gamma
    0.02
    """
    path = Path(path)
    keys = read_toml(path)
    try:
        return _read(keys, path)
    except OddsmithError as error:
        raise type(error)(f"{path}: {error}") from error


def _read(keys: Keys, path: Path) -> PolicyFile:
    name = keys.text("name", path.stem)
    if not _NAME.fullmatch(name):
        raise InvalidInput(f"name must be 1 to 64 of a-z, 0-9, - and _ (unless given, the file's name); got {name!r}")
    arms, schema = check_names("arms", keys.get("arms")), _schema(keys)
    seed = keys.get("seed", None)
    if seed is not None:
        seed = keys.whole("seed", least=0, most=2**63 - 1)
    share = keys.number("share", 0.0, low=0, high=1) if keys.get("policy", None) is None else 0.0
    seat = Seat(path.resolve().parent, arms, schema, share)
    bench: dict[str, Experts] = {}
    policy = _weighed(keys, seat, bench) if keys.get("policy", None) is None else _from_factory(keys, seat)
    policy = _bounded(keys, policy, arms)
    scale = _reward_scale(keys)
    keys.table("service", {})  # read by whoever serves it
    keys.close()
    return PolicyFile(path, name, arms, schema, policy, scale, seed, keys.values, bench)


def _schema(keys: Keys) -> Schema | None:
    if keys.get("schema", None) is None:
        return None
    table = keys.table("schema")
    columns: Any = {what: table.get(what, []) for what in ("numbers", "categories")}
    for what, names in columns.items():
        if not isinstance(names, list):
            raise InvalidInput(f"{table.named(what)} must be a list of columns; got {names!r:.60}")
    sizes: Any = {what: table.whole(what, default, most=2**20) for what, default in (("buckets", 8), ("slots", 64))}
    table.close()
    try:
        return Schema(**columns, **sizes)
    except InvalidInput as error:
        raise table.blame(error) from error


def _reward_scale(keys: Keys) -> RewardScale:
    table = keys.table("reward", {})
    ends = (table.number(what, default, low=-np.inf, high=np.inf) for what, default in (("low", 0.0), ("high", 1.0)))
    try:
        scale = RewardScale(*ends)
    except InvalidInput as error:
        raise table.blame(error) from error
    table.close()
    return scale


def _weighed(keys: Keys, seat: Seat, bench: dict[str, Experts]) -> GeneralizedThompsonSampling:
    """GTS over the experts of all tables, except those on the bench."""
    tables = keys.tables("experts")
    waiting = [name for name, table in tables.items() if read_flag(table, "joins")]
    for name in waiting:
        bench |= _benched(name, tables.pop(name), seat)
    if not tables:
        raise InvalidInput(f"experts must have a table without joins = true; got {', '.join(waiting)} on the bench")
    guard, timeout_ms = read_flag(keys, "guard"), None
    if keys.get("timeout_ms", None) is not None:
        timeout_ms = keys.number("timeout_ms", low=1e-3, high=1e9)
        seat = seat._replace(timeout_ms=timeout_ms)
    if timeout_ms is not None and not guard:
        raise InvalidInput("timeout_ms must stand beside guard = true; got it without")
    banks = {name: read_bank(name, table, seat) for name, table in tables.items()}
    try:
        parts = [bank.experts for bank in banks.values()]
        experts = parts[0] if len(parts) == 1 else stack(*parts)
    except InvalidInput as error:
        raise InvalidInput(f"experts: {error}") from error
    learners = all(table.values["kind"] == "auto" for table in tables.values())
    loss = LOSSES[keys.text("loss", "square" if learners else "log", choices=LOSSES)]
    own = auto(seat.arms) if learners else None  # learners have a loss and an eta that suit them
    eta = own.eta if own is not None and own.loss is loss else tight_coefficient(loss).eta
    policy = GeneralizedThompsonSampling(
        experts,
        loss,
        eta=keys.get("eta", eta),
        gamma=read_gamma(keys, 0.02),
        prior=_prior(keys, banks),
        share=seat.share,
        discount=keys.get("discount", 1.0),
    )
    return guarded(policy, timeout_ms, arms=seat.arms) if guard else policy


def _benched(name: str, table: Keys, seat: Seat) -> dict[str, Experts]:
    """The one expert of a table that may join later."""
    bank = read_bank(name, table, seat).experts
    if len(bank.names) != 1:
        raise InvalidInput(f"{table.named('joins')} must be in a table of one expert; got {len(bank.names)}")
    return {bank.names[0]: bank}


def _from_factory(keys: Keys, seat: Seat) -> Policy:
    """The policy that a factory makes, with all its settings."""
    if beside := [name for name in _WEIGHED if name in keys.values]:
        raise InvalidInput(f"{beside[0]} must not stand beside [policy], whose factory chooses it; got both")
    table = keys.table("policy")
    policy: Policy = from_factory(table, seat)
    try:
        check_policy(policy)
    except InvalidInput as error:
        raise InvalidInput(f"{table.named('factory')} must make a policy; {error}") from error
    table.close()
    return policy


def read_gamma(keys: Keys, default: float) -> float | PowerSchedule:
    """The key gamma: a number in [0, 1], or { scale = …, power = … } for min(1, scale · step^-power).

    >>> read_gamma(Keys({"gamma": {"scale": 0.5}}), 0.02)
    PowerSchedule(scale=0.5, power=0.333..., cap=1.0)
    """
    if not isinstance(keys.get("gamma", default), dict):
        return keys.number("gamma", default, low=0, high=1)
    table = keys.table("gamma")
    schedule = PowerSchedule(table.number("scale", low=0, high=1e9), table.number("power", 1 / 3, low=0, high=10))
    table.close()
    return schedule


def _prior(keys: Keys, banks: dict[str, Bank]) -> Array:
    """N probabilities: each table's share, split inside it as the bank says, or expert by expert."""
    n = sum(len(bank.shares) for bank in banks.values())
    said = keys.get("prior", "tables")
    if said == "uniform":
        return np.full(n, 1 / n)
    if said != "tables" and not isinstance(said, dict):
        raise InvalidInput(f'prior must be "tables", "uniform" or a table of shares [prior]; got {said!r:.60}')
    table = Keys(dict.fromkeys(banks, 1 / len(banks)) if said == "tables" else said, "prior")
    parts = []
    for name, bank in banks.items():
        if isinstance(table.get(name), dict):
            inner = table.table(name)
            parts.append(np.array([inner.number(expert, low=0, high=1) for expert in bank.experts.names]))
            inner.close()
        else:
            parts.append(table.number(name, low=0, high=1) * bank.shares)
    table.close()
    return simplex("prior", np.concatenate(parts), n=n, over="experts")


def _bounded(keys: Keys, policy: Policy, arms: tuple[str, ...]) -> Policy:
    """The policy within its floors and caps, if there are any."""
    ends = {"floors": 0.0, "caps": 1.0}
    floors, caps = (np.array(_per_arm(keys, what, default, arms)) for what, default in ends.items())
    if not any(what in keys.values for what in ends):
        return policy
    bounded = Bounded(policy, floors, caps)
    project(np.full(len(arms), 1 / len(arms)), floors, caps)  # raises where no odds can meet them
    return bounded


def _per_arm(keys: Keys, what: str, default: float, arms: tuple[str, ...]) -> list[float]:
    if not isinstance(keys.get(what, default), dict):
        return [keys.number(what, default, low=0, high=1)] * len(arms)
    table = keys.table(what)
    bounds = [table.number(arm, default, low=0, high=1) for arm in arms]
    table.close()
    return bounds
