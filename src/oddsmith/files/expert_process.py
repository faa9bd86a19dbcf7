"""The process of `Isolated` experts: `python -m oddsmith.files.expert_process`, with a
socket as its standard input."""

import os
import resource
import select
import signal
import socket
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from oddsmith.contexts.schema import Schema
from oddsmith.core.errors import InvalidInput, OddsmithError
from oddsmith.core.exact_json import decode
from oddsmith.experts.guard.failures import CallFailure
from oddsmith.experts.guard.frames import LARGEST, receive, send
from oddsmith.experts.guard.guard import Guarded
from oddsmith.experts.guard.outcomes import Leaf, ask
from oddsmith.files.build import BuildContext
from oddsmith.files.experts import read_bank
from oddsmith.files.fingerprint import describe, opaque
from oddsmith.files.keys import Keys

__all__ = ["main"]

# Additional seconds after the timeout, after which the kernel ends an abandoned call.
_SPARE = 1.0


def main() -> None:
    """Create the experts that the first frame describes, then answer frames until the
    parent process ends."""
    link = _link()
    order, _ = receive(link)
    try:
        bank = _bank(order)
        bounds = bank.prediction_bounds(bank.init())
        about = {
            "bounds": None if bounds is None else bounds.tolist(),
            "names": list(bank.names),
            "version": bank.version,
            "description": describe(bank),
        }
        send(
            link,
            about | {"unversioned": bank.unversioned, "opaque": opaque(bank.experts)},
        )
    except OddsmithError as error:
        send(link, {"refused": str(error), "kind": type(error).__name__})
        return
    while True:
        page, _ = receive(link)
        signal.setitimer(
            signal.ITIMER_REAL, order["timeout_ms"] / 1000 + _SPARE
        )  # SIGALRM ends the process, even if the model never returns
        answer, arrays = _answer(bank, page)
        signal.setitimer(signal.ITIMER_REAL, 0)
        send(link, answer, arrays)


def _link() -> socket.socket:
    """Return the socket to the parent, moved away from stdin and stdout, which experts
    may use. End this process with the parent."""
    link = socket.socket(fileno=os.dup(0))
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    with suppress(OSError):
        os.dup2(2, 1)
    # Disable core dumps: writing one takes longer than the time limit of a call.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with suppress(OSError):
        # Let the kernel end this process before all others if memory runs out.
        Path("/proc/self/oom_score_adj").write_text("1000")
    threading.Thread(target=_end_with, args=(link,), daemon=True).start()
    return link


def _end_with(link: socket.socket) -> None:
    """End this process when the other end is closed, even during a call."""
    poll = select.poll()
    poll.register(link, getattr(select, "POLLRDHUP", 0))  # POLLHUP is always reported
    poll.poll()
    os._exit(0)


def _bank(order: dict[str, Any]) -> Guarded:
    schema, arm_schema = (
        None if order[what] is None else Schema(**order[what])
        for what in ("schema", "arm_schema")
    )
    arms = None if order["arms"] is None else tuple(order["arms"])
    build = BuildContext(Path(order["folder"]), arms, schema, arm_schema=arm_schema)
    bank = read_bank(
        order["name"], Keys(order["table"], f"experts.{order['name']}"), build
    ).experts
    if bank.learns:
        isolate = f"experts.{order['name']}.isolate"
        raise InvalidInput(
            f"{isolate} must be false for experts that learn, because what they have "
            "learnt is part of the state"
        )
    return Guarded(bank, arms=arms)


def _answer(bank: Guarded, page: dict[str, Any]) -> tuple[dict[str, Any], list[Any]]:
    eligible = (
        None if page["eligible"] is None else np.array(page["eligible"], dtype=np.bool_)
    )
    before = bank.failures()
    outcome = ask(
        Leaf(bank, ()),
        state=bank.init(),
        context=decode(page["context"]),
        eligible=eligible,
    )
    if isinstance(outcome, CallFailure):
        return outcome._asdict(), []
    if 16 * outcome[0].size > LARGEST // 2:
        return CallFailure(
            "shape", f"gave shape {outcome[0].shape}, which is too large"
        )._asdict(), []
    reasons, now = bank.reasons(), bank.failures()
    counted = [
        (name, kind, n) for name, counts in now.items() for kind, n in counts.items()
    ]
    failed = [
        (name, kind, reasons[name])
        for name, kind, n in counted
        if n != before.get(name, {}).get(kind)
    ]
    return {"failed": failed}, list(outcome)


if __name__ == "__main__":
    with suppress(EOFError, OSError):
        main()
    sys.stderr.flush()
    os._exit(0)  # do not wait for threads and exit handlers of the models
