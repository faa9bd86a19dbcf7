"""Backups while a store is written to, and stores restored from them: every bit of all
four ways between databases."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oddsmith as od
from oddsmith.core.errors import BadFile, InvalidInput, StoreFailed
from oddsmith.server.audit.doctor import doctor
from oddsmith.server.fold.fold import restore, roster_change, save_snapshot
from oddsmith.server.fold.judge import judge
from oddsmith.server.store import (
    Activation,
    ConfigurationChange,
    Correction,
    DefaultReward,
    ExpertChange,
    PostgresStore,
    Reward,
    SQLiteStore,
    Store,
    open_reader,
)
from oddsmith.server.store.backup import back_up, restore_backup
from oddsmith.server.store.formats import SCHEMAS, tables_of
from oddsmith.server.store.meta import FORMAT
from oddsmith.server.store.sqlite.copy import read_pieces
from server.served import wait
from server.store.postgres_server import Server
from server.store.samples import WithoutSnapshots, append, bits, made, policy
from server.store.test_bodies import offered

ABOUT = {"experiment": "news", "seed": 7}


def alone() -> od.Policy:
    """The policy of these stores."""
    found = judge(policy())
    assert found is not None
    return found


def live(store: Store) -> None:
    """One of everything, with two snapshots, and a context that was erased."""
    offer = made("d2", time=2.0)
    votes = np.eye(len(offer.decision.propensities))[[0, 1, -1, -1]]
    append(store, made("d1", time=1.0), replace(offer, votes=votes, shadow=True))
    append(store, Reward("d1", 0.75, 3.0), made("d3", deferred=True, time=4.0))
    save_snapshot(store, restore(store, alone()), 4.0)
    append(
        store,
        Reward("early", 1.0, 5.0),
        made("early", time=5.0),
        Reward("parked", 1.0, 5.0),
    )
    append(store, Activation("d3", 6.0), DefaultReward("d3", 0.25, 7.0))
    append(
        store,
        ExpertChange("e", "added", 8.0, "k1", 0.2),
        ExpertChange("a", "retired", 9.0, "k2"),
    )
    append(
        store,
        Correction("d1", 0.5, 10.0, "c1"),
        made("d5", time=10.0),
        Reward("d5", 0.0, 11.0, sender="shop"),
    )
    append(
        store,
        ConfigurationChange("window_s", 600, 12.0, "w1", "boss"),
        offered("d6", time=12.0),
    )
    append(
        store,
        replace(
            made("d7", time=12.0),
            unit="ann",
            turn=1,
            slate="page",
            slot=1,
            sender="site",
        ),
    )
    store.erase(1.5)
    save_snapshot(store, restore(store, alone(), change=roster_change()), 13.0)
    append(store, Reward("d7", 1.0, 14.0))


def all_of(place: str, experiment: str | None = None) -> list[Any]:
    """Every row that a reader can see, and the state to the last bit, with snapshots
    and without."""
    with closing(open_reader(place, experiment)) as reader:
        lines = list(reader.lines(0, reader.head()))
        made_at = [line.position for line in lines if line.kind == "decision"]
        decisions = [decision.to_json() for decision in reader.decisions(made_at[1:])]
        contents = [(one, reader.content(one.position)) for one in reader.snapshots()]
        bare: Any = WithoutSnapshots(reader)
        states = [
            bits(restore(one, alone(), change=roster_change()).state)
            for one in (reader, bare)
        ]
        evidence = [
            (None if one.votes is None else one.votes.tolist(), one.shadow)
            for one in reader.evidence(made_at)
        ]
        return [
            lines,
            decisions,
            evidence,
            contents,
            states,
            reader.of_unit("ann"),
            reader.meta["secret"],
        ]


@pytest.fixture(params=["sqlite", "postgres"])
def source(
    request: pytest.FixtureRequest, tmp_path: Path, experiment: str
) -> Iterator[tuple[str, Store]]:
    """The place of a store, and the store."""
    if request.param == "sqlite":
        store: Any = SQLiteStore(
            tmp_path / "news.sqlite", alone(), about=ABOUT | {"experiment": experiment}
        )
        place = str(tmp_path / "news.sqlite")
    else:
        place = request.getfixturevalue("server").url()
        store = PostgresStore(
            place,
            alone(),
            experiment=experiment,
            about=ABOUT | {"experiment": experiment},
        )
    with store:
        yield place, store


@pytest.fixture(params=["sqlite", "postgres"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where to restore to: a file that is not there, or a database of the test's own,
    whose server is as far on."""
    if request.param == "sqlite":
        return str(tmp_path / "again.sqlite")
    server = request.getfixturevalue("server")
    name = f"again{len(server.sql('select datname from pg_database'))}"
    server.sql(f"create database {name}")
    return str(server.url(name))


