"""The report's page: one file, nothing fetched, nothing interpreted."""

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

import oddsmith as od
from oddsmith.files.reports import Figure, Section, Table, render, write
from oddsmith.files.reports.style import panels, svg


def drawn(n: int = 1) -> str:
    figures, axes = panels(n)
    for panel in axes:
        panel.plot([1, 2], [3, 4], "o", label="a line")
    return svg(figures)


def test_text_is_escaped() -> None:
    page = render(
        "<b>",
        "a & b",
        [
            Section(
                "<script>",
                "x < y",
                printed="</pre>",
                tables=(Table(("<h>",), (("<c>",),)),),
            )
        ],
    )
    assert "<script>" not in page
    assert "&lt;script&gt;" in page
    assert "&lt;c&gt;" in page
    assert page.count("</pre>") == 1


def test_ids_differ_between_figures_and_all_that_is_referred_to_is_there() -> None:
    page = render(
        "t",
        "",
        [
            Section(
                "s",
                figures=(Figure(drawn(2), "one"), Figure(drawn(), "the same again")),
            )
        ]
        * 2,
    )
    ids = re.findall(r' id="([^"]+)"', page)
    assert len(ids) == len(set(ids)) > 6
    assert set(re.findall(r'(?:href="|url\()#([^")]+)', page)) <= set(ids)


class _Outline(HTMLParser):
    """Tags as they begin, and whether all that were opened are closed."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.begun: list[tuple[str, dict[str, Any]]] = []
        self.open: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.begun.append((tag, dict(attrs)))
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_verdict_picture_table_details() -> None:
    table = Table(("who", "regret"), (("one", "7.5"),), "Regret of everybody")
    first = Section(
        "Picture",
        "words",
        printed="x",
        tables=(table,),
        figures=(Figure(drawn(), "look"),),
    )
    found = _Outline(
        render(
            "t",
            "The answer.\n\nMore.",
            [first, Section("s"), Section("Details", "d", folded=True)],
        )
    )
    assert found.open == []
    wanted = [
        "header",
        "h1",
        "main",
        "p",
        "p",
        "h2",
        "svg",
        "figcaption",
        "table",
        "caption",
        "pre",
        "nav",
        "details",
    ]
    assert [
        tag for tag, _ in found.begun if tag in {*wanted, "script", "img", "link"}
    ] == [
        *wanted[:6],
        "p",
        *wanted[6:12],
        "h2",
        "details",
        "h2",
        "p",
    ]
    assert [about.get("class") for tag, about in found.begun if tag == "p"] == [
        "lead",
        None,
        None,
        None,
    ]
    (picture,) = [about for tag, about in found.begun if tag == "svg"]
    assert (picture["role"], picture["aria-label"]) == ("img", "Chart: a line")
    (policy,) = [
        about["content"] for tag, about in found.begun if "http-equiv" in about
    ]
    assert policy == "default-src 'none'; style-src 'unsafe-inline'"


def test_yes_and_no_are_coloured_and_numbers_aligned() -> None:
    page = render(
        "t",
        "",
        [
            Section(
                "s",
                tables=(
                    Table(
                        ("a", "b", "c"), (("x", "yes", "1.5 ± 0.1"), ("y", "no", "≤ 3"))
                    ),
                ),
            )
        ],
    )
    for kind in ("yes", "no", "number"):
        assert f'<td class="{kind}">' in page


def test_a_folder_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(od.InvalidInput, match="out must be a writable folder"):
        write(tmp_path / "file" / "index.html", "t", "", [])
