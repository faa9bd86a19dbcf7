"""What pages quote from the benchmarks is what the benchmarks say."""

import re
from pathlib import Path

import pytest
from benchmarks.quote import (
    MARK,
    QUOTES,
    REFRESH,
    ROOT,
    Quote,
    cell,
    pages,
    ratio,
    refresh,
    value,
    written,
)

from benchmarks import quote

RESULTS = """# Benchmarks

## A decision and a reward

| loop | CPU µs/step | ÷ text |
| --- | ---: | ---: |
| ours, numpy | 1,033.7 | 2.9× |
| ours, numba | 11.4 | **8.6×** |

## Every algorithm

| algorithm | peer, µs | times slower |
| --- | ---: | ---: |
| UCB1 |  |  |
| — river | 7.8 | 1.3× |
| LinUCB |  |  |
| — river | 237.9 | 4.3× |

Words between.

| arms | loop | ÷ VW |
| --- | ---: | ---: |
| 10 | auto() | 2.82 |
| 50 | auto() | 1.06 |
"""


def test_quotes_are_what_the_benchmarks_say() -> None:
    changed = refresh(check=True)
    assert not changed, (
        f"run `{REFRESH}`, which writes the quotes anew: {'; '.join(changed)}"
    )


@pytest.mark.parametrize("name", [name for name, one in QUOTES.items() if one.side])
def test_a_quote_is_on_the_side_of_1_that_the_text_says(name: str) -> None:
    found, side = value(name), QUOTES[name].side
    where = [
        str(page.relative_to(ROOT))
        for page in pages()
        if f"quote {name} " in page.read_text()
    ]
    assert side in ("more", "less")
    assert (found > 1) == (side == "more"), (
        f"{name} is now {found:g}, and {', '.join(where)} say {side} than 1: rewrite "
        "the sentences around the quote, and then `side` in benchmarks/quote.py"
    )


def test_every_quote_is_quoted_and_every_ratio_is_a_quote() -> None:
    used = {name for page in pages() for name, _ in MARK.findall(page.read_text())}
    assert used == set(QUOTES)
    for page in (ROOT / "docs" / "comparison").glob("*.md"):
        assert not re.search(r"\d ?×", MARK.sub("", page.read_text())), page


@pytest.mark.parametrize(
    "peer", ["vowpalwabbit", "mabwiser", "river", "bayesianbandits", "obp"]
)
def test_the_versions_compared_are_those_that_are_installed(peer: str) -> None:
    """The pinned version stands in the table and on the peer's pages; another one means
    reading the peer again."""
    pins = "".join(
        (ROOT / "requirements" / name).read_text() for name in ("bench.txt", "obp.txt")
    )
    version = re.search(rf"^{peer}==(\S+)$", pins, re.MULTILINE)
    assert version is not None
    folder = ROOT / "docs" / "comparison"
    about = [
        page
        for page in folder.glob("*.md")
        if f"`{peer}` " in page.read_text().split("## ")[0]
    ]
    assert len(about) >= 1
    for page in [folder / "index.md", *about]:
        assert version[1] in page.read_text(), page


def by_hand(
    row: tuple[str, ...], column: str, section: str = "Every algorithm", after: str = ""
) -> float:
    return cell(Quote("RESULTS.md", section, row, column, after=after), RESULTS, row)


def test_a_cell_is_found_by_section_row_and_column() -> None:
    assert by_hand(("ours, numpy",), "CPU µs/step", "A decision and a reward") == 1033.7
    assert by_hand(("ours, numba",), "÷ text", "A decision and a reward") == 8.6
    assert by_hand(("ours",), "÷ text", "A decision and a reward") == 2.9
    assert by_hand(("— river",), "times slower") == 1.3
    assert by_hand(("— river",), "times slower", after="LinUCB") == 4.3
    assert by_hand(("50", "auto()"), "÷ VW") == 1.06


@pytest.mark.parametrize(
    ("row", "column", "section", "says"),
    [
        (("ours",), "÷ text", "Nowhere", "no section 'Nowhere'"),
        (("theirs",), "÷ text", "A decision and a reward", "of a row theirs"),
        (
            ("ours",),
            "÷ noise",
            "A decision and a reward",
            "no number in column '÷ noise'",
        ),
        (("UCB1",), "times slower", "Every algorithm", "no number"),
    ],
)
def test_what_is_not_there_is_named(
    row: tuple[str, ...], column: str, section: str, says: str
) -> None:
    with pytest.raises(LookupError, match=re.escape(says)):
        by_hand(row, column, section)


def test_a_name_that_is_unknown_is_refused() -> None:
    with pytest.raises(LookupError, match="there is no quote 'mine' in"):
        written("<!-- quote mine -->1.0<!-- /quote -->")


def test_pages_are_written_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A quotient of two rows and a plain cell; the rest of the page, and pages without
    quotes, stay as they are."""
    decision = ("A decision and a reward", ("ours, numpy",), "CPU µs/step")
    mine = {
        "speed": Quote(
            "RESULTS.md",
            "Every algorithm",
            ("— river",),
            "times slower",
            after="LinUCB",
        ),
        "twins": Quote("RESULTS.md", *decision, over=("ours, numba",)),
    }
    monkeypatch.setattr(quote, "QUOTES", mine)
    for folder in ("docs", "benchmarks"):
        (tmp_path / folder).mkdir()
    (tmp_path / "benchmarks" / "RESULTS.md").write_text(RESULTS)
    (tmp_path / "docs" / "plain.md").write_text("4×\n")
    (tmp_path / "docs" / "page.md").write_text(
        "a <!-- quote speed -->4.2×<!-- /quote --> b\n"
    )
    (tmp_path / "README.md").write_text(
        "<!-- quote twins -->91×<!-- /quote -->, 4.2×\n"
    )
    told = ["docs/page.md: speed: 4.2× is now 4.3×"]
    assert refresh(tmp_path, check=True) == told
    assert "4.2×" in (tmp_path / "docs" / "page.md").read_text()
    assert refresh(tmp_path) == told
    assert (
        tmp_path / "docs" / "page.md"
    ).read_text() == "a <!-- quote speed -->4.3×<!-- /quote --> b\n"
    assert (
        tmp_path / "README.md"
    ).read_text() == "<!-- quote twins -->91×<!-- /quote -->, 4.2×\n"
    assert refresh(tmp_path) == []


def test_ratios_have_two_digits() -> None:
    assert [ratio(x) for x in (0.384, 0.9, 1.04, 9.94, 15.8)] == [
        "0.38×",
        "0.90×",
        "1.0×",
        "9.9×",
        "16×",
    ]
