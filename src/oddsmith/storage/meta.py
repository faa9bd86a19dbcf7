"""The table `meta` of a store: its format, the policy and reward rule it was made with, facts of its experiment."""

import json
from collections.abc import Mapping
from typing import TypeAlias

from oddsmith.errors import BadFile, InvalidInput
from oddsmith.fingerprint import describe, difference, fingerprint
from oddsmith.logs.advice import named_advice
from oddsmith.policies.base import Policy
from oddsmith.storage.base import Rule

__all__ = ["About", "FORMAT", "check_format", "check_owner", "check_rule", "meta_of"]

FORMAT = "oddsmith store 1"
_NEXT = "Undo the change, or keep this log and begin a new one: another store (or experiment) for the changed policy."


About: TypeAlias = Mapping[str, object]
"""Facts about an experiment, which JSON can hold."""


def check_rule(rule: str) -> None:
    """Refuse what is no reward rule."""
    if rule not in ("first", "sum"):
        raise InvalidInput(f"rule must be 'first' or 'sum'; got {rule!r}")


def meta_of(policy: Policy, rule: Rule, about: About) -> dict[str, str]:
    """The table `meta` of a new store of this policy and rule."""
    own = {"format": FORMAT, "fingerprint": fingerprint(policy), "policy": json.dumps(describe(policy)), "rule": rule}
    return own | {"about": json.dumps(about), "experts": json.dumps(named_advice(policy))}


def check_format(where: object, meta: Mapping[str, str]) -> Mapping[str, str]:
    """The table `meta` of a store, if that is one of this format."""
    if meta.get("format") != FORMAT:
        raise BadFile(f"{where} must be a store of format {FORMAT!r}; got {meta.get('format')!r}")
    return {"about": "{}"} | dict(meta)


def check_owner(where: object, meta: Mapping[str, str], mine: Mapping[str, str]) -> None:
    """Refuse the store of another policy or rule."""
    if meta["fingerprint"] != mine["fingerprint"]:
        changed = difference(json.loads(meta["policy"]), json.loads(mine["policy"]))
        raise BadFile(f"{where} is the log of another policy: {changed}. {_NEXT}")
    if meta["rule"] != mine["rule"]:
        raise BadFile(f"{where} was made with the reward rule {meta['rule']!r}; got {mine['rule']!r}. {_NEXT}")
