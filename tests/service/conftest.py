"""Commands of keys, as they are typed; and the two kinds of arms."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from oddsmith.cli.main import main
from service.offering import Kind, bringing

Said = Callable[..., str]


@pytest.fixture
def said(tmp_path: Path, monkeypatch: Any, capsys: Any) -> Said:
    """What `oddsmith keys WORDS` prints in a folder of its own: its answer, or what is wrong where `code` is not 0."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ODDSMITH_KEYS", raising=False)

    def run(*words: str, code: int = 0) -> str:
        assert main(["keys", *words]) == code
        out = capsys.readouterr()
        return str(out.err if code else out.out)

    return run


@pytest.fixture(params=["fixed", "same"])
def arms(request: pytest.FixtureRequest) -> Iterator[Kind]:
    """Arms that the policy file fixes; the same ones in every call."""
    with bringing(request.param):
        yield request.param


@pytest.fixture(params=["fixed", "changing"])
def any_arms(request: pytest.FixtureRequest) -> Iterator[Kind]:
    """Arms that the policy file fixes; others from call to call."""
    with bringing(request.param):
        yield request.param


@pytest.fixture
def arms_of_calls() -> Iterator[None]:
    """Others from call to call."""
    with bringing("changing"):
        yield
