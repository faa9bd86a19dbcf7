"""Pictures that need no browser: what a terminal prints, and the demo's result."""

from html import escape
from pathlib import Path

import numpy as np
from examples.gallery.day import visitors
from examples.gallery.world import ARMS, bank, chances
from examples.models import draw_file, play

import oddsmith as od
from oddsmith.files.reports.theme import THEMES

_WIDE, _HIGH, _ROUND = 7.83, 19, 18


def terminal(text: str, label: str) -> str:
    """Text as a terminal shows it, as an SVG file that follows its reader's theme;
    typed lines begin with > or $."""
    lines = text.splitlines()
    width, height = (
        2 * _ROUND + _WIDE * max(map(len, lines)),
        2 * _ROUND + _HIGH * len(lines),
    )
    light, dark = (
        ";".join(
            f"--{name}:{THEMES[name][i]}" for name in ("sheet", "ink", "rule", "link")
        )
        for i in (0, 1)
    )
    rows = []
    for i, line in enumerate(lines):
        typed = ' class="typed"' if line.startswith((">>>", "...", "$")) else ""
        rows.append(
            f'<text x="{_ROUND}" '
            f'y="{_ROUND + _HIGH * (i + 0.75):.1f}"{typed}>{escape(line)}</text>'
        )
    style = (
        f":root{{{light}}}@media screen and "
        f"(prefers-color-scheme:dark){{:root{{{dark}}}}}"
        "text{font:13px ui-monospace,Menlo,Consolas,'DejaVu Sans "
        "Mono',monospace;fill:var(--ink);white-space:pre}"
        ".typed{fill:var(--link)}rect{fill:var(--sheet);stroke:var(--rule)}"
    )
    size = (
        f'viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" '
        f'height="{height:.0f}"'
    )
    ground = (
        f'<rect x="0.5" y="0.5" width="{width - 1:.0f}" height="{height - 1:.0f}" '
        'rx="8"/>'
    )
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" '
        f'aria-label="{escape(label)}">'
    )
    return "\n".join([head, f"<style>{style}</style>", ground, *rows, "</svg>", ""])


def explain(path: Path) -> None:
    """The table of one decision, after 120 visitors."""
    agent, rng = (
        od.Agent(od.GeneralizedThompsonSampling(bank(ARMS), gamma=0.1), seed=7),
        np.random.default_rng(3),
    )
    for part in range(12):
        who = visitors(rng, 6 + part)
        for row, likely in zip(who.to_dict("records"), chances(who), strict=True):
            decision = agent.decide(row)
            agent.learn(decision, int(rng.random() < likely[ARMS.index(decision.arm)]))
    typed = '>>> print(agent.explain({"hour": 8, "phone": 1, "age": 50}))'
    text = f"{typed}\n{agent.explain({'hour': 8, 'phone': 1, 'age': 50})}"
    path.write_text(
        terminal(text, "A terminal: the explanation of one decision, expert by expert"),
        encoding="utf-8",
    )


def idea(path: Path) -> None:
    """What `auto` earns by choosing among models, and what other methods earn."""
    _, result = play(3000, 40, 7)
    draw_file(result, path)
