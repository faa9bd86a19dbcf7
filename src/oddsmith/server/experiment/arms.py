"""Arms that were added to a policy file: the log goes on with the policy it was begun
with, and says that it widens."""

import logging
import time
from collections.abc import Sequence
from pathlib import Path

from oddsmith.core.errors import BadFile, Conflict, InvalidInput
from oddsmith.core.names import Arms
from oddsmith.core.policy import Policy
from oddsmith.server.fold.fold import Change, policy_at
from oddsmith.server.fold.protocol import Step
from oddsmith.server.store.changes import arms_at, arms_of
from oddsmith.server.store.events import ARMS, ConfigurationChange
from oddsmith.server.store.protocol import Line, Store

__all__ = ["add_arms", "arms_after", "check_arms", "refusal", "served_arms"]

_log = logging.getLogger(__name__)
_NEW_LOG = "begin a new log: another store in [service]"
_FITTED = (
    f"{_NEW_LOG}, which may start from what `oddsmith fit` learns of `oddsmith export`"
)
_OUT = "an arm is taken out by calls whose `eligible` leaves it out"


def check_arms(path: Path, log: Sequence[str] | None, file: Arms | None) -> None:
    """Refuses a file that does not have the arms of the log first."""
    if log is None and file is not None:
        got = (
            "came with calls so far; the file now has arms of its own, "
            f"{list(file)!r:.80}"
        )
        raise BadFile(f"{path}: arms {got}. Undo the change, or {_NEW_LOG}.")
    if log is not None and file is None:
        got = (
            f"must be there as in the log, {list(log)!r:.80}; the file has none, so "
            "that they would come with calls"
        )
        raise BadFile(f"{path}: arms {got}. Undo the change, or {_FITTED}.")
    if log is None or file is None or file[: len(log)] == tuple(log):
        return
    must = (
        f"arms must begin with those of the log, {list(log)!r:.160}, and new ones "
        "stand behind them"
    )
    lost = [arm for arm in log if arm not in file]
    got = f"{lost[0]!r} is not there" if lost else f"got {list(file)!r:.160}"
    undo = f"Put it back, for {_OUT}" if lost else "Undo the change"
    raise BadFile(f"{path}: {must}; {got}. {undo}; or {_NEW_LOG}.")


def served_arms(store: Store, position: int) -> Arms | None:
    """The arms as of a position; None where they come with calls."""
    names = arms_at(store, position)
    return None if names is None else Arms(names)


def arms_after(
    steps: Sequence[Step], arms: Arms | None, experiment: str
) -> Arms | None:
    """The arms after these steps of a fold; those that another replica has added are
    told in the log."""
    for item in (step.item for step in steps):
        if isinstance(item, Line) and (names := arms_of(item)) is not None:
            arms = Arms(names)
            _log.warning(
                "experiment %s has the arms %s from now on: its file must name them",
                experiment,
                list(arms),
            )
    return arms


def refusal(path: Path, added: Sequence[str], error: Exception) -> BadFile:
    """What is said where the policy cannot gain arms."""
    got = f"{list(added)!r:.80} cannot be added to a log that has begun: {error}"
    return BadFile(f"{path}: arms {got}. Undo the change, or {_NEW_LOG}.")


def add_arms(
    store: Store, path: Path, arms: Arms, policy: Policy, change: Change
) -> None:
    """Write the arms that a file has gained into the log, once: replicas with the same
    file say the same.

    `policy` is the one the log was begun with. What could not be folded does not get
    into the log.
    """
    there = arms_at(store, store.head()) or ()
    check_arms(path, there, arms)
    if len(there) == len(arms):
        return
    now = policy_at(store, policy, store.head(), change)
    try:
        now.with_arms(now.init(), arms)
    except InvalidInput as error:
        raise refusal(path, arms[len(there) :], error) from error
    event = ConfigurationChange(
        ARMS, list(arms), time.time(), f"after {len(there)} arms"
    )
    (receipt,) = store.append([event]).result()
    if isinstance(receipt.refused, Conflict):
        other = "another replica has added others at the same time"
        raise BadFile(
            f"{path}: arms must be the same in the files of all replicas; {other}: "
            "start again with one list"
        )
    receipt.accepted()
