"""Calls with a key while connections without one flood the service; `python -m
benchmarks.flood`.

The service, the flood and the callers are processes of this machine. The flood holds
2,000 connections from eight loopback addresses and opens each again as soon as it is
closed. One caller opens a connection for each call, another keeps one open, a third
asks `/healthz`. A call that fails, or takes longer than `PATIENCE`, is not answered.
"""

import argparse
import errno
import http.client
import json
import resource
import select
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from itertools import cycle
from pathlib import Path
from typing import NamedTuple

from benchmarks.timing import table

__all__ = ["Answers", "FLOODS", "flood"]

ADDRESSES = [f"127.0.0.{last}" for last in range(2, 10)]
PATIENCE = 5.0
PAUSE = 0.05
_HOST = b"Host: 127.0.0.1\r\n"
_HEAD = b"POST /v1/decide HTTP/1.1\r\n" + _HOST
_PROBE = b"GET /healthz HTTP/1.1\r\n" + _HOST + b"\r\n"
FLOODS = {
    "idle": [b""],
    "mixed": [b"", _HEAD, _HEAD + b"Content-Length: 9\r\n\r\n{", _PROBE, _PROBE * 9],
}
"""What the connections of a flood send, in turn."""


class Answers(NamedTuple):
    """The seconds of the calls that were answered, and how many were sent."""

    seconds: list[float]
    sent: int

    def within(self, limit: float) -> float:
        """The share of the calls that were answered within so many seconds."""
        return sum(one <= limit for one in self.seconds) / self.sent

    def quantile(self, share: float) -> float:
        """The time within which this share of the answers came."""
        ordered = sorted(self.seconds)
        if not ordered:
            return float("inf")
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def flood(kind: str, seconds: float, lines: int = 2_000) -> dict[str, Answers]:
    """The answers to each caller during a flood of `FLOODS`."""
    with (
        tempfile.TemporaryDirectory() as folder,
        _service(Path(folder)) as (port, key),
        _attack(port, kind, seconds, lines),
        closing(_connection(port)) as kept,
    ):
        callers = {
            "decide, new connections": _fresh_decide(port, key),
            "decide, one connection": _kept_decide(kept, key),
            "health, new connections": _health(port),
        }
        found: dict[str, Answers] = {}
        end = time.monotonic() + seconds

        def measure(name: str, call: Callable[[], None]) -> None:
            found[name] = _answers(call, end)

        threads = [
            threading.Thread(target=measure, args=caller) for caller in callers.items()
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return found


def attack(port: int, kind: str, seconds: float, lines: int) -> int:
    """Hold so many connections and open each again when it ends; return how many were
    opened."""
    contents = cycle(FLOODS[kind])
    sources = cycle(ADDRESSES)
    poll = select.epoll()
    held: dict[int, tuple[socket.socket, bytes]] = {}
    opened = 0
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        while len(held) < lines:
            line = _line(port, next(sources))
            poll.register(line, select.EPOLLOUT)
            held[line.fileno()] = line, next(contents)
            opened += 1
        for number, _ in poll.poll(0.1):
            line, content = held[number]
            if _goes_on(line, content):
                poll.modify(line, select.EPOLLIN)
                held[number] = line, b""
            else:
                poll.unregister(line)
                del held[number]
                line.close()
    for line, _ in held.values():
        line.close()
    return opened


def _line(port: int, source: str) -> socket.socket:
    """A connection under way."""
    line = socket.socket()
    line.setblocking(False)
    line.setsockopt(socket.IPPROTO_IP, _BIND_LATE, 1)
    line.bind((source, 0))
    code = line.connect_ex(("127.0.0.1", port))
    assert code in (0, errno.EINPROGRESS), code
    return line


_BIND_LATE = 24  # IP_BIND_ADDRESS_NO_PORT: the port is chosen for the destination


def _goes_on(line: socket.socket, content: bytes) -> bool:
    """Send what is to be sent, and read what came; whether the connection goes on."""
    try:
        if content:
            line.send(content)
        return line.recv(65_536) != b""
    except BlockingIOError:
        return line.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0
    except OSError:
        return False


@contextmanager
def _service(folder: Path) -> Iterator[tuple[int, str]]:
    """The port of a service with keys, and a key."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    from oddsmith.server.http.keys import create
    from server.served import place, process

    key = create(folder / "keys.json", "one", ["admin"])
    with process(place(folder), keys=folder / "keys.json") as served:
        yield served.port, key


@contextmanager
def _attack(port: int, kind: str, seconds: float, lines: int) -> Iterator[None]:
    """A flood by another process, once it has begun."""
    options = [str(port), kind, str(seconds + 3.0), str(lines)]
    flood = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.flood", "--attack", *options],
        cwd=Path(__file__).parents[1],
    )
    try:
        time.sleep(2.0)
        assert flood.poll() is None
        yield
    finally:
        flood.terminate()
        flood.wait(20)


def _answers(call: Callable[[], None], end: float) -> Answers:
    """Call until the end, with a pause after each call."""
    seconds = []
    sent = 0
    while time.monotonic() < end:
        sent += 1
        start = time.monotonic()
        with suppress(OSError, http.client.HTTPException):
            call()
            seconds.append(time.monotonic() - start)
        time.sleep(PAUSE)
    return Answers(seconds, sent)


def _decide(line: http.client.HTTPConnection, key: str) -> None:
    body = json.dumps({"context": [0.3, -0.7]})
    line.request("POST", "/v1/decide", body, {"Authorization": f"Bearer {key}"})
    answer = line.getresponse()
    answer.read()
    if answer.status != 200:
        raise http.client.HTTPException(answer.status)


def _connection(port: int) -> http.client.HTTPConnection:
    return http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)


def _fresh_decide(port: int, key: str) -> Callable[[], None]:
    def call() -> None:
        line = _connection(port)
        try:
            _decide(line, key)
        finally:
            line.close()

    return call


def _kept_decide(line: http.client.HTTPConnection, key: str) -> Callable[[], None]:
    def call() -> None:
        try:
            _decide(line, key)
        except BaseException:
            line.close()  # the next call opens it again
            raise

    return call


def _health(port: int) -> Callable[[], None]:
    def call() -> None:
        line = _connection(port)
        try:
            line.request("GET", "/healthz")
            if line.getresponse().status != 200:
                raise http.client.HTTPException
        finally:
            line.close()

    return call


def report(seconds: float) -> str:
    """The table."""
    rows = []
    for kind in FLOODS:
        for caller, answers in flood(kind, seconds).items():
            rows.append(
                [
                    kind,
                    caller,
                    f"{answers.sent:,}",
                    f"{answers.within(1.0):.1%}",
                    f"{answers.quantile(0.5) * 1000:.0f}",
                    f"{answers.quantile(0.99) * 1000:.0f}",
                ]
            )
    head = ["flood", "caller", "calls", "within 1 s", "median ms", "p99 ms"]
    return table(head, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--attack", nargs=4, metavar=("PORT", "KIND", "S", "LINES"))
    asked = parser.parse_args()
    if asked.attack is None:
        print(report(asked.seconds))
        return
    port, kind, seconds, lines = asked.attack
    # the service keeps the usual limit of open files, the flood takes what it gets
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    print("opened", attack(int(port), kind, float(seconds), int(lines)))


if __name__ == "__main__":
    main()
