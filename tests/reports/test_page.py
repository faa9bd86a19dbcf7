"""The report's page: one file, nothing fetched, nothing interpreted."""

import base64
from pathlib import Path

import numpy as np
import pytest

import oddsmith as od
from oddsmith.reports import Figure, Section, Table, render, write
from oddsmith.reports.style import COLOURS, DASHES, MARKERS, band, panels, pyplot, svg


def test_text_is_escaped() -> None:
    page = render(
        "<b>", "a & b", [Section("<script>", "x < y", printed="</pre>", tables=(Table(("<h>",), (("<c>",),)),))]
    )
    assert "<script>" not in page
    assert "&lt;script&gt;" in page
    assert "&lt;c&gt;" in page
    assert page.count("</pre>") == 1


def test_figures_are_inside() -> None:
    before = pyplot().get_fignums()
    figure, (panel,) = panels(1)
    band(panel, np.arange(1.0, 20), np.arange(19.0), np.ones(19), 0, "a line")
    panel.set(xscale="log")
    drawn = svg(figure)
    page = render("t", "", [Section("s", figures=(Figure(drawn, "what to see"),))])
    assert base64.b64encode(drawn.encode()).decode() in page
    assert 'alt="what to see"' in page
    assert drawn.startswith("<svg")
    assert pyplot().get_fignums() == before  # closed, or long sessions fill the memory


def test_the_same_figure_is_the_same_text() -> None:
    texts = []
    for _ in range(2):
        figure, (panel,) = panels(1)
        panel.plot([1, 2], [3, 4])
        texts.append(svg(figure))
    assert texts[0] == texts[1]


def test_colours_come_with_dashes_and_markers() -> None:
    assert len(set(COLOURS)) == len(set(DASHES)) == len(set(MARKERS)) == 7


def test_yes_and_no_are_coloured_and_numbers_aligned() -> None:
    page = render("t", "", [Section("s", tables=(Table(("a", "b"), (("yes", "1.5 ± 0.1"), ("no", "≤ 3"))),))])
    for kind in ("yes", "no", "number"):
        assert f'<td class="{kind}">' in page


def test_a_folder_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(od.InvalidInput, match="out must be a folder"):
        write(tmp_path / "file" / "index.html", "t", "", [])
