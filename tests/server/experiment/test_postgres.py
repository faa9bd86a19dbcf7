"""The service on PostgreSQL: replicas agree with the full replay (F7), and a database
that dies is a 503 (F3)."""

import itertools
import json
import os
import signal
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from oddsmith.core.weights import posterior
from oddsmith.files.policy import read_policy
from oddsmith.server.audit import verify
from oddsmith.server.fold.judge import judge_from_json
from oddsmith.server.store import PostgresReader
from server.offering import Client
from server.served import Elsewhere, place, process, wait
from server.statistics.with_sums import restore, sums_of
from server.store.postgres_server import Server
from server.store.samples import WithoutSnapshots


def replica(folder: Path, server: Server, experiment: str) -> Path:
    """The policy file of one replica, in a folder of its own."""
    folder.mkdir()
    return place(
        folder,
        experiment,
        service=f"store = {json.dumps(server.url())}\nsnapshot_every = 50\n",
    )


class Writers:
    """Clients that decide and reward at any replica, and go to another when one does
    not answer."""

    def __init__(self, replicas: list[Elsewhere], number: int) -> None:
        self.replicas, self.answered = replicas, set[tuple[str, str]]()
        self.statuses: dict[int, int] = {}
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._write, args=(name,), daemon=True)
            for name in range(number)
        ]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(60)
            assert not thread.is_alive()

    def _write(self, name: int) -> None:
        with Client(timeout=20) as client:
            for turn in itertools.count():
                id = f"w{name}-{turn}"
                for kind, body in (
                    ("decide", {"id": id, "context": [turn % 5 / 5, name / 8]}),
                    ("reward", {"id": id, "reward": turn % 2}),
                ):
                    if not self._sent(client, kind, body, name + turn):
                        return
                    self.answered.add((kind.replace("decide", "decision"), id))

    def _sent(self, client: httpx.Client, kind: str, body: Any, which: int) -> bool:
        """Whether it was answered before the end: the same call, again and again, as
        idempotence allows."""
        for attempt in itertools.count(which):
            if self._stop.is_set():
                return False
            port = self.replicas[attempt % len(self.replicas)].port
            try:
                status = client.post(
                    f"http://127.0.0.1:{port}/v1/{kind}", json=body
                ).status_code
            except httpx.TransportError:
                time.sleep(0.02)
                continue
            self.statuses[status] = self.statuses.get(status, 0) + 1
            if status == 200:
                return True
            time.sleep(0.02)
        raise AssertionError


def check(
    replicas: list[Elsewhere],
    server: Server,
    file: Path,
    answered: set[tuple[str, str]],
) -> None:
    """Nothing answered is lost, nothing is there twice, and every replica is the full
    replay, bit for bit."""
    experiment = file.stem
    with PostgresReader(server.url(), experiment=experiment) as reader:
        head = reader.head()
        lines = [(line.kind, line.id) for line in reader.lines(0, head)]
        assert len(set(lines)) == len(lines)
        assert answered <= set(lines)
        bare: Any = WithoutSnapshots(reader)
        folded = restore(bare, judge_from_json(reader.about["judge"]))
        verdict = verify(reader, policy=read_policy(file).policy)
    assert verdict.holds, verdict
    assert all(level.untested == {} for level in verdict.levels)
    for one in replicas:
        wait(lambda one=one: one.client.get("/v1/posterior").json()["position"] >= head)
        said = one.client.get("/v1/posterior").json()
        assert (
            list(said["posterior"].values())
            == posterior(folded.state.log_weights).tolist()
        )
        assert said["learnt"] == folded.state.learnt
        stats = one.client.get("/v1/stats?limit=1000").json()
        counts = {
            arm: (count["decided"], count["rewarded"])
            for arm, count in stats["arms"].items()
        }
        by_name = {arm: one[1:3] for arm, one in sums_of(folded).arms.by_name.items()}
        assert by_name == {
            arm: count for arm, count in counts.items() if count != (0, 0)
        }
    assert all(figures(one) == figures(replicas[0]) for one in replicas)


def figures(replica: Elsewhere) -> list[Any]:
    """What a page shows of a replica, but for what is its own."""
    paths = [
        *(f"/v1/series?range={what}" for what in ("hour", "day", "week", "all")),
        "/v1/posterior/history",
    ]
    checks = replica.client.get("/v1/checks").json()
    own = [
        checks[name]
        for name in (
            "position",
            "served_as_logged",
            "calibration",
            "rewarded",
            "last_learnt_t",
        )
    ]
    return [*(replica.client.get(path).json() for path in (*paths, "/v1/values")), own]


@pytest.mark.usefixtures("any_arms")
def test_replicas_are_the_full_replay_though_one_is_killed(
    server: Server, experiment: str, tmp_path: Path
) -> None:
    files = [replica(tmp_path / name, server, experiment) for name in ("one", "two")]
    with ExitStack() as stack:
        replicas = [stack.enter_context(process(file)) for file in files]
        writers = Writers(replicas, 8)
        wait(lambda: len(writers.answered) > 150)
        os.kill(replicas[1].pid, signal.SIGKILL)
        wait(lambda: len(writers.answered) > 300)  # the other one goes on
        replicas[1] = stack.enter_context(process(files[1]))
        wait(lambda: len(writers.answered) > 450)
        writers.stop()
        assert set(writers.statuses) == {200}
        check(replicas, server, files[0], writers.answered)


@pytest.mark.usefixtures("arms_of_calls")
def test_a_database_that_dies_is_a_503_and_comes_back(
    server: Server, experiment: str, tmp_path: Path
) -> None:
    file = replica(tmp_path / "one", server, experiment)
    with process(file) as one:
        writers = Writers([one], 4)
        for _ in range(2):
            before = len(writers.answered)
            wait(lambda before=before: len(writers.answered) > before + 60)
            server.kill()
            refused = writers.statuses.get(503, 0)
            wait(lambda refused=refused: writers.statuses.get(503, 0) > refused)
            assert one.client.get("/healthz").status_code == 200
            assert one.client.get("/readyz").status_code == 503
            assert one.client.get("/metrics").status_code == 200
            server.start()
        before = len(writers.answered)
        wait(lambda: len(writers.answered) > before + 60)  # by itself
        writers.stop()
        assert set(writers.statuses) == {200, 503}
        wait(lambda: one.client.get("/readyz").status_code == 200)
        check([one], server, file, writers.answered)
