"""Two replicas and a database with a password, started with the commands and variables
of the compose file."""

import re
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest

from containers.files import interpolated
from containers.running import SERVICE, contained, entry, healthy, placed
from server.served import wait
from server.store.postgres_server import Server

pytestmark = pytest.mark.soak
PASSWORD = "test-" + "7" * 24


class Replica(NamedTuple):
    """A running service, and what its container's environment would be."""

    client: httpx.Client
    environment: dict[str, str]
    child: "subprocess.Popen[bytes]"


@pytest.fixture
def database(server: Server) -> Iterator[dict[str, str]]:
    """PG… of a database whose user needs the password."""
    rules = server.folder / "pg_hba.conf"
    usual = rules.read_text()
    rules.write_text(f"local oddsmith oddsmith scram-sha-256\n{usual}")
    server.sql(f"create role oddsmith login password '{PASSWORD}'")
    server.sql("create database oddsmith owner oddsmith")
    server.sql("select pg_reload_conf()")
    told = {
        name: interpolated(value, {"ODDSMITH_DB_PASSWORD": PASSWORD})
        for name, value in SERVICE["environment"].items()
    }
    yield told | {"PGHOST": str(server.folder)}
    rules.write_text(usual)
    server.sql("select pg_reload_conf()")
    server.sql("drop database oddsmith with (force)")
    server.sql("drop role oddsmith")


@pytest.fixture
def container(tmp_path: Path, database: dict[str, str]) -> dict[str, str]:
    return contained(tmp_path) | database


@contextmanager
def replica(container: dict[str, str], folder: Path, number: int) -> Iterator[Replica]:
    words, log = (
        [placed(word, folder) for word in SERVICE["command"]],
        folder / f"{number}.log",
    )
    with open(log, "w") as said:
        child = subprocess.Popen(
            entry(*words), env=container, cwd=folder / "var", stdout=said, stderr=said
        )
    try:
        wait(lambda: "listening on" in log.read_text() or child.poll() is not None, 60)
        found = re.search(r"listening on http://127\.0\.0\.1:(\d+)", log.read_text())
        assert found, log.read_text()
        assert PASSWORD not in log.read_text()
        environment = container | {"ODDSMITH_PORT": found[1]}
        with httpx.Client(
            base_url=f"http://127.0.0.1:{found[1]}", timeout=30
        ) as client:
            yield Replica(client, environment, child)
    finally:
        child.terminate()
        assert child.wait(60) == 0


def keys(container: dict[str, str], folder: Path) -> str:
    """The key that the page's command makes."""
    made = subprocess.run(
        entry("keys", "create", "shop", "--scope", "decide", "reward", "read"),
        env=container,
        cwd=folder / "var",
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert (folder / "var" / "keys.json").exists()
    return made.stdout.split()[0]


def test_two_replicas_on_one_database(
    container: dict[str, str], tmp_path: Path, server: Server
) -> None:
    token = keys(container, tmp_path)
    with ExitStack() as stack:
        both = [
            stack.enter_context(replica(container, tmp_path, number))
            for number in range(2)
        ]
        for one in both:
            one.client.headers["Authorization"] = f"Bearer {token}"
            wait(lambda one=one: one.client.get("/readyz").status_code == 200)
            assert healthy(one.environment)
        asked = {
            "id": "visit-1",
            "context": {"hour": 9},
            "arms": ["article-17", "article-18"],
        }
        first, again = (
            one.client.post("/v1/decide", json=asked).json() for one in both
        )
        assert (first["arm"], first["new"], again["arm"], again["new"]) == (
            again["arm"],
            True,
            first["arm"],
            False,
        )
        assert (
            both[1]
            .client.post("/v1/reward", json={"id": "visit-1", "reward": 1})
            .json()["new"]
        )
        for one in both:
            wait(lambda one=one: one.client.get("/v1/posterior").json()["learnt"] == 1)
        server.sql("alter role oddsmith nologin")
        server.sql(
            "select pg_terminate_backend(pid) from pg_stat_activity where usename = "
            "'oddsmith'"
        )
        wait(lambda: not healthy(both[0].environment), 60)
        server.sql("alter role oddsmith login")
        wait(lambda: healthy(both[0].environment), 60)
    assert not healthy(both[0].environment)  # it is gone


def test_with_a_wrong_password_it_does_not_start_or_is_not_ready(
    container: dict[str, str], tmp_path: Path
) -> None:
    keys(container, tmp_path)
    words = [placed(word, tmp_path) for word in SERVICE["command"]]
    wrong = container | {"PGPASSWORD": "wrong"}
    done = subprocess.run(
        entry(*words),
        env=wrong,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 1
    assert "password" in done.stderr
    assert "wrong" not in done.stderr
