"""What a store says of itself: its format, the policy and reward rule it was made with, and about its experiment."""

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Self

from oddsmith.errors import BadFile, InvalidInput
from oddsmith.fingerprint import describe, difference, fingerprint
from oddsmith.logs.advice import named_advice
from oddsmith.policies.base import Policy
from oddsmith.storage.base import Rule

__all__ = ["FORMAT", "Introduced", "check_format", "check_owner", "check_rule", "meta_of"]

FORMAT = "oddsmith store 1"
_NEXT = "Undo the change, or keep this log and begin a new one: another store (or experiment) for the changed policy."


def check_rule(rule: str) -> None:
    """Refuse what is no reward rule."""
    if rule not in ("first", "sum"):
        raise InvalidInput(f"rule must be 'first' or 'sum'; got {rule!r}")


def meta_of(policy: Policy, rule: Rule, about: dict[str, Any]) -> dict[str, str]:
    """What a new store of this policy and rule says."""
    said = {"format": FORMAT, "fingerprint": fingerprint(policy), "policy": json.dumps(describe(policy)), "rule": rule}
    return said | {"about": json.dumps(about), "experts": json.dumps(named_advice(policy))}


def check_format(where: object, said: Mapping[str, str]) -> Mapping[str, str]:
    """What a store says, if it is one of this format."""
    if said.get("format") != FORMAT:
        raise BadFile(f"{where} must be a store of format {FORMAT!r}; got {said.get('format')!r}")
    return {"about": "{}"} | dict(said)


def check_owner(where: object, said: Mapping[str, str], mine: Mapping[str, str]) -> None:
    """Refuse the store of another policy or rule."""
    if said["fingerprint"] != mine["fingerprint"]:
        changed = difference(json.loads(said["policy"]), json.loads(mine["policy"]))
        raise BadFile(f"{where} is the log of another policy: {changed}. {_NEXT}")
    if said["rule"] != mine["rule"]:
        raise BadFile(f"{where} was made with the reward rule {said['rule']!r}; got {mine['rule']!r}. {_NEXT}")


class Introduced(ABC):
    """What readers have in common: what the store says of itself, read once by `introduce`."""

    def introduce(self, where: object, said: Mapping[str, str]) -> None:
        """Keep what the store says."""
        try:
            self._about: dict[str, Any] = json.loads(said["about"])
        except json.JSONDecodeError as error:
            raise BadFile(f"{where} must say in JSON what it is about; {error}") from error
        self._rule: Rule = "sum" if said["rule"] == "sum" else "first"
        self._fingerprint = said["fingerprint"]
        names = json.loads(said["experts"])
        self._experts = None if names is None else tuple(names)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def rule(self) -> Rule:
        """How rewards of one decision make one."""
        return self._rule

    @property
    def about(self) -> dict[str, Any]:
        """What was said about the experiment when the store was made."""
        return self._about

    @property
    def fingerprint(self) -> str:
        """That of the policy it was made with."""
        return self._fingerprint

    @property
    def experts(self) -> tuple[str, ...] | None:
        """The experts whose predictions the first decisions hold as advice; None where they hold none, or votes."""
        return self._experts

    @abstractmethod
    def close(self) -> None:
        """Let go of everything."""
