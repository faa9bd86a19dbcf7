"""Names that users rely on go away, or come, only where somebody meant it:
docs/reference/deprecation.md."""

import re
from pathlib import Path

import oddsmith as od
from architecture.kept import FILE, MODULES, kept_names

PAGE = Path(od.__file__).parents[2] / "docs" / "reference" / "deprecation.md"
HOW = "`cd tests && ../.venv/bin/python -m architecture.kept` writes the list anew"


def test_no_kept_name_has_changed_unseen() -> None:
    written, now = set(FILE.read_text().splitlines()), set(kept_names())
    assert not written - now, (
        f"these are kept: deprecate them, see {PAGE.name}; if it is meant, {HOW}"
    )
    assert not now - written, f"these would be kept from now on; if it is meant, {HOW}"


def test_the_list_has_every_sort_of_name() -> None:
    lines = FILE.read_text().splitlines()
    assert lines == sorted(set(lines))
    counts = {
        sort: sum(line.startswith(f"{sort} ") for line in lines)
        for sort in ("python", "command")
    }
    assert counts["python"] > 300
    assert counts["command"] > 20
    for line in (
        "metric oddsmith_store_ok",
        "environment ODDSMITH_KEYS",
        "python oddsmith.draw odds context uniform",
    ):
        assert any(one.startswith(line) for one in lines), line


def test_the_page_names_the_same_modules() -> None:
    (row,) = [
        line for line in PAGE.read_text().splitlines() if line.startswith("| Python |")
    ]
    modules = re.findall(
        r"`((?:oddsmith\.)?[a-z_.]+)`",
        row.partition("`oddsmith.__all__`; `__all__` of")[2],
    )
    assert {f"oddsmith.{name.removeprefix('oddsmith.')}" for name in modules} | {
        "oddsmith"
    } == set(MODULES)
