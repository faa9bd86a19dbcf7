"""Keys: shown once, kept as hashes, found by hash, ended in time, never lost; and what
they open (S1)."""

import hashlib
import json
import logging
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import pytest

import oddsmith as od
from oddsmith.cli import keys as key_commands
from oddsmith.server.http import keys
from oddsmith.server.http.access import (
    ANYONE,
    Forbidden,
    authorize,
    check_bind,
    check_scope,
    is_loopback,
)
from oddsmith.server.http.keys import (
    ALL_SCOPES,
    Key,
    KeyRing,
    Scope,
    create,
    read_keys,
    revoke,
)
from oddsmith.server.http.response import Refusal
from oddsmith.server.http.routes import ROUTES
from server.http.route_page import OPEN
from server.http.route_page import SCOPES as PAGE

SCOPES = {(route.method, route.path): route.scopes for route in ROUTES}
# what each scope opens, written down once more from the description of the service
OPENS = {
    scope: {route for route, scopes in PAGE.items() if scope in scopes}
    for scope in ALL_SCOPES
} | {"": {("GET", path) for path in OPEN}}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "keys.json"


def test_a_token_is_256_random_bits_and_only_its_hash_is_kept(path: Path) -> None:
    tokens = [create(path, f"k{i}", ["decide"]) for i in range(5)]
    assert len(set(tokens)) == 5
    assert all(len(token) == 46 and token.startswith("od_") for token in tokens)
    text = path.read_text()
    assert path.stat().st_mode & 0o777 == 0o600
    hashes = [token.sha256 for key in read_keys(path) for token in key.tokens]
    assert hashes == [hashlib.sha256(t.encode()).hexdigest() for t in tokens]
    assert not any(token in text or token[3:] in text for token in tokens)
    assert "sha256" in text
    assert not any(
        digest in f"{key!r} {key.tokens!r}"
        for key in read_keys(path)
        for digest in hashes
    )
    assert json.loads(text)["format"] == "oddsmith keys 2"


def test_who_finds_every_key_and_no_other(path: Path) -> None:
    tokens = {
        name: create(path, name, ["read"]) for name in ("first", "middle", "last")
    }
    ring = KeyRing(path)
    for name, token in tokens.items():
        found = ring.find(token)
        assert found is not None
        assert found.name == name
        for wrong in (
            token[:-1],
            token + "=",
            token.swapcase(),
            token[3:],
            "od_" + "A" * 43,
            token + "\n",
            "od_é",
        ):
            assert ring.find(wrong) is None
    revoke(path, "middle")
    assert [ring.find(token) is None for token in tokens.values()] == [
        False,
        True,
        False,
    ]
    assert ring.live()
    for name in ("first", "last", "last"):  # again: nothing changes
        revoke(path, name)
    assert not ring.live()


def test_a_key_is_found_by_one_look_however_many_there_are(
    path: Path, monkeypatch: Any
) -> None:
    """Counted, not timed: one hash, one stat and one look in a dictionary, for right
    and wrong tokens."""
    tokens = [create(path, f"k{i}", ["read"]) for i in range(7)]
    ring, hashed = KeyRing(path), list[str]()
    real = keys._digest

    def noted(token: str) -> str:
        hashed.append(token)
        return real(token)

    monkeypatch.setattr(keys, "_digest", noted)
    monkeypatch.setattr(keys, "read_keys", None)  # an unchanged file is not read again
    for token in (tokens[0], tokens[-1], "od_" + "A" * 43):
        ring.find(token)
    assert hashed == [tokens[0], tokens[-1], "od_" + "A" * 43]
    assert ring.find("x" * 100_000) is None
    assert len(hashed) == 3  # what is no token is not even hashed


def outcome(
    ring: KeyRing | None,
    header: str | None,
    route: tuple[str, str],
    experiment: str | None,
) -> int:
    """The status of both questions, one after the other: of the head, and of the
    experiment in the body."""
    found = authorize(ring, header, SCOPES[route])
    if isinstance(found, Refusal):
        return found.status
    try:
        check_scope(found, SCOPES[route], experiment)
    except Forbidden:
        return 403
    return 200


def test_the_table_of_routes_is_the_one_described() -> None:
    assert all(scopes <= set(ALL_SCOPES) for scopes in SCOPES.values())
    assert (
        set(ALL_SCOPES)
        == set(get_args(Scope))
        == set(OPENS) - {""}
        == set(key_commands._SCOPES)
    )
    assert {route for routes in OPENS.values() for route in routes} == set(SCOPES)


