"""Commands of keys, as they are typed."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from oddsmith.cli.main import main

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
