"""The gallery: every picture is there, is shown with words for those who do not see it,
and comes from the script."""

import re
import struct
from pathlib import Path
from xml.etree import ElementTree

import pytest

import oddsmith as od

REPOSITORY = Path(od.__file__).parents[2]
FOLDER = REPOSITORY / "docs" / "gallery"
IMAGE = re.compile(r"!\[([^\]]*)\]\(([^)]+)\)")
README, PAGE = REPOSITORY / "README.md", REPOSITORY / "docs" / "gallery.md"


def images(page: Path) -> dict[Path, str]:
    """The pictures of the gallery that a page shows, with their words."""
    shown = {
        (page.parent / path).resolve(): words
        for words, path in IMAGE.findall(page.read_text())
    }
    return {path: words for path, words in shown.items() if path.parent == FOLDER}


def test_the_page_shows_every_picture_that_the_script_makes_and_no_other() -> None:
    listed = re.search(
        r"^PICTURES = \((.*?)\)",
        (REPOSITORY / "examples/gallery/__main__.py").read_text(),
        re.M | re.S,
    )
    assert listed is not None
    names = set(re.findall(r'"([^"]+)"', listed[1]))
    assert {path.name for path in FOLDER.iterdir()} == names
    assert {path.name for path in images(PAGE)} == names


@pytest.mark.parametrize("page", [README, PAGE], ids=lambda page: page.name)
def test_every_picture_has_words_of_its_own(page: Path) -> None:
    found = images(page)
    assert found
    assert all(path.exists() for path in found)
    assert all(len(words.split()) >= 5 for words in found.values())
    assert len(set(found.values())) == len(found)


def test_every_picture_of_the_page_has_what_is_seen_and_what_makes_it() -> None:
    """Below each picture stands a text; each section names a command."""
    sections = PAGE.read_text().split("\n## ")[1:]
    for section in sections:
        assert re.search(
            r"`(python|oddsmith|make|print)[^`]*`", IMAGE.sub("", section)
        ), section
        for after in re.split(r"!\[[^\n]*\n", section)[1:]:
            assert len(after.partition("![")[0].split()) > 10, section


@pytest.mark.parametrize("path", sorted(FOLDER.iterdir()), ids=lambda path: path.name)
def test_pictures_are_small_and_whole(path: Path) -> None:
    assert path.stat().st_size < 200_000
    if path.suffix == ".png":
        content = path.read_bytes()
        width, height = struct.unpack(">II", content[16:24])
        assert content[:8] == b"\x89PNG\r\n\x1a\n"
        assert 600 <= width <= 1920
        assert height < 2200  # what matters, and not the whole of a long page
    else:
        root = ElementTree.fromstring(path.read_text())
        assert root.tag.endswith("svg")
        assert root.get("viewBox")


def test_the_picture_of_the_bake_off_is_that_of_the_benchmarks() -> None:
    drawn = REPOSITORY / "benchmarks" / "figures" / "bakeoff.svg"
    same = (FOLDER / "bakeoff.svg").read_bytes() == drawn.read_bytes()
    assert same, (
        "run `python -m examples.gallery bakeoff.svg`, which takes the last one"
    )
