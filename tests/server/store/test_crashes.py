"""kill -9 and power cuts (simulated) under load: what was answered is there, once;
broken variants fail the check."""

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from oddsmith.server.fold.fold import restore
from oddsmith.server.store import SQLiteStore
from server.store.samples import bits, policy, reference, stored

HERE = Path(__file__).parent
KINDS = {"decision": "DecisionMade", "reward": "Reward"}


def killed(
    path: Path, variant: str, answers: int, preload: dict[str, str] | None = None
) -> set[str]:
    """Run the writer until it has answered so many events, kill it by its id, and
    return everything it answered."""
    command = [sys.executable, str(HERE / "writer.py"), str(path), variant]
    child = subprocess.Popen(
        command, stdout=subprocess.PIPE, env=os.environ | (preload or {})
    )
    assert child.stdout is not None
    said, deadline = b"", time.monotonic() + 120
    try:
        while said.count(b"\n") < answers and time.monotonic() < deadline:
            part = os.read(child.stdout.fileno(), 65536)
            assert part, "the writer ended by itself"
            said += part
    finally:
        os.kill(child.pid, signal.SIGKILL)
        rest = child.communicate(timeout=60)[0]
    assert child.returncode == -signal.SIGKILL
    # a line that was cut was not read by any client
    complete = (said + rest).decode().split("\n")[:-1]
    assert len(complete) >= answers
    return set(complete)


def lost(path: Path, answered: set[str]) -> int:
    """How many answered events are not in the store; whatever is there must be sound,
    and restore to the clean fold."""
    with closing(sqlite3.connect(path)) as connection, connection:
        assert connection.execute("pragma integrity_check").fetchone() == ("ok",)
    connection.close()
    judge = policy()
    with SQLiteStore(path, judge) as store:
        lines = list(store.lines(0, store.head()))
        names = [f"{KINDS[line.kind]} {line.id}" for line in lines]
        assert len(set(names)) == len(names)  # nothing twice
        assert [line.position for line in lines] == list(range(1, len(lines) + 1))
        restored = restore(store, judge)
        rewards = sum(line.kind == "reward" for line in lines)
        assert restored.state.learnt == rewards  # nothing applied twice
        assert bits(restored.state) == bits(reference(judge, stored(store)))
    return len(answered - set(names))


def test_kill_9_loses_nothing_that_was_answered(tmp_path: Path) -> None:
    answered: set[str] = set()
    for _ in range(3):  # each starts on what the last one left
        answered |= killed(tmp_path / "events.sqlite", "full", answers=250)
        assert lost(tmp_path / "events.sqlite", answered) == 0


def test_answers_before_the_commit_are_lost(tmp_path: Path) -> None:
    """The check has teeth."""
    answered = killed(tmp_path / "events.sqlite", "early", answers=400)
    assert lost(tmp_path / "events.sqlite", answered) > 0


@pytest.fixture(scope="module")
def powercut(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shim(tmp_path_factory.mktemp("powercut"))


def shim(folder: Path, source: str = "powercut.c") -> Path:
    """A library that stands between a process and its disk; the first one keeps copies
    of what was synced."""
    compiler = shutil.which("cc")
    if compiler is None or not sys.platform.startswith("linux"):
        pytest.skip("simulated power cuts need Linux and a C compiler (cc)")
    library = (folder / source).with_suffix(".so")
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-o", library, HERE / source, "-ldl"],
        check=True,
        timeout=60,
    )
    return library


def cut(folder: Path, variant: str, library: Path, answers: int) -> int:
    """Lost answers after a power cut: only what was synced is still there."""
    before, after = folder / "before", folder / "after"
    before.mkdir(parents=True)
    after.mkdir()
    preload = {"LD_PRELOAD": str(library), "POWERCUT": str(after)}
    answered = killed(before / "events.sqlite", variant, answers, preload)
    assert (after / "events.sqlite").exists()
    for copy in after.iterdir():  # creating and removing files is taken as durable
        if not (before / copy.name).is_file():
            copy.unlink()
    return lost(after / "events.sqlite", answered)


def test_a_power_cut_loses_nothing_that_was_answered(
    tmp_path: Path, powercut: Path
) -> None:
    assert cut(tmp_path, "full", powercut, answers=1000) == 0


def test_a_power_cut_with_synchronous_normal_does(
    tmp_path: Path, powercut: Path
) -> None:
    """The check has teeth: kill -9 alone could not tell, for the page cache survives
    it."""
    assert cut(tmp_path, "normal", powercut, answers=1000) > 0
