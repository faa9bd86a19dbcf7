"""What a store says of itself: its format, the policy and reward rule it was made with, and about its experiment."""

import json
from collections.abc import Mapping
from typing import Any

from oddsmith.decision import Policy
from oddsmith.errors import BadFile, InvalidInput
from oddsmith.fingerprint import describe, difference, fingerprint
from oddsmith.storage.base import Rule

__all__ = ["FORMAT", "check_format", "check_owner", "check_rule", "meta_of"]

FORMAT = "oddsmith store 1"


def check_rule(rule: str) -> None:
    """Refuse what is no reward rule."""
    if rule not in ("first", "sum"):
        raise InvalidInput(f"rule must be 'first' or 'sum'; got {rule!r}")


def meta_of(policy: Policy, rule: Rule, about: dict[str, Any]) -> dict[str, str]:
    """What a new store of this policy and rule says."""
    said = {"format": FORMAT, "fingerprint": fingerprint(policy), "policy": json.dumps(describe(policy)), "rule": rule}
    return said | {"about": json.dumps(about)}


def check_format(where: object, said: Mapping[str, str]) -> Mapping[str, str]:
    """What a store says, if it is one of this format."""
    if said.get("format") != FORMAT:
        raise BadFile(f"{where} must be a store of format {FORMAT!r}; got {said.get('format')!r}")
    return {"about": "{}"} | dict(said)


def check_owner(where: object, said: Mapping[str, str], mine: Mapping[str, str]) -> None:
    """Refuse the store of another policy or rule."""
    if said["fingerprint"] != mine["fingerprint"]:
        changed = difference(json.loads(said["policy"]), json.loads(mine["policy"]))
        raise BadFile(f"{where} is the log of another policy: {changed}")
    if said["rule"] != mine["rule"]:
        raise BadFile(f"{where} was made with the reward rule {said['rule']!r}; got {mine['rule']!r}")
