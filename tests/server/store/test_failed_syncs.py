"""Syncs that fail, and a system that drops what they should have written: nothing that
was answered is lost."""

import os
import select
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from server.store.test_crashes import HERE, KINDS, lost, shim


@pytest.fixture(scope="module")
def badsync(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shim(tmp_path_factory.mktemp("badsync"), "badsync.c")


class Disk:
    """A disk whose syncs can be made to fail, and what a power cut would leave of
    it."""

    def __init__(self, folder: Path, library: Path) -> None:
        self.before, self.after, self.switch = (
            folder / "before",
            folder / "after",
            folder / "bad",
        )
        self.before.mkdir()
        self.after.mkdir()
        self.path = self.before / "events.sqlite"
        self.preload = {
            "LD_PRELOAD": str(library),
            "DURABLE": str(self.after),
            "BADSYNC": str(self.switch),
        }
        self.answered: set[str] = set()
        self._rest = b""  # of a line that is not all there yet

    @contextmanager
    def writer(self, variant: str) -> "Iterator[subprocess.Popen[bytes]]":
        """A process that writes until it is killed at the end."""
        command = [sys.executable, str(HERE / "writer.py"), str(self.path), variant]
        child = subprocess.Popen(
            command, stdout=subprocess.PIPE, env=os.environ | self.preload
        )
        try:
            yield child
        finally:
            os.kill(child.pid, signal.SIGKILL)
            self._note(child.communicate(timeout=60)[0])
            self._rest = b""  # which no client has read

    def hear(self, child: "subprocess.Popen[bytes]", answers: int) -> None:
        """Until it has answered so many more."""
        assert child.stdout is not None
        aim, end = len(self.answered) + answers, time.monotonic() + 60
        while len(self.answered) < aim:
            assert time.monotonic() < end, "it does not answer any more"
            if select.select([child.stdout], [], [], 1.0)[0]:
                self._note(os.read(child.stdout.fileno(), 65536))

    def fail_once(self, child: "subprocess.Popen[bytes]") -> None:
        """From now on syncs fail; wait until one has."""
        assert child.stdout is not None
        seen, end = self.switch.with_name("bad.seen"), time.monotonic() + 60
        seen.unlink(missing_ok=True)
        self.switch.touch()
        while not seen.exists():
            assert time.monotonic() < end, "nothing is synced any more"
            # which must not stand still for a full pipe
            if select.select([child.stdout], [], [], 0.01)[0]:
                self._note(os.read(child.stdout.fileno(), 65536))

    def lost(self, *, sound: bool = True) -> int:
        """How much of what was answered is gone after a power cut; what is left must be
        `sound`."""
        # creating and removing files is taken as durable
        for copy in self.after.iterdir():
            if not (self.before / copy.name).is_file():
                copy.unlink()
        if sound:
            return lost(self.after / "events.sqlite", self.answered)
        with closing(sqlite3.connect(self.after / "events.sqlite")) as file:
            kept = {
                f"{KINDS[kind]} {id}"
                for kind, id in file.execute("select kind, id from events")
            }
        return len(self.answered - kept)

    def _note(self, said: bytes) -> None:
        *whole, self._rest = (self._rest + said).split(b"\n")
        self.answered |= {line.decode() for line in whole}


def failing_syncs(disk: Disk, variant: str, turns: int = 1) -> int:
    """Lost answers after syncs failed for a while, the writer went on by itself, and
    the power was cut."""
    with disk.writer(variant) as child:
        for _ in range(turns):
            disk.hear(child, 100)
            disk.fail_once(child)
            disk.hear(child, 30 if variant == "deaf" else 0)
            disk.switch.unlink()
            disk.hear(child, 100)
    return disk.lost(sound=variant == "full")


def test_a_failed_sync_is_mended_without_a_restart_and_loses_nothing(
    tmp_path: Path, badsync: Path
) -> None:
    assert failing_syncs(Disk(tmp_path, badsync), "full") == 0


@pytest.mark.soak
def test_a_failed_commit_that_is_answered_is_lost(
    tmp_path: Path, badsync: Path
) -> None:
    """The check has teeth."""
    assert failing_syncs(Disk(tmp_path, badsync), "deaf") > 0


@pytest.mark.soak
def test_syncs_that_fail_twenty_times_lose_nothing(
    tmp_path: Path, badsync: Path
) -> None:
    disk = Disk(tmp_path, badsync)
    gone = failing_syncs(disk, "full", turns=20)
    print(f"20 times: {len(disk.answered):,} answered, {gone} lost")
    assert gone == 0


def restarted(disk: Disk, variant: str) -> int:
    """Lost answers after a process was killed amid failing syncs, another went on, and
    the power was cut."""
    with disk.writer("full") as child:
        disk.hear(child, 100)
        disk.fail_once(child)
    disk.switch.unlink()
    with disk.writer(variant) as child:
        disk.hear(child, 30)
    return disk.lost(sound=variant == "full")


@pytest.mark.soak
def test_a_restart_after_a_failed_sync_syncs_anew_what_it_finds(
    tmp_path: Path, badsync: Path
) -> None:
    assert restarted(Disk(tmp_path, badsync), "full") == 0


@pytest.mark.soak
def test_a_restart_that_takes_it_for_synced_loses_answers(
    tmp_path: Path, badsync: Path
) -> None:
    """The check has teeth: what a failed sync left is read from memory, and a power cut
    takes what came after it."""
    assert restarted(Disk(tmp_path, badsync), "credulous") > 0
