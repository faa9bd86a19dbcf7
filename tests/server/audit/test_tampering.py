"""Teeth: whatever is changed by hand in a store is found, at the right level, by name;
and what cannot be found."""

import json
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oddsmith as od
from oddsmith.core.draw import pick
from oddsmith.server.audit import Miss, VerifyReport, verify
from oddsmith.server.store import open_reader
from server.audit.served import SEED, Served, lived, newcomer, policy

BENCH = {"late": newcomer()}
MINE = policy(share=0.02)  # order defines its posterior
Tamper = Callable[[sqlite3.Connection], Any]


@pytest.fixture(scope="module")
def honest(tmp_path_factory: Any) -> Path:
    path: Path = tmp_path_factory.mktemp("honest") / "s.sqlite"
    lived(Served(path, MINE, bench=BENCH), 120, seed=3).store.close()
    return path


def judged(
    honest: Path, tmp_path: Path, tamper: Tamper, *, models: bool = False
) -> tuple[Any, VerifyReport]:
    """What the tampering says it did, and the verdict on a copy of the store."""
    copy = tmp_path / "copy.sqlite"
    shutil.copy(honest, copy)
    connection = sqlite3.connect(copy)
    with connection:
        done = tamper(connection)
    connection.close()
    reader = open_reader(str(copy))
    try:
        return done, verify(reader, policy=MINE if models else None, bench=BENCH)
    finally:
        reader.close()


def first_misses(verdict: VerifyReport) -> dict[str, Miss]:
    return {level.name: level.misses[0] for level in verdict.levels if level.misses}


def chosen(
    connection: sqlite3.Connection, nth: int = 20, kind: str = "decision"
) -> tuple[int, str]:
    """Position and id of an event in the middle; a decision that no incumbent made."""
    query = (
        "select position, id from events where kind = ? and coalesce(body, '') not "
        "like '%shadow%' "
    )
    query += "order by position limit 1 offset ?"
    position, id = connection.execute(query, (kind, nth)).fetchone()
    return position, id


def body(connection: sqlite3.Connection, position: int, **changes: Any) -> None:
    (text,) = connection.execute(
        "select body from events where position = ?", (position,)
    ).fetchone()
    changed = json.dumps(json.loads(text) | changes)
    connection.execute(
        "update events set body = ? where position = ?", (changed, position)
    )


def numbers(
    connection: sqlite3.Connection, position: int, change: Callable[[bytearray], Any]
) -> None:
    (content,) = connection.execute(
        "select numbers from events where position = ?", (position,)
    ).fetchone()
    array = bytearray(content)
    change(array)
    connection.execute(
        "update events set numbers = ? where position = ?", (bytes(array), position)
    )


def one_ulp(place: int) -> Callable[[bytearray], Any]:
    def change(content: bytearray) -> None:
        values = np.frombuffer(content, dtype="<f8", count=place + 1)
        values[place] = np.nextafter(values[place], 1.0)

    return change


def arm(connection: sqlite3.Connection) -> Any:
    position, id = chosen(connection)
    (text,) = connection.execute(
        "select body from events where position = ?", (position,)
    ).fetchone()
    other = 2 if json.loads(text)["index"] != 2 else 0
    body(connection, position, index=other, arm=["sports", "politics", "tech"][other])
    return {"draw": (position, id)}


def arm_name(connection: sqlite3.Connection) -> Any:
    position, id = chosen(connection)
    body(connection, position, arm="golf")
    return {"draw": (position, id)}


def propensity(connection: sqlite3.Connection) -> Any:
    position, id = chosen(connection)
    numbers(connection, position, one_ulp(1))
    return {"odds": (position, id)}


def vote(connection: sqlite3.Connection) -> Any:
    # before anyone was added or retired: three votes, a byte each
    position, id = chosen(connection, 15)

    def change(content: bytearray) -> None:
        content[-3] = (content[-3] + 1) % 3

    numbers(connection, position, change)
    return {"odds": (position, id)}


