"""Figures: text stays text, colours are those of the theme and can be told apart, a
name beside every line."""

import ast
import re
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

import oddsmith
from oddsmith.files.reports.style import (
    COLOURS,
    DASHES,
    EDGE,
    MARKERS,
    SHEET,
    alone,
    band,
    legend,
    panels,
    pyplot,
    save,
    svg,
)
from oddsmith.files.reports.theme import MONO, THEMES, TYPE, variables


def test_the_service_has_the_same_colours_and_type() -> None:
    sheet = (
        Path(oddsmith.__file__).parent / "server" / "dashboard" / "app.css"
    ).read_text()
    found = re.findall(r"--(\w+): light-dark\((#\w+), (#\w+)\);", sheet)
    assert {name: (light, dark) for name, light, dark in found} == THEMES
    assert f"--type: {TYPE};" in sheet
    assert f"--mono: {MONO};" in sheet


def luminance(colour: str) -> float:
    """Of WCAG 2."""
    parts = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", [0, 1])
def test_words_and_lines_stand_out_in_both_themes(theme: int) -> None:
    colours = {name: pair[theme] for name, pair in THEMES.items()}
    for ground in ("sheet", "ground", "raised"):
        for words in ("ink", "soft", "link", "well", "look", "broken"):
            assert contrast(colours[words], colours[ground]) >= 4.5, (words, ground)
    for line in ("edge", *(f"c{i}" for i in range(1, 9))):
        assert contrast(colours[line], colours["sheet"]) >= 3, line


def test_colours_come_with_dashes_and_markers() -> None:
    assert len(set(COLOURS)) == len(set(DASHES)) == len(set(MARKERS)) == 8


def test_no_two_lines_agree() -> None:
    figures, (panel,) = panels()
    for i in range(20):
        band(panel, np.arange(3.0), np.arange(3.0), np.ones(3), i, f"line {i}")
    looks = [
        (line.get_color(), str(line.get_linestyle()), line.get_marker())
        for line in panel.lines
    ]
    pyplot().close(figures[0])
    assert all(
        sum(a != b for a, b in zip(one, other, strict=True)) >= 1
        for one, other in combinations(looks, 2)
    )


def test_text_stays_text_and_colours_are_attributes() -> None:
    before = pyplot().get_fignums()
    figures, (panel,) = panels()
    band(panel, np.arange(1.0, 20), np.arange(19.0), np.ones(19), 0, "a <line> for $5")
    panel.bar([1, 2], [3, 4], color=COLOURS[1], hatch="//", yerr=1.0, capsize=4)
    panel.axvline(3, color=EDGE)
    panel.plot([2], [2], "o", mec=SHEET)
    panel.annotate("here", (3, 3))
    panel.set(xscale="log", xlabel="steps", ylabel="regret", title="A title")
    legend(panel, title="names")
    drawn = svg(figures)
    assert drawn.startswith("<svg")
    for words in (
        "a &lt;line&gt; for $5",
        "steps",
        "regret",
        "A title",
        "here",
        "names",
        ">10<",
    ):
        assert words in drawn
    assert (
        'aria-label="Chart: A title; regret against steps; a &lt;line&gt; for $5"'
        in drawn
    )
    assert "style" not in drawn
    drawn_with = set(re.findall(r'(?:fill|stroke)="([^"]*)"', drawn))
    others = drawn_with - {light for light, _ in THEMES.values()} - {"none"}
    assert all(one.startswith("url(#") for one in others), others  # the hatch
    assert pyplot().get_fignums() == before  # closed, or long sessions fill the memory


def test_the_same_figure_is_the_same_text() -> None:
    texts = []
    for _ in range(2):
        figures, (panel,) = panels()
        panel.plot([1, 2], [3, 4])
        texts.append(svg(figures))
    assert texts[0] == texts[1]


def test_a_legend_hides_nothing_and_fits() -> None:
    figures, (panel,) = panels()
    for i in range(6):
        panel.plot([1, 2], [i, i], label=f"a policy of a rather long name, number {i}")
    legend(panel)
    (figure,) = figures
    figure.canvas.draw()
    names, room = figure.legends[0].get_window_extent(), panel.get_window_extent()
    assert names.y0 >= room.y1
    assert names.x1 <= figure.bbox.x1
    assert names.y1 <= figure.bbox.y1
    assert room.height > 150
    pyplot().close(figure)


def test_a_file_of_its_own_has_both_themes(tmp_path: Path) -> None:
    figures, axes = panels(2)
    for panel in axes:
        panel.plot([1, 2], [3, 4], color=COLOURS[0])
    save(figures, tmp_path / "two.svg")
    text = (tmp_path / "two.svg").read_text()
    assert text.count("<svg") == 3
    assert 'viewBox="0 0 884 346"' in text
    assert variables().splitlines()[-1] in text.replace("&gt;", ">")
    ids = re.findall(r' id="([^"]+)"', text)
    assert len(ids) == len(set(ids))
    assert alone("<svg width='1' height='2' />").startswith("<svg")


def test_figures_are_drawn_with_the_colours_of_the_theme() -> None:
    root, own = Path(oddsmith.__file__).parent, Path(__file__).parents[3]
    parts = {
        "c",
        "color",
        "colors",
        "ec",
        "edgecolor",
        "edgecolors",
        "fc",
        "facecolor",
        "mec",
        "mfc",
    }
    named, seen = [], 0
    for path in (
        *root.rglob("*.py"),
        *(own / "benchmarks").glob("*.py"),
        *(own / "examples").glob("*.py"),
    ):
        text = path.read_text()
        if "oddsmith.files.reports.style" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.keyword) and node.arg in parts:
                seen += 1
                if isinstance(node.value, ast.Constant) and node.value.value != "none":
                    named.append(f"{path.name}: {node.arg}={node.value.value!r}")
    assert seen > 50
    assert named == []
