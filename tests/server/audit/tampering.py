"""Tools to change one place of a store by hand; `tampering` keeps what is done with
them, and who finds it."""

import json
import sqlite3
from collections.abc import Callable
from typing import Any

from server.audit.served import newcomer, policy

BENCH = {"late": newcomer()}
MINE = policy(share=0.02)
PLAIN, MODELS, STRICT, STRICT_MODELS, LIVES = (
    "plain",
    "models",
    "strict",
    "strict with models",
    "lives",
)
Tamper = Callable[[sqlite3.Connection], Any]
TAMPERINGS: dict[str, tuple[str, Tamper]] = {}


def tampering(expected: str) -> Callable[[Tamper], Tamper]:
    def keep(tamper: Tamper) -> Tamper:
        TAMPERINGS[tamper.__name__] = (expected, tamper)
        return tamper

    return keep


def home(connection: sqlite3.Connection) -> str:
    """The table that bodies of decisions are in."""
    tables = {
        name
        for (name,) in connection.execute(
            "select name from sqlite_master where type = 'table'"
        )
    }
    return "decisions" if "decisions" in tables else "events"


def nth(connection: sqlite3.Connection, kind: str = "decision", place: int = 20) -> int:
    query = (
        "select position from events where kind = ? order by position limit 1 offset ?"
    )
    return int(connection.execute(query, (kind, place)).fetchone()[0])


def body_of(connection: sqlite3.Connection, position: int) -> dict[str, Any]:
    query = f"select body from {home(connection)} where position = ?"
    body: dict[str, Any] = json.loads(
        connection.execute(query, (position,)).fetchone()[0]
    )
    return body


def rewrite(connection: sqlite3.Connection, position: int, **changes: Any) -> None:
    """Change fields of a decision's body; None takes one out."""
    changed = {
        name: value
        for name, value in (body_of(connection, position) | changes).items()
        if value is not ...
    }
    query = f"update {home(connection)} set body = ? where position = ?"
    connection.execute(query, (json.dumps(changed), position))


def numbers(connection: sqlite3.Connection, position: int) -> bytearray:
    query = f"select numbers from {home(connection)} where position = ?"
    return bytearray(connection.execute(query, (position,)).fetchone()[0])


def put_numbers(connection: sqlite3.Connection, position: int, content: bytes) -> None:
    connection.execute(
        f"update {home(connection)} set numbers = ? where position = ?",
        (bytes(content), position),
    )


def column(connection: sqlite3.Connection, position: int, change: str) -> None:
    assert (
        connection.execute(
            f"update events set {change} where position = ?", (position,)
        ).rowcount
        == 1
    )


def fact(
    connection: sqlite3.Connection, name: str, change: Callable[[Any], Any]
) -> None:
    (text,) = connection.execute(
        "select value from meta where name = ?", (name,)
    ).fetchone()
    changed = (
        change(text)
        if name in ("fingerprint", "rule")
        else json.dumps(change(json.loads(text)))
    )
    connection.execute("update meta set value = ? where name = ?", (changed, name))


def about(connection: sqlite3.Connection, **changes: Any) -> None:
    def kept(facts: dict[str, Any]) -> dict[str, Any]:
        return {
            name: value for name, value in (facts | changes).items() if value is not ...
        }

    fact(connection, "about", kept)


def take_out(connection: sqlite3.Connection, position: int) -> None:
    """Take an event out, and close the gap."""
    for table in {"events", "contexts", home(connection)}:
        connection.execute(f"delete from {table} where position = ?", (position,))
        connection.execute(
            f"update {table} set position = -position where position > ?", (position,)
        )
        connection.execute(
            f"update {table} set position = -position - 1 where position < 0"
        )
    connection.execute("update events set seen = seen - 1 where seen >= ?", (position,))
