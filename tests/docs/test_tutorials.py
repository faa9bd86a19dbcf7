"""Pages of files, Python and commands, followed to the letter in an empty folder."""

import io
import re
import shlex
import sys
from contextlib import ExitStack, redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from docs.printing import follows, spoken
from docs.test_service_walks import REPOSITORY, needs_curl, printed, served
from oddsmith.cli.main import main

WALKED = (
    "tutorial/first-agent.md",
    "tutorial/nothing-but-clicks.md",
    "tutorial/run-a-service.md",
    "howto/rewards.md",
)
EVALUATIONS = ("howto/ab-test.md", "howto/guardrails.md")
SMALLER = {
    "tutorial/web-shop.md": {
        "range(400)": "range(120)",
        "400 * day": "120 * day",
        "visit >= 600": "visit >= 180",
        "2,400 decisions": "720 decisions",
        "time.sleep(5)": "time.sleep(4)",
    }
}
"""What is done fewer times than the page says, so that the test is short."""
FILE = re.compile(r"`([\w.-]+)`:\n\n```\w+\n(.*?)^```", re.DOTALL | re.MULTILINE)
COMMAND = re.compile(r"^\$ ([^\n]*)\n(.*?)(?=^\$ |^```)", re.DOTALL | re.MULTILINE)


def said_by(command: str, folder: Path) -> str:
    """What a command prints: one of ours alone in this process, which is quicker, any
    other one in a shell."""
    program, *words = shlex.split(command)
    if program != "oddsmith" or "|" in words:
        return printed("sh", "-c", command, folder=folder)
    with redirect_stdout(io.StringIO()) as out:
        assert main(words) == 0, command
    return out.getvalue()


def walk(page: str, folder: Path) -> list[str]:
    """The commands of a page, after its files were written and its Python was run; each
    prints what the page shows."""
    for name, content in FILE.findall(page):
        (folder / name).write_text(content)
    for said, shown in spoken(page, folder):
        assert shown is None or follows(said, shown), said
    port, commands = "8000", COMMAND.findall(page)
    with ExitStack() as until_the_end:
        for command, shown in commands:
            if command.startswith("oddsmith serve"):
                port = until_the_end.enter_context(served(folder, command))
                for name, content in FILE.findall(page):
                    (folder / name).write_text(content.replace(":8000", f":{port}"))
                continue
            said = said_by(command.replace(":8000", f":{port}"), folder)
            assert follows(said.replace(f":{port}", ":8000"), shown) or not shown, said
    return [command for command, _ in commands]


@needs_curl
@pytest.mark.parametrize("name", WALKED)
def test_a_walk_does_what_its_page_says(
    name: str, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(sys.modules)
    page = (REPOSITORY / "docs" / name).read_text()
    for usual, smaller in SMALLER.get(name, {}).items():
        assert page.count(usual) == 1
        page = page.replace(usual, smaller)
    try:
        commands = walk(page, tmp_path)
    finally:
        for module in set(sys.modules) - before:
            if str(getattr(sys.modules[module], "__file__", "")).startswith(
                str(tmp_path)
            ):
                del sys.modules[module]
    assert any(command.startswith("oddsmith serve") for command in commands)
    assert any(command.startswith("oddsmith verify") for command in commands)


@pytest.mark.parametrize("name", EVALUATIONS)
def test_an_evaluation_prints_what_its_page_says(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    page = (REPOSITORY / "docs" / name).read_text()
    commands = walk(page.replace("$ python ", f"$ {sys.executable} "), tmp_path)
    assert any(command.startswith("oddsmith evaluate") for command in commands)


def test_teeth_a_command_that_prints_something_else_is_found_out(
    tmp_path: Path,
) -> None:
    page = "`a.txt`:\n\n```text\nhello\n```\n\n```console\n$ cat a.txt\n{}\n```\n"
    assert walk(page.format("hello"), tmp_path) == ["cat a.txt"]
    with pytest.raises(AssertionError, match="hello"):
        walk(page.format("goodbye"), tmp_path)
