"""Stores become those of a made-up next format: all of it or nothing, with a backup of
what they were."""

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import oddsmith
from oddsmith.cli.main import main
from oddsmith.core.errors import BadFile, StoreFailed
from oddsmith.server.store import (
    PostgresStore,
    Reward,
    SQLiteReader,
    SQLiteStore,
    open_reader,
)
from oddsmith.server.store.backup import restore_backup
from oddsmith.server.store.meta import FORMAT
from oddsmith.server.store.upgrade import upgrade
from server.served import wait
from server.store import next_format
from server.store.next_format import NEXT, install, shorter
from server.store.postgres_server import Server
from server.store.samples import append, made
from server.store.test_backup import ABOUT, all_of, alone, live

Ask = Callable[[str], list[tuple[Any, ...]]]


@pytest.fixture(params=["sqlite", "postgres"])
def old(
    request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[tuple[str, Path, Ask]]:
    """A store of the current format: its place, where backups go, and how to ask it in
    SQL."""
    if request.param == "sqlite":
        with SQLiteStore(tmp_path / "news.sqlite", alone(), about=ABOUT) as store:
            live(store)

        def ask(query: str) -> list[tuple[Any, ...]]:
            with closing(sqlite3.connect(tmp_path / "news.sqlite")) as connection:
                return connection.execute(query).fetchall()

        yield str(tmp_path / "news.sqlite"), tmp_path / "backup.sqlite", ask
        return
    server: Server = request.getfixturevalue("server")
    name = f"old{len(server.sql('select datname from pg_database'))}"
    server.sql(f"create database {name}")
    for experiment in ("news", "other"):
        about = ABOUT | {"experiment": experiment}
        with PostgresStore(
            server.url(name), alone(), experiment=experiment, about=about
        ) as one:
            live(one)
    (tmp_path / "backups").mkdir()
    asked = "set search_path = oddsmith"
    yield (
        server.url(name),
        tmp_path / "backups",
        lambda query: [*map(tuple, server.sql(asked, query, database=name))],
    )


def kept(place: str) -> list[Any]:
    return all_of(place, "news")


def test_a_store_is_upgraded(
    old: tuple[str, Path, Ask], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, backup, ask = old
    before = kept(place)
    with monkeypatch.context() as patch:
        install(patch)
        with pytest.raises(
            BadFile,
            match=(
                f"must be of format '{NEXT}'; got '{FORMAT}': oddsmith upgrade STORE "
                "converts"
            ),
        ):
            open_reader(place, "news")
        done = upgrade(place, backup=backup)
        files = (
            [backup / "news.sqlite", backup / "other.sqlite"]
            if backup.is_dir()
            else [backup]
        )
        assert done == (FORMAT, NEXT, files)
        assert ask("select distinct value from meta where name = 'format'") == [(NEXT,)]
        assert kept(place) == before
        assert all(body == shorter(body) for (body,) in ask(BODIES))
        assert upgrade(place, backup=backup) == (NEXT, NEXT, [])
        store: Any = (
            PostgresStore(place, alone(), experiment="news")
            if "://" in place
            else SQLiteStore(place, alone())
        )
        with store:
            append(store, made("after"), Reward("after", 1.0, 0.0))
    with pytest.raises(
        BadFile,
        match=(
            f"has format '{NEXT}', which only a newer version of oddsmith can read; "
            "upgrade oddsmith"
        ),
    ):
        open_reader(place, "news")
    assert kept(str(files[0])) == before  # in the format it had
    restore_backup(files[0], str(tmp_path / "again"))
    assert kept(str(tmp_path / "again")) == before


BODIES = "select body from events where kind = 'decision'"


def killed_half_way(place: str, backup: Path, half: Path, *more: str) -> None:
    """Upgrade in another process, and kill it in the middle."""
    path = os.pathsep.join(
        [str(Path(oddsmith.__file__).parents[1]), str(Path(__file__).parents[2])]
    )
    command = [
        sys.executable,
        next_format.__file__,
        place,
        str(backup),
        "half",
        str(half),
        *more,
    ]
    with subprocess.Popen(command, env=os.environ | {"PYTHONPATH": path}) as child:
        wait(lambda: half.exists() or child.poll() is not None)
        assert child.poll() is None
        child.send_signal(signal.SIGKILL)


def test_a_kill_half_way_changes_nothing(
    old: tuple[str, Path, Ask], tmp_path: Path
) -> None:
    place, backup, ask = old
    before, bodies = kept(place), ask(BODIES)
    killed_half_way(place, backup, tmp_path / "half")
    assert (kept(place), ask(BODIES)) == (before, bodies)
    others = tmp_path / "others"
    if backup.is_dir():
        others.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        install(patch)
        if "://" in place:  # the server takes a moment to notice
            wait(
                lambda: (
                    ask("select count(*) from pg_locks where locktype = 'advisory'")
                    == [(0,)]
                )
            )
        assert upgrade(place, backup=others).now == NEXT
        assert kept(place) == before


def test_without_its_transaction_a_kill_leaves_half_of_it(tmp_path: Path) -> None:
    """The check has teeth."""
    place = str(tmp_path / "news.sqlite")
    with SQLiteStore(place, alone()) as store:
        live(store)
    killed_half_way(place, tmp_path / "backup", tmp_path / "half", "open")
    with pytest.MonkeyPatch.context() as patch:
        install(patch)
        with pytest.raises(
            StoreFailed,
            match="could not be upgraded, and was not changed: duplicate column",
        ):
            upgrade(place, backup=None)


def test_a_store_in_use_is_refused(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.sql("create database busy")
    with SQLiteStore(tmp_path / "news.sqlite", alone()) as store:
        with PostgresStore(server.url("busy"), alone(), experiment="news"):
            install(monkeypatch)
            with pytest.raises(
                StoreFailed, match="must be used by one process at a time"
            ):
                upgrade(str(store.path), backup=None)
            with pytest.raises(
                StoreFailed, match="must not be in use; stop its services"
            ):
                upgrade(server.url("busy"), backup=None)
        upgrade(server.url("busy"), backup=None)


def refusal(store: PostgresStore) -> str:
    """Why a reward is not kept."""
    with pytest.raises(StoreFailed) as caught:
        append(store, Reward("b", 1.0, 0.0))
    return str(caught.value)


def test_a_service_that_was_cut_off_does_not_write_to_a_newer_format(
    server: Server,
) -> None:
    server.sql("create database newer")
    with PostgresStore(server.url("newer"), alone(), experiment="news") as store:
        append(store, Reward("a", 1.0, 0.0))
        others = (
            "from pg_stat_activity where application_name = 'oddsmith' and datname = "
            "'newer'"
        )
        server.sql(f"select pg_terminate_backend(pid) {others}")
        wait(lambda: server.sql(f"select count(*) {others}")[0][0] == 0)
        server.sql(f"update oddsmith.format set value = '{NEXT}'", database="newer")
        with pytest.raises(StoreFailed):  # maybe only that the connection is gone
            append(store, Reward("b", 1.0, 0.0))
        wait(lambda: "only a newer version of oddsmith can read" in refusal(store))
        with pytest.raises((BadFile, StoreFailed)):
            store.head()
        assert (
            server.sql("select count(*) from oddsmith.events", database="newer")[0][0]
            == 1
        )


def test_while_it_is_upgraded_a_store_is_not_opened(server: Server) -> None:
    import asyncio

    from oddsmith.server.store.postgres.link import FORMAT_LOCK, connect

    async def beside() -> None:
        connection = await connect(server.url("upgraded"))
        await connection.execute("select pg_advisory_lock($1)", FORMAT_LOCK)
        with pytest.raises(
            StoreFailed, match="is being upgraded: ask again when that is done"
        ):
            await asyncio.to_thread(
                PostgresStore, server.url("upgraded"), alone(), experiment="news"
            )
        await connection.close(timeout=5)

    server.sql("create database upgraded")
    asyncio.run(beside())


def test_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    with SQLiteStore("news.sqlite", alone()) as store:
        live(store)
    assert main(["upgrade", "news.sqlite"]) == 0
    assert (
        capsys.readouterr().out
        == f"There is nothing to do: the format is '{FORMAT}' already.\n"
    )
    assert main(["upgrade", "postgresql://localhost/none"]) == 2
    assert "--backup FOLDER" in capsys.readouterr().err
    assert main(["upgrade", "none.sqlite"]) == 2
    install(monkeypatch)
    assert main(["upgrade", "news.sqlite"]) == 0
    said = capsys.readouterr().out
    assert said.startswith(
        f"The format is '{NEXT}' now; it was '{FORMAT}'.\n\nbackup: news.sqlite.2"
    )
    (backup,) = tmp_path.glob("*.backup")
    assert str(backup.name) in said
    assert backup.stat().st_mode & 0o777 == 0o600
    assert main(["doctor", str(backup)]) == 3
    assert "oddsmith upgrade STORE converts it" in capsys.readouterr().out
    assert main(["upgrade", str(backup), "--no-backup"]) == 0
    with SQLiteReader(backup) as reader:
        assert reader.backup is not None


@pytest.mark.parametrize(
    ("content", "why"),
    [("", "no such table: meta"), ("hello", "file is not a database")],
)
def test_what_is_no_store_is_refused_and_left_as_it_is(
    tmp_path: Path, content: str, why: str
) -> None:
    place = tmp_path / "other"
    place.write_text(content)
    with pytest.raises(BadFile, match=f"other must be a store; {why}"):
        upgrade(str(place), backup=None)
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [
        ("other", content)
    ]
    with pytest.raises(BadFile, match="it is a folder"):
        upgrade(str(tmp_path), backup=None)
