"""CSV of spreadsheets in countries that write 0,5: semicolons or tabs between
fields."""

from pathlib import Path

import pytest

import oddsmith as od

PLAIN = (
    "arm,reward,propensity,context.age,context.city\na,1,0.5,31.5,Rome\n"
    "b,0.25,0.5,40.0,Oslo\na,,0.5,22.0,Bonn\n"
)


def read(folder: Path, text: str) -> od.Log:
    (folder / "log.csv").write_text(text)
    return od.read_log(folder / "log.csv")


@pytest.mark.parametrize("between", [";", "\t"])
@pytest.mark.parametrize("point", [".", ","])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_semicolons_and_tabs_are_read_as_commas_are(
    tmp_path: Path, between: str, point: str, end: str
) -> None:
    header, rows = PLAIN.split("\n", 1)
    text = (
        f"{header.replace(',', between)}\n"
        f"{rows.replace(',', between).replace('.', point)}"
    ).replace("\n", end)
    expected, log = read(tmp_path, PLAIN), read(tmp_path, text)
    for name in ("arm", "reward", "propensity"):
        assert getattr(log, name).tolist()[:2] == getattr(expected, name).tolist()[:2]
    assert log.context == expected.context
    assert log.arms == expected.arms


def test_a_comma_in_the_header_is_what_separates(tmp_path: Path) -> None:
    log = read(tmp_path, "arm,reward,context.a;b\n0,1,x;y\n1,0,z\n")
    assert log.context == [{"a;b": "x;y"}, {"a;b": "z"}]


def test_commas_in_text_are_no_decimals(tmp_path: Path) -> None:
    log = read(
        tmp_path,
        "arm;reward;context.city;context.age\n0;0.5;Rome, Italy;1.5\n1;1;3,4;2.5\n",
    )
    assert log.reward.tolist() == [0.5, 1.0]
    assert log.context == [
        {"city": "Rome, Italy", "age": 1.5},
        {"city": "3,4", "age": 2.5},
    ]