def seen(connection: sqlite3.Connection) -> Any:
    position, id = chosen(connection)
    connection.execute(
        "update events set seen = seen - 5 where position = ?", (position,)
    )
    return {"odds": (position, id)}


def seen_after(connection: sqlite3.Connection) -> Any:
    position, id = chosen(connection)
    connection.execute(
        "update events set seen = position where position = ?", (position,)
    )
    return {"odds": (position, id)}


def prior(connection: sqlite3.Connection) -> Any:
    (text,) = connection.execute(
        "select value from meta where name = 'about'"
    ).fetchone()
    about = json.loads(text)
    about["judge"]["prior"] = [0.4, 0.4, 0.2]
    connection.execute(
        "update meta set value = ? where name = 'about'", (json.dumps(about),)
    )
    return {"odds": chosen(connection, 0)}


def id_of_a_decision(connection: sqlite3.Connection) -> Any:
    """A name that draws another arm; one that draws the same arm is found only by
    whoever holds the first name."""
    position, _ = chosen(connection)
    text, content = connection.execute(
        "select body, numbers from events where position = ?", (position,)
    ).fetchone()
    odds, uniforms = np.frombuffer(content, dtype="<f8", count=3), od.Uniforms(SEED)
    names = (f"forged-{k}" for k in range(100))
    forged = next(
        name
        for name in names
        if pick(odds, uniforms(name)) != json.loads(text)["index"]
    )
    connection.execute(
        "update events set id = ? where position = ?", (forged, position)
    )
    return {"draw": (position, forged)}


def unreadable(connection: sqlite3.Connection) -> Any:
    position, id = chosen(connection)
    connection.execute("update events set body = '{' where position = ?", (position,))
    return {"draw": (position, id)}


def mask_of_one_arm(connection: sqlite3.Connection) -> Any:
    position, id = chosen(connection)
    body(connection, position, eligible=[True])
    return {"odds": (position, id)}


def without_body(connection: sqlite3.Connection) -> Any:
    position, id = chosen(connection)
    connection.execute(
        "update events set body = null, numbers = null where position = ?", (position,)
    )
    return {"draw": (position, id)}


@pytest.mark.parametrize(
    "tamper",
    [
        arm,
        arm_name,
        propensity,
        vote,
        seen,
        seen_after,
        prior,
        id_of_a_decision,
        unreadable,
        without_body,
        mask_of_one_arm,
    ],
)
def test_a_changed_decision_is_found_by_name(
    honest: Path, tmp_path: Path, tamper: Tamper
) -> None:
    expected, verdict = judged(honest, tmp_path, tamper)
    assert not verdict.holds
    found = first_misses(verdict)
    for level, record in expected.items():
        assert (found[level].position, found[level].id) == record
    # nothing else depends on these
    if tamper in (arm, arm_name, propensity, vote, seen, seen_after):
        assert len(verdict.misses) == 1


def reward(connection: sqlite3.Connection) -> Any:
    position, _ = chosen(connection, 12, "reward")
    connection.execute(
        "update events set value = 1 - value where position = ?", (position,)
    )
    return {"odds": position}


def dropped(connection: sqlite3.Connection) -> Any:
    position, _ = chosen(connection, 12, "reward")
    connection.execute("delete from events where position = ?", (position,))
    return {"events": position - 1, "odds": position}


def take_out(connection: sqlite3.Connection, position: int) -> None:
    for table in ("events", "contexts"):
        connection.execute(f"delete from {table} where position = ?", (position,))
        connection.execute(
            f"update {table} set position = -position where position > ?", (position,)
        )
        connection.execute(
            f"update {table} set position = -position - 1 where position < 0"
        )
    connection.execute("update events set seen = seen - 1 where seen >= ?", (position,))


def renumbered(connection: sqlite3.Connection) -> Any:
    """An event dropped, and all that follow moved up, so that there is no gap."""
    position, _ = chosen(connection, 12, "reward")
    take_out(connection, position)
    return {"odds": position - 1}


