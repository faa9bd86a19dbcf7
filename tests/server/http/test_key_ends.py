"""Keys that end: by their own time, by rotation and by revocation, while the service
runs."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import oddsmith as od
from oddsmith.server.http.access import authorize
from oddsmith.server.http.keys import KeyRing, create, read_keys, revoke, rotate
from oddsmith.server.http.rates import Rate


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "keys.json"


class Time:
    """A clock in the test's hands, in seconds since 1970."""

    def __init__(self) -> None:
        self.now = datetime.now(UTC).timestamp()

    def __call__(self) -> float:
        return self.now

    def pass_by(self, **span: float) -> None:
        self.now += timedelta(**span).total_seconds()


def test_a_key_ends_while_the_ring_is_read(path: Path) -> None:
    soon = datetime.now(UTC) + timedelta(days=90)
    token, other = (
        create(path, "soon", ["read"], expires=soon),
        create(path, "ever", ["read"]),
    )
    time = Time()
    ring = KeyRing(path, clock=time)
    time.pass_by(days=89.9)
    assert [ring.find(one) is not None for one in (token, other)] == [True, True]
    time.pass_by(days=0.11)
    assert [ring.find(one) is not None for one in (token, other)] == [False, True]
    revoke(path, "ever")
    assert not ring.live()
    assert authorize(ring, f"Bearer {token}", frozenset({"read"})) == authorize(
        ring, None, frozenset({"read"})
    )
    for wrong in (
        datetime.now(UTC) - timedelta(seconds=1),
        datetime(9999, 1, 1, tzinfo=UTC),
    ):
        with pytest.raises(
            od.InvalidInput,
            match="expires must be in the future, within 100 years; got",
        ):
            create(path, "never", ["read"], expires=wrong)


def test_a_rotated_key_has_two_tokens_until_the_overlap_ends(path: Path) -> None:
    first = create(path, "shop", ["decide"], ["news"], rate=Rate(5.0, 9))
    time = Time()
    ring = KeyRing(path, clock=time)
    second = rotate(path, "shop", overlap=timedelta(days=7))
    found = [ring.find(token) for token in (first, second)]
    assert found[0] == found[1]
    assert found[0] is not None
    assert (found[0].scopes, found[0].experiments, found[0].rate) == (
        ("decide",),
        ("news",),
        Rate(5.0, 9),
    )
    time.pass_by(days=7.01)
    assert [ring.find(token) is not None for token in (first, second)] == [False, True]
    third = rotate(path, "shop", overlap=timedelta(0))
    assert [ring.find(token) is not None for token in (first, second, third)] == [
        False,
        False,
        True,
    ]
    assert len(read_keys(path)[0].tokens) == 1  # what has ended is dropped
    revoke(path, "shop")
    assert ring.find(third) is None
    with pytest.raises(
        od.InvalidInput,
        match="a key that is not revoked; got 'shop': create another key",
    ):
        rotate(path, "shop")


def test_a_rotation_prolongs_nothing_that_ends_before_and_keeps_the_span_of_life(
    path: Path,
) -> None:
    end = datetime.now(UTC).replace(microsecond=0) + timedelta(days=3)
    create(path, "shop", ["decide"], expires=end)
    rotate(path, "shop", overlap=timedelta(days=7))
    rotate(path, "shop", overlap=timedelta(days=7), expires=end + timedelta(days=20))
    lives = [
        token.expires - token.created
        for token in read_keys(path)[0].tokens
        if token.expires is not None
    ]
    assert [round(life.total_seconds() / 86_400) for life in lives] == [3, 3, 23]


def test_commands_of_keys_that_end(said: Any, monkeypatch: Any) -> None:
    more = ("--expires-in", "90d", "--rate", "30/m", "--burst", "10")
    first = said("create", "shop", "--scope", "decide", *more).splitlines()[0]
    second, sentence = said("rotate", "shop").splitlines()
    assert sentence == (
        "This is the key 'shop' from now on. It is not shown again; the previous token "
        "stays valid for 7d."
    )
    ring = KeyRing("keys.json")
    assert ring.find(first) == ring.find(second)
    (row,) = json.loads(said("list", "--json"))
    days = [
        (datetime.fromisoformat(row[name]) - datetime.now(UTC)).days
        for name in ("expires", "old_until")
    ]
    assert days == [89, 6]
    assert row["rate"] == "0.5/s, burst 10"
    table = said("list")
    assert all(
        cell in table
        for cell in (row["expires"], row["old_until"], row["rate"], "old until")
    )
    assert "is refused from the next request on" in said(
        "rotate", "shop", "--overlap", "0s"
    )
    assert [ring.find(token) is None for token in (first, second)] == [True, True]
    said(
        "create",
        "fair",
        "--scope",
        "read",
        "--expires-on",
        f"{datetime.now(UTC).year + 1}-01-31",
    )
    assert json.loads(said("list", "--json"))[1]["expires"].endswith(
        "-01-31T00:00:00+00:00"
    )
    for words, why in (
        (
            ("--expires-in", "soon"),
            "expires-in must be a whole number with s, m, h, d or w",
        ),
        (("--expires-in", "99999999w"), "up to 36500d"),
        (("--expires-on", "tomorrow"), "expires-on must be a day like 2027-01-31"),
        (("--expires-on", "2020-01-01"), "expires must be in the future"),
        (("--rate", "fast"), "rate must be a positive number of calls per second"),
        (("--rate", "0/s"), "rate must be a positive number of calls"),
        (("--rate", "1/s", "--burst", "0"), "burst must be 1 to"),
        (("--burst", "3"), "burst needs a rate"),
        (("--expires-in", "1d", "--expires-on", "2030-01-01"), "not allowed with"),
    ):
        assert why in said("create", "x", "--scope", "read", *words, code=2)
    assert "name must be that of a key" in said("rotate", "nobody", code=2)
    assert len(json.loads(said("list", "--json"))) == 2
