"""SIGTERM under load: it says so first, answers what is under way, and nothing that was
answered is lost."""

import json
import os
import signal
import socket
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from server.live import Answer, listen
from server.offering import brought
from server.served import CONTEXT, Elsewhere, place, process, rows, wait

HEAD = b"POST /v1/decide HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s"
SLOW = """
import time
import oddsmith as od


def says(context):
    time.sleep(context["s"])
    return [0.2, 0.3, 0.4]


def bank(arms):
    return od.FunctionExperts({"one": says}, arms)
"""
PYTHON = '[experts.any]\nkind = "python"\nfactory = "slow_context:bank"\n'
HURRY = "from oddsmith.server.http import server\nserver.GRACE_S = 0.5\n"
BROKEN = (
    HURRY
    + """
from oddsmith.server.http import limits
limits.asyncio.CancelledError = KeyError    # what is under way is not answered at the end
"""
)


def decide(port: int, id: str, context: Any = CONTEXT) -> Answer | None:
    """The answer, whatever it is, or None where there was no connection."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=20) as line:
            body = json.dumps(
                brought("/v1/decide", {"id": id, "context": context})
            ).encode()
            line.sendall(HEAD % (len(body), body))
            return listen(line)
    except OSError:
        return None


class Load:
    """Eight clients that decide on connections of their own until there are none to be
    had."""

    def __init__(self, port: int) -> None:
        self.port, self.answers = port, dict[str, Answer]()
        self.threads = [
            threading.Thread(target=self._work, args=(number,), daemon=True)
            for number in range(8)
        ]
        for thread in self.threads:
            thread.start()

    def _work(self, number: int) -> None:
        for turn in range(10**9):
            answer = decide(self.port, f"{number}-{turn}")
            if answer is None:
                return
            self.answers[f"{number}-{turn}"] = answer

    def join(self) -> None:
        for thread in self.threads:
            thread.join(30)
            assert not thread.is_alive()


def ended(served: Elsewhere) -> bool:
    try:
        return (
            Path(f"/proc/{served.pid}/stat").read_text().rpartition(")")[2].split()[0]
            == "Z"
        )
    except FileNotFoundError:
        return True


@pytest.mark.usefixtures("arms_of_calls")
def test_under_load_every_answer_is_whole_and_on_disk(tmp_path: Path) -> None:
    with process(place(tmp_path), more=["--drain-s", "0.5"]) as served:
        load = Load(served.port)
        wait(lambda: len(load.answers) > 50)
        os.kill(served.pid, signal.SIGTERM)
        wait(lambda: served.client.get("/readyz").status_code == 503)
        said = served.client.get("/readyz").json()
        before = len(load.answers)
        load.join()
        wait(lambda: ended(served))
    assert said == {"ok": False, "experiments": {}, "stopping": True}
    assert len(load.answers) > before  # new requests are answered while it says so
    whole = {
        id
        for id, answer in load.answers.items()
        if answer.status == 200 and json.loads(answer.body)["id"] == id
    }
    # 0: the connection was closed, no answer
    assert {answer.status for answer in load.answers.values()} <= {200, 0}
    assert whole <= {row[2] for row in rows(tmp_path / "news.sqlite")}
    assert "Traceback" not in served.log.read_text()


def test_without_a_drain_phase_it_is_not_announced(tmp_path: Path) -> None:
    """Teeth: a server that stops at the first signal is gone before it could be
    seen."""
    at_once = "from oddsmith.server.http import server\nserver._Server.handle_exit = "
    at_once += 'lambda self, sig, frame: setattr(self, "should_exit", True)\n'
    with process(place(tmp_path), before=at_once, more=["--drain-s", "30"]) as served:
        statuses = []

        def is_gone() -> bool:
            try:
                statuses.append(served.client.get("/readyz").status_code)
            except httpx.TransportError:
                return True
            return 503 in statuses

        os.kill(served.pid, signal.SIGTERM)
        wait(is_gone)
    assert 503 not in statuses


@pytest.mark.parametrize("broken", [False, True])
def test_a_slow_request_is_answered_or_told_to_come_again(
    tmp_path: Path, broken: bool
) -> None:
    """One that takes no longer than the grace is answered; one that does gets 503,
    never 500."""
    (tmp_path / "slow_context.py").write_text(SLOW)
    answers = dict[str, Answer | None]()

    def ask(id: str, seconds: float) -> None:
        answers[id] = decide(served.port, id, {"s": seconds})

    with process(
        place(tmp_path, experts=PYTHON), before=BROKEN if broken else HURRY
    ) as served:
        cases = {"short": 0.0, "long": 25.0}
        threads = [threading.Thread(target=ask, args=case) for case in cases.items()]
        for thread in threads:
            thread.start()
        time.sleep(0.2)
        os.kill(served.pid, signal.SIGTERM)
        for thread in threads:
            thread.join(30)
        os.kill(served.pid, signal.SIGKILL)  # its expert has not finished
    short, long = answers["short"], answers["long"]
    assert short is not None
    assert long is not None
    assert short.status == 200
    if broken:
        assert long.status == 0  # teeth: no answer at all
    else:
        assert (long.status, long.code, long.headers["connection"]) == (
            503,
            "stopping",
            "close",
        )
    assert "short" in {row[2] for row in rows(tmp_path / "news.sqlite")}