@pytest.mark.parametrize("route", SCOPES, ids=" ".join)
def test_every_route_with_every_kind_of_key(route: tuple[str, str], path: Path) -> None:
    def asked(header: str | None, experiment: str | None = "news") -> int:
        return outcome(ring, header, route, experiment)

    tokens = {scope: create(path, scope, [scope]) for scope in ALL_SCOPES}
    tenant = create(path, "tenant", ["admin"], ["shop"])
    revoked = create(path, "revoked", ["admin"])
    revoke(path, "revoked")
    ring = KeyRing(path)
    free = route in OPENS[""]
    good = tokens["admin"]
    nobody = [
        None,
        "",
        "Bearer",
        "Bearer ",
        good,
        f"Basic {good}",
        f"Bearer  {good}",
        f"Bearer {good} {good}",
    ]
    for header in [
        *nobody,
        "Bearer od_" + "A" * 43,
        f"Bearer {revoked}",
        "Bearer " + "x" * 100_000,
    ]:
        assert asked(header) == (200 if free else 401)
    for scope in ALL_SCOPES:
        assert asked(f"Bearer {tokens[scope]}") == (
            200 if free or route in OPENS[scope] else 403
        )
        assert asked(f"bearer {tokens[scope]}") == asked(f"Bearer {tokens[scope]}")
    for experiment, status in (
        ("shop", 200),
        ("news", 403),
        ("no-such", 403),
        (None, 403),
        ("", 403),
    ):
        assert asked(f"Bearer {tenant}", experiment) == (200 if free else status)
        assert asked(f"Bearer {good}", experiment) == 200
    assert authorize(None, None, SCOPES[route]) is ANYONE


def test_a_refusal_tells_nothing_about_keys(path: Path) -> None:
    revoked, limited = (
        create(path, "old", ["admin"]),
        create(path, "mine", ["decide"], ["shop"]),
    )
    revoke(path, "old")
    ring, needed = KeyRing(path), SCOPES["POST", "/v1/decide"]
    headers = (
        None,
        "Basic x",
        "Bearer x",
        f"Bearer {revoked}",
        "Bearer od_" + "A" * 43,
    )
    assert len({authorize(ring, header, needed) for header in headers}) == 1
    key = authorize(ring, f"Bearer {limited}", needed)
    assert isinstance(key, Key)
    with pytest.raises(Forbidden) as experiment:
        check_scope(key, needed, "news" * 1000)
    scope = authorize(ring, f"Bearer {limited}", SCOPES["POST", "/v1/reward"])
    assert isinstance(scope, Refusal)
    for said in (str(experiment.value), scope.error):
        assert len(said) < 250
        assert "mine" not in said
        assert "shop" not in said


def test_a_broken_file_keeps_the_keys_and_is_logged_once(
    path: Path, caplog: Any
) -> None:
    token = create(path, "one", ["read"])
    ring, good = KeyRing(path), path.read_bytes()
    path.write_bytes(good[:-20])
    with caplog.at_level(logging.ERROR):
        assert [ring.find(token) is not None for _ in range(5)] == [True] * 5
        assert len(caplog.records) == 1
        path.unlink()
        assert [ring.find(token) is not None for _ in range(5)] == [True] * 5
        assert len(caplog.records) == 2
    assert all(
        "the keys read before stay in force" in record.getMessage()
        for record in caplog.records
    )
    other = create(path, "other", ["read"])  # a new file
    assert ring.find(token) is None
    assert ring.find(other) is not None


@pytest.mark.parametrize("locked", [True, False])
def test_two_editors_at_once_lose_no_key(
    locked: bool, path: Path, monkeypatch: Any
) -> None:
    """Both want to meet after reading: with the lock they cannot; without it one key is
    lost (teeth)."""
    import fcntl

    create(path, "first", ["read"])
    both, real = threading.Barrier(2), keys.read_keys

    def read_and_wait(file: Path) -> tuple[Key, ...]:
        found = real(file)
        try:
            both.wait(0.3 if locked else 20)
        except threading.BrokenBarrierError:
            assert locked
        return found

    monkeypatch.setattr(keys, "read_keys", read_and_wait)
    if not locked:
        monkeypatch.setattr(fcntl, "flock", lambda *_: None)
    threads = [
        threading.Thread(target=create, args=(path, name, ["read"]))
        for name in ("a", "b")
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(real(path)) == (3 if locked else 2)


def test_processes_at_once_lose_no_key(path: Path) -> None:
    code = (
        "import sys; from oddsmith.server.http.keys import create\n"
        "for i in range(15): create(sys.argv[1], sys.argv[2] + str(i), ['read'])"
    )
    running = [
        subprocess.Popen([sys.executable, "-c", code, str(path), name])
        for name in ("a", "b", "c")
    ]
    assert [one.wait(60) for one in running] == [0, 0, 0]
    assert {key.name for key in read_keys(path)} == {
        f"{name}{i}" for name in "abc" for i in range(15)
    }


def changed(**fields: Any) -> Callable[[dict[str, Any]], Any]:
    return lambda file: {**file, "keys": [{**file["keys"][0], **fields}]}


BROKEN: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "another format": (
        lambda file: {**file, "format": "oddsmith keys 1"},
        "must be a file of format",
    ),
    "a list": (lambda file: file["keys"], "Expected `object`"),
    "the same name twice": (
        lambda file: {**file, "keys": file["keys"] * 2},
        "each key once; got the same name",
    ),
    "an unknown field": (changed(owner="me"), "owner"),
    "an unknown scope": (changed(scopes=["root"]), "root"),
    "no scopes": (changed(scopes=[]), "length >= 1"),
    "half a hash": (
        changed(tokens=[{"sha256": "ab" * 16, "created": "2026-01-01T00:00:00Z"}]),
        "regex",
    ),
    "a rate of nothing": (changed(rate={"per_second": 0, "burst": 1}), "> 0"),
    "no token": (changed(tokens=[]), "length >= 1"),
    "a name with a line end": (changed(name="one\n"), "regex"),
    "an experiment with a path": (changed(experiments=["../x"]), "regex"),
    "no time": (changed(revoked="today"), "RFC3339"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_file_that_is_not_ours_is_refused(case: str, path: Path) -> None:
    create(path, "one", ["read"])
    change, message = BROKEN[case]
    path.write_text(json.dumps(change(json.loads(path.read_text()))))
    with pytest.raises(od.BadFile, match=message):
        KeyRing(path)
    with pytest.raises(od.BadFile, match=message):
        create(path, "two", ["read"])  # nor written over


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"[" * 100_000, b"null"])
def test_no_json_is_refused(content: bytes, path: Path) -> None:
    path.write_bytes(content)
    with pytest.raises(od.BadFile, match=r"must be a file of format 'oddsmith keys 2'"):
        read_keys(path)


