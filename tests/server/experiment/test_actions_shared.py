"""Actions where processes end, and on two replicas under load."""

import itertools
import json
import os
import signal
import threading
import time
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from oddsmith.files.policy import read_policy
from oddsmith.server.audit import verify
from oddsmith.server.store import open_reader
from server.offering import Client
from server.served import Elsewhere, place, process, wait
from server.store.postgres_server import Server

CONTROL = 'policy.share = 0.05\ncontrol = "arm:politics"\n'
STEPS = (
    "kill",
    "restore",
    "pause_arm",
    "freeze",
    "resume_arm",
    "learn",
    "set",
    "pause",
)
FIELDS: dict[str, dict[str, Any]] = {
    "pause_arm": {"arm": "tech"},
    "resume_arm": {"arm": "tech"},
    "set": {"gamma": 0.4},
}


class Load:
    """Clients that decide and reward at all replicas until they are told to stop."""

    def __init__(self, ports: list[int]) -> None:
        self.decided: list[tuple[float, float, str]] = []  # began, ended, state
        self._stop = threading.Event()
        self._ports = ports
        self._threads = [
            threading.Thread(target=self._work, args=(number,), daemon=True)
            for number in range(4)
        ]
        for thread in self._threads:
            thread.start()

    def _work(self, number: int) -> None:
        with Client(timeout=20) as client:
            for turn in itertools.count():
                if self._stop.is_set():
                    return
                base = f"http://127.0.0.1:{self._ports[(number + turn) % 2]}/v1"
                id = f"w{number}-{turn}"
                began = time.monotonic()
                body = {"id": id, "context": [turn % 5 / 5, 0.2]}
                answer = client.post(f"{base}/decide", json=body).json()
                state = "control" if answer["propensity"] == 1.0 else "policy"
                self.decided.append((began, time.monotonic(), state))
                client.post(f"{base}/reward", json={"id": id, "reward": turn % 2})

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(60)
            assert not thread.is_alive()


@pytest.mark.soak
def test_a_kill_reaches_two_replicas_under_load(
    server: Server, experiment: str, tmp_path: Path
) -> None:
    """No call that begins a second after the answer gets a draw of the policy."""
    files = []
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        store = f"store = {json.dumps(server.url())}\n"
        files.append(place(tmp_path / folder, experiment, top=CONTROL, service=store))
    with ExitStack() as stack:
        replicas = [stack.enter_context(process(file)) for file in files]
        load = Load([one.port for one in replicas])
        try:
            time.sleep(1.0)
            killed = _act(replicas[0], "kill")
            time.sleep(2.0)
            restored = time.monotonic()
            _act(replicas[1], "restore")
            time.sleep(2.0)
        finally:
            load.stop()
    states = {
        "policy": [one for one in load.decided if one[2] == "policy"],
        "control": [one for one in load.decided if one[2] == "control"],
    }
    assert not [one for one in states["policy"] if killed + 1 < one[0] < restored]
    assert len([one for one in states["control"] if killed + 1 < one[0] < restored]) > 9
    assert [one for one in states["policy"] if one[0] > restored + 1]
    with closing(open_reader(server.url(), experiment)) as reader:
        report = verify(reader, policy=read_policy(files[0]).policy)
        assert report.holds, str(report)
        assert not any(level.lacking for level in report.levels), str(report)


def _act(served: Elsewhere, action: str) -> float:
    """The time of the answer."""
    body = {"action": action, "reason": "a test"} | FIELDS.get(action, {})
    answer = served.client.post("/v1/actions", json=body)
    assert answer.status_code == 200, answer.text
    return time.monotonic()


@pytest.mark.parametrize("database", ["sqlite", "postgres"])
def test_answered_actions_survive_kills(
    database: str, request: Any, tmp_path: Path
) -> None:
    """kill -9 right after the answer of each action, and in the middle of one: what was
    answered is in force after the restart."""
    name, service, where = "news", "", str(tmp_path / "news.sqlite")
    if database == "postgres":
        name = request.getfixturevalue("experiment")
        where = request.getfixturevalue("server").url()
        service = f"store = {json.dumps(where)}\n"
    path = place(tmp_path, name, top=CONTROL, service=service)
    rng = np.random.default_rng(5)
    answered: list[str] = []
    for step in STEPS:
        with process(path) as served:
            decided = served.client.post(
                "/v1/decide", json={"id": f"{step}", "context": [0.1, 0.2]}
            ).json()
            is_control = decided["propensity"] == 1.0
            assert is_control == (answered[-1:] == ["kill"])
            _act(served, step)
            answered.append(step)
            reward = {"id": step, "reward": 0.5}
            assert served.client.post("/v1/reward", json=reward).status_code == 200
            torn = threading.Thread(target=_interrupted, args=(served.port,))
            torn.start()
            time.sleep(float(rng.uniform(0, 0.02)))
            os.kill(served.pid, signal.SIGKILL)
            torn.join(30)
    with process(path) as served:
        in_force = served.client.get("/v1/actions").json()["in_force"]
        assert (in_force["state"], in_force["gamma"]) == ("paused", 0.4)
        wait(lambda: served.client.get("/v1/posterior").json()["learnt"] == 5)
    with closing(open_reader(where, name)) as reader:
        sent = [json.loads(line.body or "")["action"] for line in reader.actions()]
        assert [one for one in sent if one != "finish"] == answered
        report = verify(reader, policy=read_policy(path).policy)
        assert report.holds, str(report)


def _interrupted(port: int) -> None:
    """An action that may or may not be written, and has no effect on decisions."""
    body = {"action": "finish", "verdict": "keep", "reason": "interrupted"}
    with suppress(httpx.HTTPError):
        httpx.post(f"http://127.0.0.1:{port}/v1/actions", json=body, timeout=5)
