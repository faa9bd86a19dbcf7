"""Events changed, dropped, swapped and cut off."""

import sqlite3

import numpy as np

import oddsmith as od
from oddsmith.core.draw import pick
from server.audit.served import SEED
from server.audit.tampering import (
    LIVES,
    PLAIN,
    STRICT_MODELS,
    body_of,
    column,
    nth,
    numbers,
    take_out,
    tampering,
)


@tampering(PLAIN)
def position_moved(c: sqlite3.Connection) -> None:
    column(c, nth(c, "reward"), "position = 100000")


@tampering(PLAIN)
def kind_of_a_decision(c: sqlite3.Connection) -> None:
    column(c, nth(c), "kind = 'activation'")


@tampering(LIVES)
def kind_of_a_reward(c: sqlite3.Connection) -> None:
    """A default of the same value counts the same."""
    query = (
        "select position from events e where kind = 'reward' and not exists (select 1 "
        "from events o "
    )
    query += (
        "where o.id = e.id and o.kind = 'default') order by position limit 1 offset 12"
    )
    (position,) = c.execute(query).fetchone()
    column(c, position, "kind = 'default'")


@tampering(PLAIN)
def id_of_a_decision(c: sqlite3.Connection) -> None:
    position = nth(c)
    odds = np.frombuffer(bytes(numbers(c, position)), dtype="<f8", count=3)
    names = (f"forged-{k}" for k in range(100))
    forged = next(
        name
        for name in names
        if pick(odds, od.Uniforms(SEED)(name)) != body_of(c, position)["index"]
    )
    column(c, position, f"id = '{forged}'")


@tampering(PLAIN)
def id_of_a_reward(c: sqlite3.Connection) -> None:
    column(c, nth(c, "reward", 12), "id = 'nobody'")


@tampering(PLAIN)
def value_of_a_reward(c: sqlite3.Connection) -> None:
    column(c, nth(c, "reward", 12), "value = 1 - value")


@tampering(PLAIN)
def value_of_a_correction(c: sqlite3.Connection) -> None:
    column(c, nth(c, "correction", 1), "value = 0.123")


@tampering(PLAIN)
def share_of_an_expert(c: sqlite3.Connection) -> None:
    column(c, nth(c, "expert added", 0), "value = 0.3")


@tampering(PLAIN)
def name_of_a_retired_expert(c: sqlite3.Connection) -> None:
    column(c, nth(c, "expert retired", 0), "id = 'c'")


@tampering(STRICT_MODELS)
def name_of_an_added_expert(c: sqlite3.Connection) -> None:
    column(c, nth(c, "expert added", 0), "id = 'other'")


@tampering(LIVES)
def value_that_was_not_learnt_yet(c: sqlite3.Connection) -> None:
    c.execute("delete from snapshots")
    last = c.execute("select max(seen) from events where id <> 'last'").fetchone()[0]
    c.execute("delete from events where id = 'last'")
    assert c.execute(
        "update events set value = 1 - value where kind = 'reward' and position > ?",
        (last,),
    ).rowcount


@tampering(LIVES)
def key_of_a_correction(c: sqlite3.Connection) -> None:
    column(c, nth(c, "correction", 1), "key = 'another'")


@tampering(PLAIN)
def key_of_a_reward(c: sqlite3.Connection) -> None:
    """Where the first reward counts, rewards have no keys."""
    column(c, nth(c, "reward", 12), "key = 'another'")


@tampering(LIVES)
def time_of_a_reward(c: sqlite3.Connection) -> None:
    column(c, nth(c, "reward"), "time = time + 3600")


@tampering(PLAIN)
def deferred_set(c: sqlite3.Connection) -> None:
    query = (
        "select d.position from events d join events r on r.id = d.id and r.kind = "
        "'reward' "
    )
    query += (
        "where d.kind = 'decision' and not d.deferred order by d.position limit 1 "
        "offset 10"
    )
    (position,) = c.execute(query).fetchone()
    column(c, position, "deferred = 1")


@tampering(PLAIN)
def seen_moved_far(c: sqlite3.Connection) -> None:
    column(c, nth(c), "seen = seen - 5")


@tampering(PLAIN)
def seen_moved_ahead(c: sqlite3.Connection) -> None:
    column(c, nth(c), "seen = position")


@tampering(PLAIN)
def seen_taken_out(c: sqlite3.Connection) -> None:
    column(c, nth(c), "seen = null")


@tampering(PLAIN)
def reward_dropped(c: sqlite3.Connection) -> None:
    c.execute("delete from events where position = ?", (nth(c, "reward", 12),))


@tampering(PLAIN)
def reward_dropped_and_gap_closed(c: sqlite3.Connection) -> None:
    c.execute("delete from snapshots")
    take_out(c, nth(c, "reward", 12))


@tampering(PLAIN)
def change_of_experts_dropped_and_gap_closed(c: sqlite3.Connection) -> None:
    c.execute("delete from snapshots")
    take_out(c, nth(c, "expert retired", 0))


@tampering(LIVES)
def decision_without_reward_dropped_and_gap_closed(c: sqlite3.Connection) -> None:
    c.execute("delete from snapshots")
    alone = "select position from events group by id having count(*) = 1"
    take_out(
        c,
        c.execute(
            f"select min(position) from ({alone}) where position > 20"
        ).fetchone()[0],
    )


@tampering(PLAIN)
def rewards_swapped(c: sqlite3.Connection) -> None:
    first, second = nth(c, "reward", 12), nth(c, "reward", 20)
    for old, new in ((first, -1), (second, first), (-1, second)):
        column(c, old, f"position = {new}")


@tampering(PLAIN)
def tail_cut(c: sqlite3.Connection) -> None:
    """The snapshot stays, of events that are gone."""
    c.execute("delete from events where position > 100")


@tampering(LIVES)
def tail_cut_with_its_snapshots(c: sqlite3.Connection) -> None:
    for table in ("events", "snapshots"):
        c.execute(f"delete from {table} where position > 100")