def swapped(connection: sqlite3.Connection) -> Any:
    first, _ = chosen(connection, 12, "reward")
    second, _ = chosen(connection, 20, "reward")
    for old, new in ((first, -1), (second, first), (-1, second)):
        connection.execute(
            "update events set position = ? where position = ?", (new, old)
        )
    return {"odds": first}


def correction(connection: sqlite3.Connection) -> Any:
    position, _ = chosen(connection, 1, "correction")
    connection.execute(
        "update events set value = 0.123 where position = ?", (position,)
    )
    return {"odds": position}


def share_of_an_expert(connection: sqlite3.Connection) -> Any:
    position, _ = chosen(connection, 0, "expert added")
    connection.execute("update events set value = 0.3 where position = ?", (position,))
    return {"odds": position}


def advice(connection: sqlite3.Connection) -> Any:
    query = (
        "select e.position from events e join events r on r.id = e.id where e.kind = "
        "'decision' and r.kind = 'reward' and r.position > e.position and e.body not "
        "like '%shadow%' and e.position > 30 limit 1"
    )
    (position,) = connection.execute(query).fetchone()

    def change(content: bytearray) -> None:
        # after the odds of three arms
        np.frombuffer(content, dtype="<f8", count=4)[3] += 1e-6

    numbers(connection, position, change)
    return {"odds": position}


@pytest.mark.parametrize(
    "tamper",
    [reward, dropped, renumbered, swapped, correction, share_of_an_expert, advice],
)
def test_a_changed_event_is_found_at_a_decision_made_after_it(
    honest: Path, tmp_path: Path, tamper: Tamper
) -> None:
    """The record that does not follow is the first decision whose state has learnt from
    the event."""
    expected, verdict = judged(honest, tmp_path, tamper)
    found = first_misses(verdict)
    assert set(found) == set(expected)
    for level, position in expected.items():
        assert position < found[level].position <= position + 12


def test_a_changed_context_is_found_by_the_experts(
    honest: Path, tmp_path: Path
) -> None:
    def tamper(connection: sqlite3.Connection) -> Any:
        position, id = chosen(connection)
        connection.execute(
            "update contexts set body = '[0.5, 0.25]' where position = ?", (position,)
        )
        return position, id

    record, verdict = judged(honest, tmp_path, tamper, models=True)
    assert [(miss.level, miss.position, miss.id) for miss in verdict.misses] == [
        ("experts", *record)
    ]
    # contexts are nothing to draws and odds
    assert judged(honest, tmp_path, tamper)[1].holds


def test_an_untouched_copy_holds(honest: Path, tmp_path: Path) -> None:
    assert judged(honest, tmp_path, lambda connection: None, models=True)[1].holds


def tail(connection: sqlite3.Connection) -> None:
    connection.execute("delete from events where position > 100")


def times(connection: sqlite3.Connection) -> None:
    connection.execute("update events set time = time + 3600")


def last_reward(connection: sqlite3.Connection) -> None:
    """One that no decision has learnt from."""
    last = connection.execute("select max(seen) from events").fetchone()[0]
    changed = connection.execute(
        "update events set value = 1 - value where kind = 'reward' and position > ?",
        (last,),
    )
    assert changed.rowcount


def without_reward(connection: sqlite3.Connection) -> None:
    """A decision that nobody rewarded, taken out, and the gap closed."""
    query = (
        "select min(position) from (select position from events group by id having "
        "count(*) = 1) where position > 20"
    )
    take_out(connection, connection.execute(query).fetchone()[0])


@pytest.mark.parametrize("tamper", [tail, times, last_reward, without_reward])
def test_what_no_level_can_find(honest: Path, tmp_path: Path, tamper: Tamper) -> None:
    """Said in docs/howto/prove-a-decision.md: a log that was cut, its times, and what
    nothing depends on yet."""
    assert judged(honest, tmp_path, tamper, models=True)[1].holds
