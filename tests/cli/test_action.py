"""`oddsmith action`: through a service, into a file, and into a database."""

import json
import time
from contextlib import closing
from pathlib import Path
from typing import Any, get_args

import pytest

from oddsmith.cli import action
from oddsmith.cli.main import main
from oddsmith.server.http.keys import create
from oddsmith.server.store import open_reader
from oddsmith.server.store.events import ActionName
from server.served import here, place, process
from server.store.postgres_server import Server

CONTROL = 'policy.share = 0.05\ncontrol = "arm:politics"\n'


def said(capsys: Any, *words: str, code: int = 0) -> str:
    assert main(["action", *words]) == code
    out = capsys.readouterr()
    return str(out.err if code else out.out)


def test_through_a_service_with_a_key(tmp_path: Path, capsys: Any) -> None:
    keys = tmp_path / "keys.json"
    tokens = {scope: create(keys, scope, [scope]) for scope in ("operate", "decide")}
    with process(place(tmp_path, top=CONTROL), keys=keys) as served:
        url = f"http://127.0.0.1:{served.port}"
        words = [url, "pause_arm", "--arm", "tech", "--reason", "sold out"]
        key = ["--key", tokens["operate"]]
        assert "from position 1 on" in said(capsys, *words, *key, "--request-id", "r1")
        assert "written before" in said(capsys, *words, *key, "--request-id", "r1")
        assert "paused already" in said(capsys, *words, *key, code=2)
        refused = said(capsys, *words, "--key", tokens["decide"], code=2)
        assert "scope operate" in refused
        change = ["set", "--caps", "sports=0.5", "--gamma", "0.3", "--reason", "slow"]
        found = json.loads(said(capsys, url, *change, *key, "--json"))
        assert found["in_force"]["caps"] == {"sports": 0.5}
        reset = ["set", "--caps", "file", "--reason", "as before"]
        found = json.loads(said(capsys, url, *reset, *key, "--json"))
        assert (found["in_force"]["caps"], found["in_force"]["gamma"]) == (None, 0.3)
    with closing(open_reader(str(tmp_path / "news.sqlite"))) as store:
        assert {line.sender for line in store.actions()} == {"operate"}


def test_into_a_file_that_no_service_has_open(tmp_path: Path, capsys: Any) -> None:
    path = place(tmp_path, top=CONTROL)
    file = str(tmp_path / "news.sqlite")
    with here(path) as served:
        served.decide("v1")
        text = said(capsys, file, "pause", "--reason", "a test", code=1)
        assert "send the action to the address of its service" in text
    assert "pause applies" in said(capsys, file, "pause", "--reason", "a test")
    refusals = (
        (["pause"], "paused already"),
        (["pause_arm", "--arm", "tehc"], "did you mean tech"),
        (["set", "--caps", "0.2"], "caps"),
        (["set", "--caps", "tech"], "ARM=NUMBER"),
        (["holdout", "--share", "1"], "share"),
    )
    for words, text in refusals:
        assert text in said(capsys, file, *words, "--reason", "a test", code=2)
    with here(path) as served:
        assert served.decide("v2")["propensity"] == 1
        (listed,) = served.get("/v1/actions")["actions"]
        assert listed["sender"] == "shell"


def test_into_a_database_beside_a_replica(
    server: Server, experiment: str, tmp_path: Path, capsys: Any
) -> None:
    store = f"store = {json.dumps(server.url())}\n"
    path = place(tmp_path, experiment, top=CONTROL, service=store)
    with process(path) as replica:
        words = [server.url(), "kill", "--experiment", experiment, "--reason", "a test"]
        assert "kill applies" in said(capsys, *words)
        listed: Any = {}
        for _ in range(100):
            listed = replica.client.get("/v1/actions").json()
            if listed["in_force"]["state"] == "killed":
                break
            time.sleep(0.1)
        assert listed["in_force"]["state"] == "killed"


def test_every_action_is_a_choice() -> None:
    """The parser has a list of its own, so that it loads no store."""
    assert get_args(ActionName) == action._ACTIONS


def test_the_reason_is_required(capsys: Any) -> None:
    text = said(capsys, "http://127.0.0.1:1", "pause", code=2)
    assert "--reason" in text
    with pytest.raises(SystemExit):
        main(["action", "--help"])
