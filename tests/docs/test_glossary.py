"""The glossary maps words of the field to ours; policy files have every key."""

import re
from pathlib import Path

import pytest

import oddsmith as od
from oddsmith.files.kinds import KINDS

REFERENCE = Path(od.__file__).parents[2] / "docs" / "reference"
PAGE = (REFERENCE / "glossary.md").read_text()
LINES = re.findall(r"^\| (?!-)(.+?) \| (.+) \|$", PAGE, re.MULTILINE)


def section(title: str) -> list[str]:
    """The first cells of the table under a heading."""
    text = PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]
    return [
        cell.strip("`")
        for cell, _ in re.findall(r"^\| (?!-)(.+?) \| (.+) \|$", text, re.MULTILINE)
    ][1:]


def test_every_word_of_the_field_leads_to_a_page() -> None:
    rows = PAGE.split("\n## Words of the field\n")[1].split("\n## ")[0]
    for word in ("holdout", "control group", "guardrail", "lift", "Kubernetes"):
        assert re.search(rf"^\|[^|]*\b{word}\b[^|]*\|.*\]\(", rows, re.MULTILINE), word


def test_every_key_and_kind_has_a_row_on_the_page_of_policy_files(
    tmp_path: Path,
) -> None:
    (tmp_path / "news.toml").write_text(
        'strange = 1\narms = ["a", "b"]\npolicy.kind = "ucb1"\n'
    )
    with pytest.raises(od.InvalidInput, match="Allowed: ") as caught:
        od.read_policy(tmp_path / "news.toml")
    keys = str(caught.value).split("Allowed: ")[1].split(", ")
    page = (REFERENCE / "policy-file.md").read_text()
    cells = re.findall(r"^\| ([^|]+) \|", page, re.MULTILINE)
    rows = {word for cell in cells for word in re.findall(r"`\[?(\w+)", cell)}
    assert len(keys) > 10
    assert not {*keys, *KINDS} - rows


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
    for title in ("Words of the field", "Nouns", "Verbs", "Units and letters"):
        words = section(title)
        assert words == sorted(words, key=str.lower), title
        assert len(set(words)) == len(words)
    short = [word for word, meaning in LINES if len(meaning) < 5]
    assert not short
