"""What the dearest requests of callers without a key cost the service; `python -m
benchmarks.strangers`.

The service runs in a process of its own, with keys. Each request is sent many times, on
fresh connections where it ends them; CPU is the server's, user and system, a request,
the accepting of connections included. Memory is what the server holds more after all of
them. `/readyz` is asked of a service of 50 experiments.
"""

import argparse
import os
import socket
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from benchmarks.timing import table

HEAD = b"Host: 127.0.0.1\r\n"
WRONG = b"Authorization: Bearer od_" + b"A" * 43 + b"\r\n"
MANY = 50  # experiments
_ABOUT = """Cost of the most expensive requests without a key, on a service with keys: CPU time of the server (user and
system) per request, with its connection. The service of `/readyz` has 50 experiments."""


class Cost(NamedTuple):
    """Of one request: milliseconds of CPU, bytes that came back, and megabytes held
    after all of them."""

    ms: float
    sent: int
    megabytes: float


class Case(NamedTuple):
    """A request, sent so many times; `reads` is false for who does not read the
    answer."""

    name: str
    request: bytes
    times: int = 300
    reads: bool = True


def _post(path: bytes, body: bytes, more: bytes = b"") -> bytes:
    length = b"Content-Length: %d\r\n\r\n" % len(body)
    return b"POST " + path + b" HTTP/1.1\r\n" + HEAD + WRONG + more + length + body


def _get(path: bytes, more: bytes = b"", method: bytes = b"GET") -> bytes:
    return method + b" " + path + b" HTTP/1.1\r\n" + HEAD + more + b"\r\n"


def cases() -> list[Case]:
    """The dearest that we could think of."""
    chunks = b"Transfer-Encoding: chunked\r\n\r\n" + b"1\r\n[\r\n" * 30_000
    many = b"".join(b"x-%02d: %s\r\n" % (i, b"y" * 200) for i in range(60))
    return [
        Case(
            "a key of full length that is none",
            _post(b"/v1/decide", b'{"context": [1]}'),
        ),
        Case(
            "1 MiB of `[],` to a batch",
            _post(b"/v1/decide/batch", b"[]," * 349_525),
            200,
        ),
        Case(
            "30,000 chunks of one byte",
            b"POST /v1/decide HTTP/1.1\r\n" + HEAD + WRONG + chunks,
            200,
        ),
        Case(
            "a body of which nothing comes",
            _post(b"/v1/decide", b"")[:-5] + b"50000\r\n\r\n",
        ),
        Case("60 headers of 200 bytes", _get(b"/v1/stats", many)),
        Case("a head of 32 KB", _get(b"/v1/stats", b"x: " + b"y" * 32_000 + b"\r\n")),
        Case("a path of 2,000 bytes that is not known", _get(b"/" + b"v1/decid" * 249)),
        Case(
            "a path that resembles all others",
            _get(b"/v1/decisions/x/re/de/po/st/batc"),
        ),
        Case("a wrong method", _get(b"/v1/decide", method=b"PUT")),
        Case("HEAD of the document", _get(b"/openapi.json", method=b"HEAD")),
        Case("the document", _get(b"/openapi.json")),
        Case(
            "400 times the document at once, not read",
            _get(b"/openapi.json") * 400,
            100,
            reads=False,
        ),
        Case(f"/readyz of {MANY} experiments", _get(b"/readyz")),
        Case("a connection, and nothing", b"", 300, reads=False),
        Case("what is not HTTP", b"\x16\x03\x01" + b"\x00" * 200),
    ]


@contextmanager
def _server(folder: Path) -> Iterator[tuple[int, int]]:
    """Port and process of a service with keys, and many experiments."""
    import sys

    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    from oddsmith.server.http.keys import create
    from server.served import place, process

    create(folder / "keys.json", "one", ["admin"])
    files = [place(folder, f"e{number}") for number in range(MANY)]
    with process(*files, keys=folder / "keys.json") as served:
        served.client.close()
        yield served.port, served.pid


def _cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _memory(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf(
        "SC_PAGE_SIZE"
    )


def _ask(port: int, case: Case) -> tuple[int, socket.socket]:
    """Bytes of the answer, and the connection."""
    line = socket.create_connection(("127.0.0.1", port), timeout=10)
    # it has had enough, and its answer can still be read
    with suppress(ConnectionError):
        line.sendall(case.request)
    return _answered(line, case.request[:4] == b"HEAD") if case.reads else 0, line


def _answered(line: socket.socket, head_only: bool) -> int:
    """The bytes of one answer."""
    taken = b""
    with suppress(ConnectionError):
        while part := line.recv(1 << 20):
            taken += part
            head, gap, _ = taken.partition(b"\r\n\r\n")
            length = (
                0
                if head_only
                else int(
                    head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0]
                )
            )
            if gap and len(taken) >= len(head) + 4 + length:
                break
    return len(taken)


def cost(port: int, pid: int, case: Case) -> Cost:
    """What one request of this kind costs the server."""
    memory, cpu, start = _memory(pid), _cpu(pid), time.perf_counter()
    size, held = 0, []
    for _ in range(case.times):
        size, line = _ask(port, case)
        held.append(line) if not case.reads else line.close()
    time.sleep(0.3)
    used, seconds = _cpu(pid) - cpu, time.perf_counter() - start
    idle = _idle(pid) * seconds
    grown = _memory(pid) - memory
    for line in held:
        line.close()
    return Cost(max(0.0, used - idle) / case.times * 1000, size, max(0, grown) / 1e6)


def _idle(pid: int) -> float:
    """The share of a core that the service uses by itself."""
    if not _IDLE:
        cpu = _cpu(pid)
        time.sleep(3.0)
        _IDLE.append((_cpu(pid) - cpu) / 3.0)
    return _IDLE[0]


_IDLE: list[float] = []


def report() -> str:
    """The table."""
    rows = []
    with tempfile.TemporaryDirectory() as place, _server(Path(place)) as (port, pid):
        _idle(pid)
        for case in cases():
            found = cost(port, pid, case)
            rows.append(
                [
                    case.name,
                    f"{found.ms:.2f}",
                    f"{found.sent:,}",
                    f"{found.megabytes:.1f}",
                ]
            )
            with closing(
                socket.create_connection(("127.0.0.1", port), timeout=10)
            ) as line:
                line.sendall(_get(b"/healthz"))
                assert b" 200 " in line.recv(100), case.name  # it lives, and has room
    header = ["request without a key", "CPU ms", "bytes answered", "MB held after all"]
    return "\n".join(
        ["## Unauthenticated clients", "", _ABOUT, "", table(header, rows), ""]
    )


def main() -> None:
    """Measure and print."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    print(report())


if __name__ == "__main__":
    main()
