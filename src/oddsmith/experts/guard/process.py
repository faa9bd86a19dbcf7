"""Isolated: experts in a separate process, whose crash does not end this one."""

import json
import os
import socket
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from oddsmith.contexts.schema import Schema
from oddsmith.core import errors
from oddsmith.core.arrays import Array, Bools, number
from oddsmith.core.decision import Context, State
from oddsmith.core.errors import ExpertFailed, InvalidInput, OddsmithError
from oddsmith.core.exact_json import Json, encode
from oddsmith.core.experts import Experts, arms_needed, refuse_offer
from oddsmith.core.names import check_names
from oddsmith.core.offer import AnyOffer
from oddsmith.experts.guard.failures import CallFailure, Record
from oddsmith.experts.guard.frames import receive, send
from oddsmith.experts.guard.pace import LONGEST_MS
from oddsmith.experts.guard.parts import RecordKeeper

__all__ = ["Isolated"]

_PROGRAM = "oddsmith.files.expert_process"
_START = 120.0  # seconds that a process may take to load its models
# Seconds to wait before restarting a process that has never answered.
_FIRST_PAUSE = 0.05
_LONGEST_PAUSE = 30.0
_Reply = tuple[dict[str, Any], list[Array]]


@dataclass(frozen=True, eq=False)
class Isolated(RecordKeeper, Experts):
    """Experts of one table of a policy file, of kind "python" or "onnx", in a child
    process.

    A segmentation fault, `os._exit` or too much memory ends only the child: the call
    raises ExpertFailed with kind "died". The child is restarted in the background,
    after a pause that doubles with each failure; calls before the restart have kind
    "starting". A call that takes longer than `timeout_ms` is "late", and the child is
    killed. Under `Guarded`, such calls have no prediction. Inside the child, experts
    are guarded one by one; a crash ends all experts of the table. Calls from several
    threads wait for each other, for at most another `timeout_ms`. The child always ends
    when this process ends. Contexts are sent as JSON (`oddsmith.core.exact_json`),
    predictions are returned as float64.

    `name` is NAME and `table` the content of the table [experts.NAME] of the policy
    file; `folder` contains its files. The fingerprint is that of the bank in the child.
    A restarted child with another bank, because its files have changed, is rejected.
    """

    name: str
    table: Mapping[str, object]
    # Required, although the base class has a default. None means that arms are passed
    # in each call.
    arms: Sequence[str] | None = field()
    schema: Schema | None = None
    folder: Path | str = "."
    timeout_ms: float = LONGEST_MS
    arm_schema: Schema | None = None
    names: Sequence[str] = field(init=False)
    _child: "_Child" = field(init=False, repr=False)
    record: Record = field(init=False, repr=False, default_factory=Record)

    def __post_init__(self) -> None:
        number("timeout_ms", self.timeout_ms, low=0, high=np.inf, open_low=True)
        if self.arms is not None:
            object.__setattr__(self, "arms", check_names("arms", self.arms))
        folder = str(Path(self.folder).resolve())
        order = {
            "name": self.name,
            "table": dict(self.table),
            "timeout_ms": self.timeout_ms,
            "arms": self.arms,
            "folder": folder,
            "schema": None if self.schema is None else asdict(self.schema),
            "arm_schema": None if self.arm_schema is None else asdict(self.arm_schema),
        }
        try:
            page = json.dumps(order)
        except (TypeError, ValueError) as error:
            raise InvalidInput(
                f"table must be JSON if experts are isolated; {error}"
            ) from error
        child = _Child(json.loads(page))
        object.__setattr__(self, "_child", child)
        object.__setattr__(self, "names", tuple(child.about["names"]))
        weakref.finalize(self, child.close)

    @property
    def about(self) -> dict[str, Any]:
        """Return a description of the bank in the child: `names`, `bounds` of
        predictions, and the parts of its fingerprint (`description`, `version`,
        `unversioned`, `opaque`)."""
        return self._child.about

    @property
    def version(self) -> str | None:
        if (version := self.about["version"]) is None:
            return None
        return str(version)

    @property
    def unversioned(self) -> bool:
        return bool(self.about["unversioned"])

    @property
    def takes_offers(self) -> bool:
        return self.arms is None

    def prediction_bounds(self, state: State) -> Array | None:
        bounds = self.about["bounds"]
        if bounds is None:
            return None
        return np.array(bounds)

    def close(self) -> None:
        """End the process; every later call fails with kind "died"."""
        self._child.close()

    def predict(self, state: State, context: Context) -> Array:
        return self.advise(state, context)[0]

    def advise(
        self, state: State, context: Context, eligible: Bools | None = None
    ) -> tuple[Array, Array]:
        if self.arms is not None:
            refuse_offer(self, context)
        elif not isinstance(context, AnyOffer):
            raise arms_needed(self)
        page = {
            "context": encode(context),
            "eligible": None if eligible is None else eligible.tolist(),
        }
        answer, arrays = self._child.ask(page, self.timeout_ms)
        if "kind" in answer:
            raise ExpertFailed(f"{answer['reason']}", kind=answer["kind"])
        for name, kind, reason in answer["failed"]:
            self.record.add([name], CallFailure(kind, reason))
        predictions, ballots = arrays
        return predictions, ballots