def test_all_four_ways_keep_every_bit(
    source: tuple[str, Store], target: str, tmp_path: Path, experiment: str
) -> None:
    place, store = source
    live(store)
    before, head = all_of(place, experiment), store.head()
    held = back_up(place, tmp_path / "backup", experiment=experiment)
    assert (held.experiment, held.head, held.last) == (experiment, head, 14.0)
    assert held.events == store.tally()
    assert held.epoch == store.epochs[-1][0]
    assert all_of(str(tmp_path / "backup")) == before
    done = restore_backup(tmp_path / "backup", target)
    assert (done.contents._replace(epoch=held.epoch), done.left_out) == (held, [])
    assert all_of(target, experiment) == before
    with closing(open_reader(target, experiment)) as reader:
        assert [*store.epochs, (done.contents.epoch, head)] == reader.epochs
        assert done.contents.epoch != held.epoch
        assert reader.gapless == (store.gapless and "://" not in target)
        assert reader.backup is not None
        assert reader.backup.restored is not None
        assert reader.backup[1:3] == (held.epoch, head)
    (said,) = [
        one
        for one in doctor([target], experiment=experiment)
        if one.check == "restored"
    ]
    assert f"restored from a backup after position {head:,}" in said.what


def reopened(place: str, experiment: str) -> Any:
    if "://" in place:
        return PostgresStore(place, alone(), experiment=experiment)
    return SQLiteStore(place, alone())


def test_it_goes_on_above_what_was_restored(
    source: tuple[str, Store], target: str, tmp_path: Path, experiment: str
) -> None:
    place, store = source
    live(store)
    kept = append(store, Reward("d2", 1.0, 20.0))
    back_up(place, tmp_path / "backup", experiment=experiment)
    append(store, made("lost", time=21.0), Reward("lost", 0.5, 21.0))
    restore_backup(tmp_path / "backup", target)
    with reopened(target, experiment) as again:
        (repeat,) = again.append([Reward("d2", 1.0, 30.0)]).result(60)
        assert (repeat.position, repeat.new) == (kept[0], False)
        late = append(again, Reward("lost", 0.5, 31.0), made("lost", time=32.0))
        assert late[0] > kept[0]
        assert again.head() == late[-1]
        assert [line.id for line in again.lines(kept[0], again.head())] == [
            "lost",
            "lost",
        ]
        with pytest.raises(InvalidInput, match="up to"):
            save_snapshot(
                again,
                restore(again, alone(), change=roster_change())._replace(
                    position=late[-1] + 1
                ),
                0.0,
            )
        save_snapshot(again, restore(again, alone(), change=roster_change()), 33.0)


def test_a_server_that_is_far_behind_gives_positions_above_the_old_ones(
    server: Server, tmp_path: Path, experiment: str
) -> None:
    with SQLiteStore(tmp_path / "news.sqlite", alone(), about=ABOUT) as store:
        live(store)
    with closing(sqlite3.connect(tmp_path / "news.sqlite")) as connection, connection:
        columns = "position, kind, id, key, value, time, deferred"
        connection.execute(
            f"insert into events ({columns}) values ({2**60}, 'reward', 'far', '', "
            "1.0, 15.0, 0)"
        )
    restore_backup(tmp_path / "news.sqlite", server.url(), experiment=experiment)
    with PostgresStore(server.url(), alone(), experiment=experiment) as again:
        assert again.head() == 2**60
        assert append(again, made("far"))[0] > 2**60
        assert again.about["experiment"] == experiment
        assert list(again.lines(2**60 - 1, again.head()))[-1].kind == "decision"
    assert (
        server.sql("select name from oddsmith.experiments where name like '.%'") == []
    )


def test_a_backup_is_private_and_a_file_that_is_there_is_refused(
    tmp_path: Path,
) -> None:
    usual = os.umask(0)
    try:
        with SQLiteStore(tmp_path / "news.sqlite", alone()) as store:
            live(store)
            back_up(str(store.path), tmp_path / "backup")
            assert (tmp_path / "backup").stat().st_mode & 0o777 == 0o600
            before = (tmp_path / "backup").read_bytes()
            with pytest.raises(
                BadFile, match="backup must be a new file, but it exists"
            ):
                back_up(str(store.path), tmp_path / "backup")
            assert (tmp_path / "backup").read_bytes() == before
            with pytest.raises(BadFile, match="its folder does not exist"):
                back_up(str(store.path), tmp_path / "none" / "backup")
            with pytest.raises(BadFile, match=r"news\.sqlite must be a new file"):
                restore_backup(tmp_path / "backup", str(store.path))
    finally:
        os.umask(usual)
    names = {"news.sqlite", "news.sqlite.lock", "backup"}
    assert {one.name for one in tmp_path.iterdir()} == names
    restore_backup(tmp_path / "backup", str(tmp_path / "again"))
    assert (tmp_path / "again").stat().st_mode & 0o777 == 0o600


def test_a_log_that_lies_where_a_store_is_to_be_is_not_played_into_it(
    tmp_path: Path,
) -> None:
    with SQLiteStore(tmp_path / "news.sqlite", alone()) as store:
        back_up(str(store.path), tmp_path / "backup")
    (tmp_path / "again-wal").write_bytes(b"of another store")
    with pytest.raises(BadFile, match="again-wal must be a new file"):
        restore_backup(tmp_path / "backup", str(tmp_path / "again"))


