"""`oddsmith serve` as a command: what it says, what it refuses, how it ends, what it
leaves."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from oddsmith.cli.main import main
from server.served import CONTEXT, place, process


def test_it_serves_ends_on_a_signal_and_starts_where_it_was(
    tmp_path: Path, capsys: Any
) -> None:
    file = place(tmp_path)
    with process(file) as served:
        first = served.client.post(
            "/v1/decide", json={"context": CONTEXT, "id": "a"}
        ).json()
        served.client.post("/v1/reward", json={"id": "a", "reward": 1})
        assert main(["serve", str(file), "--port", "0"]) == 1
        said = capsys.readouterr().err.strip().splitlines()
        assert (
            "must be used by one process at a time; it is in use by process "
            f"{served.pid}"
        ) in said[-1]
    log = served.log.read_text()
    assert f"experiment news of {file}, store {tmp_path / 'news.sqlite'}" in log
    assert "INFO stopped; all answered requests are on disk" in log
    assert "Traceback" not in log
    with closing(sqlite3.connect(tmp_path / "news.sqlite")) as store:
        assert store.execute("select position from snapshots").fetchall() == [(2,)]
    with process(file) as served:
        again = served.client.post(
            "/v1/decide", json={"context": CONTEXT, "id": "a"}
        ).json()
        assert again == first | {"new": False}
        assert served.client.get("/v1/posterior").json()["learnt"] == 1


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (
            ["--host", "0.0.0.0"],
            (
                "host must be 127.0.0.1, ::1 or localhost where there are no keys; got "
                "'0.0.0.0'"
            ),
        ),
        (["--port", "eighty"], "port must be a number from 0 to 65535; got 'eighty'"),
        (
            ["--keys", "absent.json"],
            "absent.json must be a file that `oddsmith keys create` wrote",
        ),
        (["again"], "experiments must have names of their own; got 'news' twice"),
    ],
)
def test_what_cannot_be_served_is_refused_in_one_sentence(
    tmp_path: Path, capsys: Any, options: list[str], says: str
) -> None:
    file = place(tmp_path)
    (tmp_path / "other").mkdir()
    twin = place(tmp_path / "other")
    more = [str(twin)] if options == ["again"] else options
    assert (
        main(
            ["serve", str(file), *more, *([] if "--port" in more else ["--port", "0"])]
        )
        == 2
    )
    said = capsys.readouterr().err.strip().splitlines()
    assert says in said[-1]