class _Child:
    """A child process that answers one frame at a time, and is restarted when it
    ends."""

    def __init__(self, order: dict[str, Json]) -> None:
        self._order = order
        self._lock = threading.RLock()
        self._closed = threading.Event()
        self._pause = _FIRST_PAUSE
        self._trouble = ""
        self._process: _Process | None = _Process(order)
        self.about = self._process.about

    def ask(self, page: dict[str, Json], timeout_ms: float) -> _Reply:
        """Return the answer to one frame, or raise ExpertFailed."""
        if not self._lock.acquire(timeout=timeout_ms / 1000):
            raise ExpertFailed(
                f"its process was busy with other calls for {timeout_ms:g} ms",
                kind="late",
            )
        try:
            if self._closed.is_set():
                raise ExpertFailed("its process is closed", kind="died")
            if self._process is None:
                raise ExpertFailed(
                    f"its process is being restarted{self._trouble}",
                    kind="starting",
                )
            # Start the deadline after waiting for other calls, which does not count as
            # this call's time.
            deadline = time.monotonic() + timeout_ms / 1000
            reply = self._exchange(self._process, page, deadline)
            self._pause = _FIRST_PAUSE
            return reply
        finally:
            self._lock.release()

    def _exchange(
        self, process: "_Process", page: dict[str, Json], deadline: float
    ) -> _Reply:
        try:
            return process.ask(page, deadline)
        except TimeoutError as error:
            self._replace(process)
            raise ExpertFailed(
                "was not done in time; its process was killed", kind="late"
            ) from error
        except (OSError, EOFError, ValueError, KeyError) as error:
            self._replace(process)
            raise ExpertFailed(
                f"its process ended ({process.ended(deadline)})", kind="died"
            ) from error
        # Replace the process, also after Ctrl-C: otherwise the next call would read the
        # answer of this one.
        except BaseException:
            self._replace(process)
            raise

    def _replace(self, process: "_Process") -> None:
        """Kill the process and start a new one in the background. The caller holds the
        lock."""
        process.kill()
        self._process = None
        thread = threading.Thread(
            target=self._start_again,
            args=(process,),
            name="oddsmith-restart",
            daemon=True,
        )
        thread.start()

    def _start_again(self, ended: "_Process") -> None:
        ended.close()
        self._trouble = ""
        while self._process is None and not self._closed.wait(self._pause):
            self._pause = min(2 * self._pause, _LONGEST_PAUSE)
            try:
                process = _Process(self._order)
            # keep trying: any error of the process or the machine may be temporary
            except Exception as error:
                self._trouble = f"; the last try: {error!s:.200}"
                continue
            if process.about == self.about:
                with self._lock:
                    self._process = process
            else:
                self._trouble = "; its files have changed and contain other experts"
                process.close()
        if self._closed.is_set():
            self.close()

    def close(self) -> None:
        self._closed.set()
        with self._lock:
            process = self._process
            self._process = None
        if process is not None:
            process.close()


class _Process:
    """One child process from start to end, and the socket to it."""

    def __init__(self, order: dict[str, Json]) -> None:
        self._link, theirs = socket.socketpair()
        with theirs:
            self._popen = _start_process(theirs)
        deadline = time.monotonic() + _START
        try:
            self.about, _ = self.ask(order, deadline)
        except BaseException as error:
            self.close()
            if not isinstance(error, OSError | EOFError | ValueError):
                raise
            raise ExpertFailed(
                "isolated experts must start; their process ended "
                f"({self.ended(deadline)})"
            ) from error
        if "refused" in self.about:
            self.close()
            name = self.about["kind"]
            kind: type[OddsmithError] = getattr(errors, name, InvalidInput)
            raise kind(self.about["refused"])

    def ask(self, page: dict[str, Json], deadline: float) -> _Reply:
        self._link.settimeout(max(1e-6, deadline - time.monotonic()))
        send(self._link, page)
        return receive(self._link, deadline)

    def kill(self) -> None:
        self._popen.kill()
        self._link.close()

    def ended(self, deadline: float) -> str:
        """Describe how the process ended, if it ends before the deadline."""
        try:
            code = self._popen.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            return "it has not ended yet"
        if code < 0:
            return f"signal {-code}"
        return f"exit status {code}"

    def close(self) -> None:
        """Kill the process and wait for its end, so that it does not remain as a
        zombie."""
        self.kill()
        self._popen.wait()


def _start_process(link: socket.socket) -> "subprocess.Popen[bytes]":
    """Start the process with one end of a socket as its standard input, and with the
    module path of this process."""
    path = os.pathsep.join(part or os.getcwd() for part in sys.path)
    command = [sys.executable, "-P", "-m", _PROGRAM]
    environment = os.environ | {"PYTHONPATH": path}
    return subprocess.Popen(
        command,
        stdin=link.fileno(),
        # stdout carries our messages, so models print to stderr
        stdout=subprocess.DEVNULL,
        env=environment,
        process_group=0,  # Ctrl-C must not reach the child: the parent ends it
    )
