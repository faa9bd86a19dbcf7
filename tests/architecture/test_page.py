"""The house rules of the service's page: small files, nothing of other people's, no
markup from text."""

import re
from pathlib import Path

import pytest

import oddsmith

PAGE = Path(oddsmith.__file__).parent / "server" / "dashboard"
FILES = sorted(PAGE.iterdir())
MODULES = [path for path in FILES if path.suffix == ".js"]
MARKUP = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new "
    r"Function|\.style\b|cssText"
)


def test_the_page_is_flat_and_of_four_kinds() -> None:
    assert {path.suffix for path in FILES} == {".html", ".css", ".js", ".svg"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_files_have_at_most_250_lines(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= 250


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.name)
def test_modules_make_no_markup_from_text_and_load_only_their_own(path: Path) -> None:
    text = path.read_text()
    assert not MARKUP.findall(text)
    assert all(
        (PAGE / name).is_file() for name in re.findall(r'from "\./([^"]+)"', text)
    )
    assert not re.findall(r'(?:from|import\()\s*["\'](?!\./)', text)
    assert text.startswith("//")  # what it is for


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_nothing_comes_from_elsewhere(path: Path) -> None:
    addresses = set(re.findall(r"https?://[^\s\"'<>)]+", path.read_text()))
    assert addresses <= {"http://www.w3.org/2000/svg"}


def test_html_has_no_inline_style_or_script() -> None:
    for path in PAGE.glob("*.html"):
        text = path.read_text()
        assert not re.findall(
            r"\sstyle=|\son\w+=|<style|<script(?![^>]*\ssrc=)", text
        ), path


def test_every_module_and_every_name_that_it_exports_is_used() -> None:
    texts = {path.name: path.read_text() for path in FILES}
    for path in MODULES:
        others = "\n".join(text for name, text in texts.items() if name != path.name)
        assert (
            f'"./{path.name}"' in others
            or f'src="{path.name}"' in others
            or path.name == "docs.js"
        ), path.name
        for name in re.findall(
            r"^export (?:async )?(?:function|const|class) (\w+)", texts[path.name], re.M
        ):
            assert re.search(rf"\b{name}\b", others), f"{path.name}: {name}"
