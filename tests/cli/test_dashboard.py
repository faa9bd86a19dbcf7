"""`oddsmith dashboard`: from a store to its page, until Ctrl-C."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

import oddsmith
from oddsmith.cli.main import main
from server.served import here, place, wait


@pytest.mark.parametrize("what", ["news.sqlite", "news.toml"])
def test_the_page_of_a_store(tmp_path: Path, what: str) -> None:
    with here(place(tmp_path)) as served:
        served.decide("d1")
    command = [sys.executable, "-m", "oddsmith", "dashboard", str(tmp_path / what)]
    path = os.pathsep.join([str(Path(oddsmith.__file__).parents[1])])
    with (
        open(tmp_path / "wrong", "w") as wrong,
        subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=wrong,
            text=True,
            env=os.environ | {"PYTHONPATH": path},
        ) as shown,
    ):
        try:
            assert shown.stdout is not None
            line = shown.stdout.readline()
            found = re.fullmatch(
                r"news: (http://127\.0\.0\.1:\d+)/dashboard/ \(Ctrl-C ends it\)\n", line
            )
            assert found is not None, line + (tmp_path / "wrong").read_text()
            with httpx.Client(base_url=found[1], timeout=30) as client:
                wait(lambda: client.get("/readyz").status_code == 200)
                assert client.get("/", follow_redirects=True).text.startswith(
                    "<!doctype html>"
                )
                assert [
                    one["id"] for one in client.get("/v1/decisions").json()["decisions"]
                ] == ["d1"]
        finally:
            shown.send_signal(signal.SIGINT)
            assert shown.wait(30) == 0
    assert "Traceback" not in (tmp_path / "wrong").read_text()


@pytest.mark.parametrize(
    ("words", "match"),
    [
        (["gone.sqlite"], "there is no such file"),
        (["gone.toml"], "gone.toml"),
        (["gone.sqlite", "--port", "70000"], "port must be a number from 0 to 65535"),
        (["postgresql://localhost/x"], "experiment must be given"),
    ],
)
def test_what_cannot_be_shown_is_one_sentence(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Any,
    words: list[str],
    match: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["dashboard", *words]) == 2
    said = capsys.readouterr().err
    assert match in said
    assert said.count("\n") == 1
