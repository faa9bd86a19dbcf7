"""Stores on a read-only mount: read as they are, live ones too; a log that cannot be
read is not passed over."""

import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

import oddsmith
from oddsmith.server.store import open_reader
from oddsmith.server.store.sqlite import file as read_only
from oddsmith.server.store.sqlite.file import file_facts
from server.audit.served import Served, lived, policy

_READ = """
import sys
sys.path.insert(0, {source!r})
from oddsmith.cli.main import main
codes = [main(["verify", "ro/s.sqlite"]), main(["export", "ro/s.sqlite", "--out", "log.jsonl"])]
codes += [main(["history", "ro/s.sqlite", "d0"]), main(["doctor", "ro/s.sqlite"])]
sys.exit(max(codes))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a store that was closed, in a folder of its own."""
    (tmp_path / "ro").mkdir()
    lived(
        Served(tmp_path / "ro" / "s.sqlite", policy()), 30, rosters=False
    ).store.close()
    assert sorted(file.name for file in (tmp_path / "ro").iterdir()) == [
        "s.sqlite",
        "s.sqlite.lock",
    ]
    return tmp_path


def mounted(folder: Path) -> subprocess.CompletedProcess[str]:
    """verify, export and doctor, in a process that has `ro` mounted read-only; skipped
    where that is not allowed."""
    mount = (
        "mount --bind ro ro && mount -o remount,bind,ro ro && ! touch ro/x 2>/dev/null"
    )
    tried = ["unshare", "-m", "sh", "-c", mount]
    if (
        shutil.which("unshare") is None
        or subprocess.run(tried, cwd=folder, check=False).returncode
    ):
        pytest.skip("needs the right to mount")
    code = _READ.format(source=str(Path(oddsmith.__file__).parents[1]))
    command = [
        "unshare",
        "-m",
        "sh",
        "-c",
        f'{mount} && exec "$0" -c "$1"',
        sys.executable,
        code,
    ]
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=100, check=False
    )


def test_a_closed_store_is_read_on_a_read_only_mount(folder: Path) -> None:
    done = mounted(folder)
    assert done.returncode == 0, done.stderr
    assert "Every checked decision was reproduced." in done.stdout
    assert "the folder is read-only" in done.stdout
    assert len((folder / "log.jsonl").read_text().splitlines()) > 20


@pytest.fixture
def no_writing(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """From now on folders count as read-only: what SQLite needs to make there must be
    there already."""
    return lambda: monkeypatch.setattr(read_only, "is_read_only", lambda path: True)


def test_the_last_events_of_a_live_store_are_seen(
    tmp_path: Path, no_writing: Callable[[], None]
) -> None:
    service = lived(Served(tmp_path / "s.sqlite", policy()), 30, rosters=False)
    no_writing()
    assert (tmp_path / "s.sqlite-wal").stat().st_size
    with (
        service.store as store,
        closing(open_reader(str(tmp_path / "s.sqlite"))) as reading,
    ):
        assert reading.head() == store.head() > 30
        service.decide("more", [0.1, 0.2])
        assert reading.head() == store.head()


def test_a_log_without_its_index_is_not_passed_over(folder: Path) -> None:
    service = Served(folder / "ro" / "s.sqlite", policy())
    service.decide("last", [0.1, 0.2])
    for name in ("s.sqlite", "s.sqlite-wal"):
        shutil.copy(folder / "ro" / name, folder / name)
    service.store.close()
    for name in ("s.sqlite", "s.sqlite-wal"):
        shutil.copy(folder / name, folder / "ro" / name)
    path = folder / "ro" / "s.sqlite"
    # what must not happen
    with closing(sqlite3.connect(f"file:{path}?immutable=1", uri=True)) as passed_over:
        assert not passed_over.execute(
            "select count(*) from events where id = 'last'"
        ).fetchone()[0]
    done = mounted(folder)
    assert done.returncode == 3
    assert "s.sqlite-wal beside it, which holds its last events" in done.stderr
    assert "copy both files" in done.stderr


def test_doctor_says_what_the_place_is(folder: Path) -> None:
    assert not file_facts(folder / "ro" / "s.sqlite").read_only