def test_a_file_that_others_may_write_is_refused(path: Path) -> None:
    create(path, "one", ["read"])
    path.chmod(0o640)
    assert read_keys(path)
    path.chmod(0o660)
    with pytest.raises(od.BadFile, match="writable by its owner only; got mode 660"):
        read_keys(path)


def test_hosts() -> None:
    assert all(map(is_loopback, ("127.0.0.1", "127.255.0.3", "::1", "localhost")))
    assert not any(
        map(
            is_loopback,
            ("0.0.0.0", "::", "", "10.0.0.1", "oddsmith.example", "127.1", "128.0.0.1"),
        )
    )


def test_other_machines_are_served_only_with_keys(path: Path) -> None:
    create(path, "one", ["read"])
    ring = KeyRing(path)
    for host in ("0.0.0.0", "::", "", "192.168.1.7", "oddsmith.example"):
        check_bind(host, ring)
        with pytest.raises(od.InvalidInput, match=r"host must be 127\.0\.0\.1"):
            check_bind(host, None)
    revoke(path, "one")
    with pytest.raises(od.InvalidInput, match="where there are no keys"):
        check_bind("0.0.0.0", ring)
    check_bind("::1", ring)


def test_commands(said: Any, monkeypatch: Any) -> None:
    token, sentence = said(
        "create", "shop", "--scope", "decide", "reward", "--experiment", "news"
    ).splitlines()
    assert sentence == (
        "This is the key 'shop'. It is not shown again: keys.json holds only its hash."
    )
    (key,) = read_keys("keys.json")
    assert KeyRing("keys.json").find(token) == key
    assert (key.name, key.scopes, key.experiments) == (
        "shop",
        ("decide", "reward"),
        ("news",),
    )
    assert "shop" in said("revoke", "shop")
    monkeypatch.setenv("ODDSMITH_KEYS", "50%.json")
    said("create", "ops", "--scope", "admin")
    table, listed = (
        said("list", "--keys", "keys.json"),
        said("list", "--json", "--keys", "keys.json"),
    )
    assert [row["name"] for row in json.loads(listed)] == ["shop"]
    assert json.loads(listed)[0]["revoked"] in table
    assert said("list").splitlines()[1].split()[:3] == ["ops", "admin", "all"]
    assert not any(
        secret in text
        for text in (table, listed)
        for secret in (token[3:], key.tokens[0].sha256)
    )
    assert "must be new" in said("create", "ops", "--scope", "read", code=2)
    assert "name must be 1 to 64" in said("create", "Ops!", "--scope", "read", code=2)
    assert "experiments must be 1 to 64" in said(
        "create", "x", "--scope", "read", "--experiment", "../x", code=2
    )
    assert "invalid choice: 'root'" in said("create", "x", "--scope", "root", code=2)
    assert "name must be that of a key" in said("revoke", "nobody", code=2)
    assert "must be a file that" in said("list", "--keys", "gone.json", code=2)
    assert "cannot write" in said(
        "create", "x", "--scope", "read", "--keys", "no/folder/keys.json", code=2
    )
    with pytest.raises(
        od.InvalidInput,
        match="scopes must be of decide, reward, read, operate, admin; got none",
    ):
        create("keys.json", "x", [])
