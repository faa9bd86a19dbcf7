"""The guide "From Personalizer", followed to the letter: from their logs to a service
that has learnt."""

import re
import shlex
from glob import glob
from pathlib import Path
from typing import Any

import httpx
import pytest

import oddsmith as od
from docs.printing import follows
from docs.test_service_walks import REPOSITORY, served
from logs.personalizer_logs import TOPICS, world, write
from oddsmith.cli.main import main

PAGE = (REPOSITORY / "docs" / "howto" / "from-personalizer.md").read_text()
COMMANDS = re.findall(
    r"^\$ ([^\n]*)\n(.*?)(?=^\$ |^```)", PAGE, re.DOTALL | re.MULTILINE
)


def ranked(port: str, topic: str, time_of_day: str) -> float:
    """The probability that a rank gives to the article of a topic."""
    actions = [
        {"id": f"new-{one}", "features": [{"topic": one, "words": 300}]}
        for one in TOPICS
    ]
    body = {
        "contextFeatures": [{"timeOfDay": time_of_day}, {"user": {"age": 10}}],
        "actions": actions,
    }
    answer = httpx.post(
        f"http://127.0.0.1:{port}/personalizer/v1.0/rank", json=body, timeout=30
    )
    assert answer.status_code == 201, answer.text
    return float(
        {one["id"]: one["probability"] for one in answer.json()["ranking"]}[
            f"new-{topic}"
        ]
    )


def said_by(command: str, capsys: Any) -> str:
    """What a command of the page prints, in this process: a shell would only put names
    of files in place of a *."""
    program, *words = shlex.split(command)
    assert program == "oddsmith"
    assert (
        main(
            [
                found
                for word in words
                for found in (sorted(glob(word)) if "*" in word else [word])
            ]
        )
        == 0
    )
    said: str = capsys.readouterr().out
    return said


def test_the_four_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    """Sports are clicked in the morning by 0.8, else by 0.2: the state has learnt it,
    of articles that it never saw."""
    assert [command.split()[1] for command, _ in COMMANDS] == [
        "import",
        "evaluate",
        "import",
        "serve",
    ]
    events = [event for event, _ in world(600)]
    (tmp_path / "logs").mkdir()
    for day, first in enumerate(range(0, 600, 200)):
        write(
            tmp_path / "logs" / f"2026-10-0{day + 1}.json", *events[first : first + 200]
        )
    monkeypatch.chdir(tmp_path)
    *before, (serve, _) = COMMANDS
    for command, page in before:
        said = said_by(command, capsys)
        assert follows(said, page), said
        if command.startswith("oddsmith evaluate"):
            found = re.search(
                r"^uniform +snips +(\S+) +(\S+) +(\S+)", said, re.MULTILINE
            )
            assert found is not None
            # 0.4 of even odds, in -1 to 1 kept as 0 to 1
            assert float(found[2]) < 0.7 < float(found[3])
    with served(tmp_path, serve) as port:
        with od.Client(f"http://127.0.0.1:{port}") as client:
            assert client.stats()["events"]["decision"] == 600
            assert client.posterior().learnt == 600
        assert (
            ranked(port, "sports", "morning") > 0.5 > ranked(port, "sports", "evening")
        )
