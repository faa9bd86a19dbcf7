"""Add arms to an experiment whose policy file has new arms. The log contains the first
arms, and an event for each addition."""

import logging
import time
from collections.abc import Sequence
from pathlib import Path

from oddsmith.core.errors import BadFile, Conflict, InvalidInput
from oddsmith.core.names import Arms
from oddsmith.core.policy import Policy
from oddsmith.server.fold.fold import Change, policy_at
from oddsmith.server.store.changes import arms_at
from oddsmith.server.store.events import ARMS, ConfigurationChange
from oddsmith.server.store.protocol import Store

__all__ = ["add_arms", "check_arms", "refusal", "served_arms"]

_log = logging.getLogger(__name__)
_NEW_LOG = "begin a new log: another store in [service]"
_FITTED = (
    f"{_NEW_LOG}, which may start from what `oddsmith fit` learns of `oddsmith export`"
)
_OUT = "to take an arm out, leave it out of `eligible` in calls"


def check_arms(path: Path, log: Sequence[str] | None, file: Arms | None) -> None:
    """Raise if the arms of a policy file do not begin with the arms of the log."""
    if log is None:
        if file is None:
            return
        raise BadFile(
            f"{path}: calls have passed their arms so far, and the file now has arms "
            f"of its own, {list(file)!r:.80}. Undo the change, or {_NEW_LOG}."
        )
    if file is None:
        raise BadFile(
            f"{path}: arms must be the same as in the log, {list(log)!r:.80}; the "
            "file has none, so calls would have to pass them. Undo the change, or "
            f"{_FITTED}."
        )
    if file[: len(log)] == tuple(log):
        return
    must = (
        f"arms must begin with those of the log, {list(log)!r:.160}, and new ones "
        "stand behind them"
    )
    got = f"got {list(file)!r:.160}. Undo the change"
    missing = [arm for arm in log if arm not in file]
    if missing:
        got = f"{missing[0]!r} is not there. Put it back: {_OUT}"
    raise BadFile(f"{path}: {must}; {got}; or {_NEW_LOG}.")


def served_arms(store: Store, position: int) -> Arms | None:
    """Return the arms at a position of the log; None if calls pass their arms."""
    names = arms_at(store, position)
    return None if names is None else Arms(names)


def refusal(path: Path, added: Sequence[str], error: Exception) -> BadFile:
    """Return the error for a policy that cannot gain arms."""
    got = f"{list(added)!r:.80} cannot be added to a log that has begun: {error}"
    return BadFile(f"{path}: arms {got}. Undo the change, or {_NEW_LOG}.")


def add_arms(
    store: Store, path: Path, arms: Arms, policy: Policy, change: Change
) -> None:
    """Write new arms of a policy file into the log. If several replicas have the same
    file, only one of them writes.

    `policy` is the first policy of the log. A change that the policy cannot make is not
    written.
    """
    known = arms_at(store, store.head()) or ()
    check_arms(path, known, arms)
    if len(known) == len(arms):
        return
    now = policy_at(store, policy, store.head(), change)
    try:
        now.with_arms(now.init(), arms)
    except InvalidInput as error:
        raise refusal(path, arms[len(known) :], error) from error
    key = f"after {len(known)} arms"
    event = ConfigurationChange(ARMS, list(arms), time.time(), key)
    (receipt,) = store.append([event]).result()
    if isinstance(receipt.refused, Conflict):
        raise BadFile(
            f"{path}: arms must be the same in the files of all replicas; another "
            "replica has added others at the same time: start again with one list"
        )
    receipt.accepted()
