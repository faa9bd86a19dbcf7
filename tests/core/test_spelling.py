"""What a misspelt name was meant to be."""

import pytest

from oddsmith.core.names import hint, nearest

FIELDS = ["context", "eligible", "decision", "reward", "id", "unit"]


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("ctx", "context"),
        ("cont", "context"),
        ("Context", "context"),
        ("contxt", "context"),
        ("rewrad", "reward"),
        ("eligble", "eligible"),
        ("decison", "decision"),
        ("uid", "id"),
        ("x", None),
        ("hour", None),
        ("", None),
    ],
)
def test_names_people_mistype(name: str, meant: str | None) -> None:
    assert nearest(name, FIELDS) == meant
    assert hint(name, FIELDS) == ("" if meant is None else f"; did you mean {meant}?")


def test_of_equals_the_first_is_proposed() -> None:
    assert nearest("DAY", ["day", "Day"]) == "day"
    assert nearest("day", []) is None