def test_a_backup_is_not_written_to(tmp_path: Path) -> None:
    with SQLiteStore(tmp_path / "news.sqlite", alone()) as store:
        live(store)
        back_up(str(store.path), tmp_path / "backup")
    with pytest.raises(
        BadFile,
        match=(
            "is a backup, which cannot be written to; make a store of it with oddsmith "
            "restore"
        ),
    ):
        SQLiteStore(tmp_path / "backup", alone())


def test_a_store_in_use_is_no_backup(tmp_path: Path) -> None:
    with (
        SQLiteStore(tmp_path / "news.sqlite", alone()),
        pytest.raises(BadFile, match="Make a backup with oddsmith backup"),
    ):
        restore_backup(tmp_path / "news.sqlite", str(tmp_path / "again"))


def test_an_experiment_that_is_there_is_refused(
    server: Server, tmp_path: Path, experiment: str
) -> None:
    with PostgresStore(server.url(), alone(), experiment=experiment) as store:
        live(store)
        back_up(server.url(), tmp_path / "backup", experiment=experiment)
        with pytest.raises(
            InvalidInput, match=f"the database already contains '{experiment}'"
        ):
            restore_backup(tmp_path / "backup", server.url(), experiment=experiment)
        with pytest.raises(InvalidInput, match="experiment must be given"):
            restore_backup(tmp_path / "backup", server.url())
        assert len(list(store.lines(0, store.head()))) == sum(store.tally().values())


def test_what_a_restore_has_left_that_failed_half_way_is_cleared_away(
    server: Server, tmp_path: Path, experiment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with SQLiteStore(tmp_path / "news.sqlite", alone(), about=ABOUT) as store:
        live(store)
        back_up(str(store.path), tmp_path / "backup")

    def broken(*_: Any) -> Iterator[Any]:
        yield from islice(read_pieces(*_), 1)
        raise ConnectionResetError("the server is gone")

    hidden = "select number from oddsmith.experiments where name like '.restoring-%'"
    with monkeypatch.context() as patch:
        patch.setattr("oddsmith.server.store.backup.read_pieces", broken)
        with pytest.raises(
            StoreFailed,
            match="could not be restored: the server is gone; no part of it is visible",
        ):
            restore_backup(tmp_path / "backup", server.url(), experiment=experiment)
    ((number,),) = server.sql(hidden)
    rows = f"select count(*) from oddsmith.events where experiment = {number}"
    assert server.sql(rows)[0][0] > 0
    with pytest.raises(InvalidInput, match=f"got '{experiment}'"):
        open_reader(server.url(), experiment)
    wait(
        lambda: (
            server.sql("select count(*) from pg_locks where locktype = 'advisory'")[0][
                0
            ]
            == 0
        )
    )
    restore_backup(tmp_path / "backup", server.url(), experiment=experiment)
    assert server.sql(hidden) == []
    assert server.sql(rows)[0][0] == 0
    assert all_of(server.url(), experiment)[:6] == all_of(str(tmp_path / "backup"))[:6]


@pytest.mark.parametrize("to", ["file", "database"])
def test_damaged_snapshots_are_left_out(
    server: Server, tmp_path: Path, experiment: str, to: str
) -> None:
    with SQLiteStore(tmp_path / "news.sqlite", alone(), about=ABOUT) as store:
        live(store)
        back_up(str(store.path), tmp_path / "backup")
        kept = [one.position for one in store.snapshots()]
    with closing(sqlite3.connect(tmp_path / "backup")) as connection, connection:
        connection.execute(
            "update snapshots set content = zeroblob(9) where position = ?", (kept[-1],)
        )
    place = str(tmp_path / "again") if to == "file" else server.url()
    done = restore_backup(tmp_path / "backup", place, experiment=experiment)
    assert done.left_out == kept[-1:]
    with closing(open_reader(place, experiment)) as reader:
        assert [one.position for one in reader.snapshots()] == kept[:-1]
        assert (
            bits(restore(reader, alone(), change=roster_change()).state)
            == all_of(str(tmp_path / "news.sqlite"))[4][1]
        )


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    with SQLiteStore(tmp_path / "news.sqlite", alone()) as store:
        live(store)
        back_up(str(store.path), tmp_path / "backup")
    with open(tmp_path / "backup", "r+b") as file:
        file.seek(3 * 4096)
        file.write(b"\xff" * 4096)
    with pytest.raises(od.OddsmithError, match=r"damaged|could not be read"):
        restore_backup(tmp_path / "backup", str(tmp_path / "again"))
    assert not (tmp_path / "again").exists()


def test_both_databases_have_the_columns_of_the_format(
    server: Server, experiment: str
) -> None:
    with PostgresStore(server.url(), alone(), experiment=experiment):
        for table in tables_of(SCHEMAS[FORMAT]):
            query = (
                "select column_name from information_schema.columns where table_schema "
                "= 'oddsmith' and table_name"
            )
            found = [
                name
                for (name,) in server.sql(
                    f"{query} = '{table.name}' order by ordinal_position"
                )
            ]
            assert found == ["experiment", *table.columns]
