"""TOML with errors that name the key."""

from pathlib import Path
from typing import Any

import pytest

import oddsmith as od
from oddsmith.files.keys import Keys, read_toml


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (
            lambda k: k.whole("steps"),
            (
                r"policies\.a\.steps must be a whole number from 1 to 1,000,000,000; "
                r"got -3"
            ),
        ),
        (lambda k: k.whole("flag"), r"policies\.a\.flag must be a whole number"),
        (
            lambda k: k.number("eta", low=0, high=1),
            r"policies\.a\.eta must be in \[0, 1\]; got 7",
        ),
        (
            lambda k: k.text("loss", choices=("log", "square")),
            r"policies\.a\.loss must be one of log, square; got 'los'",
        ),
        (lambda k: k.text("steps"), r"policies\.a\.steps must be a text"),
        (lambda k: k.get("prior"), r"policies\.a\.prior must be given; got nothing"),
        (lambda k: k.table("eta"), r"policies\.a\.eta must be a table"),
        (
            lambda k: k.tables("empty"),
            r"policies\.a\.empty must have at least one table",
        ),
    ],
)
def test_what_is_wrong_is_named(ask: Any, message: str) -> None:
    keys = Keys(
        {"steps": -3, "eta": 7, "loss": "los", "flag": True, "empty": {}}, "policies.a"
    )
    with pytest.raises(od.InvalidInput, match=message):
        ask(keys)


def test_keys_nobody_asked_for() -> None:
    keys = Keys({"steps": 3, "setps": 4})
    assert keys.whole("steps") == 3
    assert keys.whole("runs", 20) == 20
    with pytest.raises(
        od.InvalidInput,
        match=r"setps is not a key; did you mean steps\? Allowed: steps, runs",
    ):
        keys.close()
    with pytest.raises(od.InvalidInput, match=r"^zzz is not a key\. Allowed:$"):
        Keys({"zzz": 4}).close()


def test_an_error_from_deeper_down_gets_its_key() -> None:
    keys = Keys({"prior": [0.5]}, "policies.a")
    assert (
        str(keys.blame(od.InvalidInput("prior must sum to 1")))
        == "policies.a.prior must sum to 1"
    )
    assert (
        str(keys.blame(od.InvalidInput("shapes must agree")))
        == "policies.a: shapes must agree"
    )


def test_files_that_are_no_toml(tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_text("steps = = 3")
    with pytest.raises(od.InvalidInput, match="must be TOML"):
        read_toml(tmp_path / "bad.toml")
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(od.InvalidInput, match="must be TOML"):
        read_toml(tmp_path / "bytes.toml")
    with pytest.raises(od.InvalidInput, match="must be a readable file"):
        read_toml(tmp_path / "absent.toml")
