"""A service that is killed between the commit of a decision and its answer, and comes
back on the same port."""

import socket
from pathlib import Path

import pytest

import oddsmith as od
from oddsmith.client import Reported
from oddsmith.server.audit import export
from oddsmith.server.store import SQLiteReader
from server.served import place, process

DIES = """
import os, signal
from oddsmith.server.http.routes import decide
async def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)
assert decide.complete
decide.complete = die
"""


def free_port() -> str:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return str(one.getsockname()[1])


@pytest.mark.soak
def test_what_was_committed_before_the_kill_is_not_what_was_shown(
    tmp_path: Path,
) -> None:
    file, port = place(tmp_path), ["--port", free_port()]
    with process(file, before=DIES, more=port) as served:
        client = od.Client(f"http://127.0.0.1:{served.port}", timeout=60, retries=2)
        shown = client.decide([0.3, -0.7], fallback="sports")
        assert shown.fallback
        assert client.reward(shown.id, 1).parked
    with process(file, more=port) as served, client:
        assert client.report() == Reported(sent=2, waiting=0, refused=0, dropped=0)
        assert client.decision(shown.id).shadow
        assert client.stats()["events"] == {"decision": 2, "reward": 1}
    with SQLiteReader(tmp_path / "news.sqlite") as reader:
        counts = export(reader, tmp_path / "log.jsonl")
    assert (counts.rows, counts.rewarded, counts.shadows, counts.unshown) == (
        1,
        1,
        1,
        1,
    )
