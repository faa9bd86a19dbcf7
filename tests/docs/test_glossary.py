"""The glossary has a line for every name that a user meets."""

import re
from pathlib import Path

import pytest

import oddsmith as od
from oddsmith.files.kinds import KINDS

PAGE = (Path(od.__file__).parents[2] / "docs" / "reference" / "glossary.md").read_text()
LINES = re.findall(r"^\| (?!-)(.+?) \| (.+) \|$", PAGE, re.MULTILINE)


def section(title: str) -> list[str]:
    """The first cells of the table under a heading."""
    text = PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]
    return [
        cell.strip("`")
        for cell, _ in re.findall(r"^\| (?!-)(.+?) \| (.+) \|$", text, re.MULTILINE)
    ][1:]


def test_every_exported_name_has_a_line() -> None:
    exported = section("What the package exports")
    assert exported == list(od.__all__), (
        "docs/reference/glossary.md must have a line for each, in the order of __all__"
    )


def test_every_key_and_kind_of_a_policy_file_has_a_line(tmp_path: Path) -> None:
    (tmp_path / "news.toml").write_text(
        'strange = 1\narms = ["a", "b"]\npolicy.kind = "ucb1"\n'
    )
    with pytest.raises(od.InvalidInput, match="Allowed: ") as caught:
        od.read_policy(tmp_path / "news.toml")
    assert section("Keys of a policy file") == str(caught.value).split("Allowed: ")[
        1
    ].split(", ")
    assert section("Kinds of policies") == list(KINDS)


def test_every_policy_and_its_verbs_are_words_of_the_glossary() -> None:
    verbs = section("Verbs")
    for verb in (
        "decide",
        "learn",
        "predict",
        "advise",
        "merge",
        "explain",
        "weigh",
        "fold",
        "draw",
        "replay",
    ):
        assert verb in verbs


def test_lines_are_in_order_and_say_something() -> None:
    for title in ("Nouns", "Verbs", "Units and letters"):
        words = section(title)
        assert words == sorted(words, key=str.lower), title
        assert len(set(words)) == len(words)
    short = [word for word, meaning in LINES if len(meaning) < 5]
    assert not short
