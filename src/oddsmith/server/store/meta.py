"""The table `meta` of a store: format, policy, reward rule and facts of the experiment.

`secret` is the key of the digests of names and categories in states. `epochs` contains
the unique names of the store, newest last, each with the last position before the name
was used. Every restore adds a name. `backup` contains the time of a backup and, in a
restored store, the time of the restore.
"""

import json
import re
import secrets
from collections.abc import Mapping
from typing import TypeAlias

from oddsmith.core.errors import BadFile, InvalidInput
from oddsmith.core.policy import Policy
from oddsmith.files.fingerprint import describe, difference, fingerprint
from oddsmith.logs.advice import named_advice
from oddsmith.server.store.formats import steps_from
from oddsmith.server.store.protocol import RULES, BackupFacts, Late, Rule

__all__ = [
    "About",
    "AnotherPolicy",
    "FORMAT",
    "UNRELEASED",
    "backup_facts",
    "backup_row",
    "check_format",
    "check_owner",
    "check_rule",
    "meta_of",
    "new_epoch",
    "new_meta",
    "number_of",
]

FORMAT = "oddsmith store 3"
UNRELEASED = "oddsmith store 1"  # format of stores that do not record one
_FIRST_RELEASED = 3
_NEXT = (
    "Undo the change, or keep this log and begin a new one: another store (or "
    "experiment) for the changed policy. It may begin with what this one has learnt: "
    "oddsmith export STORE --out log.parquet, then oddsmith fit log.parquet --policy "
    "FILE --out start.npz, and in [service] of FILE a new store and "
    'start = "start.npz"; see "Another policy, or another gamma" in '
    "docs/howto/run-the-service.md"
)
_JOINS = (
    ". Or leave the old models as they are, and let the retrained ones join beside "
    "them: a table of experts with joins = true (docs/reference/service.md, Experts "
    "that join and retire)."
)


About: TypeAlias = Mapping[str, object]
"""Facts about an experiment that can be written as JSON."""


class AnotherPolicy(BadFile):
    """The store is the log of another policy. `about` contains the facts that the store
    was created with."""

    def __init__(self, sentence: str, about: About) -> None:
        super().__init__(sentence)
        self.about = about


def backup_facts(meta: Mapping[str, str]) -> BackupFacts | None:
    """Return the facts of a backup, or of the backup that a store was restored from."""
    if "backup" not in meta:
        return None
    return BackupFacts(**json.loads(meta["backup"]))


def backup_row(facts: BackupFacts) -> tuple[str, str]:
    """Return the row of the table `meta` for a backup."""
    return "backup", json.dumps(facts._asdict())


def check_rule(rule: str, late: str) -> None:
    """Raise if a reward rule is unknown."""
    if rule not in RULES:
        *others, last = map(repr, RULES)
        raise InvalidInput(f"rule must be {', '.join(others)} or {last}; got {rule!r}")
    if late not in ("arrives", "rewrites"):
        raise InvalidInput(f"late must be 'arrives' or 'rewrites'; got {late!r}")


def meta_of(
    policy: Policy | Mapping[str, str], rule: Rule, late: Late, about: About
) -> dict[str, str]:
    """Return the table `meta` of a new store of this policy and these rules. If
    `policy` is already such a table, return it unchanged."""
    if isinstance(policy, Mapping):
        return dict(policy)
    return {
        "format": FORMAT,
        "fingerprint": fingerprint(policy),
        "policy": json.dumps(describe(policy)),
        "rule": rule,
        "late": late,
        "about": json.dumps(about),
        "experts": json.dumps(named_advice(policy)),
    }


def new_meta(mine: Mapping[str, str], *, gapless: bool) -> dict[str, str]:
    """Return the table `meta` of a new store: the values of `mine`, and values that are
    unique to the store."""
    meta = dict(mine)
    meta["secret"] = secrets.token_hex(16)
    meta["epochs"] = json.dumps([new_epoch(0)])
    meta["gapless"] = json.dumps(gapless)
    return meta


def new_epoch(after: int) -> tuple[str, int]:
    """Return a new name for the store, and the position after which it is used."""
    return secrets.token_hex(8), after


def check_format(where: object, got: str | None) -> None:
    """Raise if a store does not have the current format."""
    if 0 < number_of(got) < _FIRST_RELEASED:
        raise BadFile(
            f"{where} is of format {got!r}, which was never released and is not read: "
            "begin a new store"
        )
    if got == FORMAT:
        return
    if steps_from(str(got)):
        raise BadFile(
            f"{where} must be of format {FORMAT!r}; got {got!r}: oddsmith upgrade "
            "STORE converts it"
        )
    if number_of(got) > number_of(FORMAT):
        raise BadFile(
            f"{where} has format {got!r}, which only a newer version of oddsmith can "
            "read; upgrade oddsmith"
        )
    found = "it is none" if got is None else f"got {got!r}"
    raise BadFile(f"{where} must be a store of format {FORMAT!r}; {found}")


def number_of(format: str | None) -> int:
    """Return the number in the name of a store format; 0 for other names.

    >>> number_of("oddsmith store 12"), number_of("oddsmith state 2"), number_of(None)
    (12, 0, 0)
    """
    match = re.fullmatch(r"oddsmith store (\d{1,9})", format or "")
    return int(match[1]) if match else 0


def check_owner(
    where: object, meta: Mapping[str, str], mine: Mapping[str, str]
) -> None:
    """Raise if a store belongs to another policy or rule, or is a backup.

    A backup is never written to, because its copies would have the same name.
    """
    backup = backup_facts(meta)
    if backup is not None and backup.restored is None:
        raise BadFile(
            f"{where} is a backup, which cannot be written to; make a store of it with "
            "oddsmith restore"
        )
    if meta["fingerprint"] != mine["fingerprint"]:
        changed = difference(json.loads(meta["policy"]), json.loads(mine["policy"]))
        joins = _JOINS if ".version was " in changed else ""
        sentence = f"{where} is the log of another policy: {changed}. {_NEXT}{joins}"
        raise AnotherPolicy(sentence, json.loads(meta["about"]))
    if meta["rule"] != mine["rule"]:
        raise BadFile(
            f"{where} was made with the reward rule {meta['rule']!r}; got "
            f"{mine['rule']!r}. {_NEXT}"
        )
    if meta["late"] != mine["late"]:
        raise BadFile(
            f"{where} was made with late_reward = {meta['late']!r}; got late_reward = "
            f"{mine['late']!r}. {_NEXT}"
        )
