"""Pictures that need no browser: what a terminal prints, and the idea in two panels."""

from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from examples.digits import ARMS as DIGITS
from examples.digits import GAMMA, play, train
from examples.gallery.day import visitors
from examples.gallery.world import ARMS, bank, chances
from sklearn.datasets import load_digits

import oddsmith as od
from oddsmith.files.reports.style import COLOURS, DASHES, EDGE, INK, RULE, panels, save
from oddsmith.files.reports.theme import THEMES

_WIDE, _HIGH, _ROUND = 7.83, 19, 18
ANSWERS = 60


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
    """Six models of handwritten digits: whom the agent trusts, and the odds of one
    digit before and after."""
    images = load_digits()
    order = np.random.default_rng(7).permutation(len(images.target))
    x, y = images.data[order], images.target[order]
    models = train(x[:150], y[:150])
    experts = od.ModelExperts(models, arms=DIGITS, version="gallery")
    agent = od.Agent(od.GeneralizedThompsonSampling(experts, gamma=GAMMA), seed=7)
    end = 150 + ANSWERS
    before = agent.policy.odds(agent.state, x[end:], step=1).propensities
    _, posteriors = play(agent, x[150:end], y[150:end])
    after = agent.policy.odds(agent.state, x[end:], step=ANSWERS + 1).propensities
    right = np.arange(len(y) - end), y[end:]
    shown = int(
        np.where(after[right] > 0.9, -np.abs(before[right] - 0.3), -np.inf).argmax()
    )
    figures, (left, other) = panels(2, height=3.4, width=5.6)
    trust(left, list(models), posteriors)
    bars(other, before[shown], after[shown])
    look_at(other, images.images[order][end:][shown], int(y[end:][shown]))
    save(figures, path)


def trust(panel: Any, names: list[str], posteriors: Any) -> None:
    """Lines: the probability of each model to be the right one."""
    everyone = np.vstack([np.full(len(names), 1 / len(names)), posteriors])
    for i, name in enumerate(names):
        panel.plot(everyone[:, i], color=COLOURS[i], ls=DASHES[i], lw=2, label=name)
    panel.set(
        xlabel="answers, of each only told: right or wrong",
        ylabel="posterior of each model",
        ylim=(0, 1.02),
    )
    panel.set_title("Which model to trust")
    panel.legend(loc="center right", frameon=False, fontsize=9)


def bars(panel: Any, before: Any, after: Any) -> None:
    """Bars: the odds of each answer to one digit."""
    places = np.arange(len(before))
    panel.bar(
        places - 0.2,
        before,
        0.38,
        color=RULE,
        edgecolor=EDGE,
        label="before the first answer",
    )
    panel.bar(
        places + 0.2,
        after,
        0.38,
        color=COLOURS[1],
        edgecolor=COLOURS[1],
        label=f"after {ANSWERS} answers",
    )
    panel.set(xticks=places, xlabel="answer", ylabel="exact odds", ylim=(0, 1.02))
    panel.grid(False, axis="x")
    panel.set_title("The odds of each answer to one digit")
    panel.legend(
        loc="center left", frameon=False, fontsize=9, bbox_to_anchor=(0.2, 0.8)
    )


def look_at(panel: Any, image: Any, digit: int) -> None:
    """The digit itself, in a corner of the panel."""
    inset = panel.inset_axes((0.02, 0.6, 0.2, 0.36))
    inset.imshow(image, cmap="gray_r", interpolation="nearest", aspect="equal")
    inset.set(xticks=[], yticks=[])
    inset.grid(False)
    inset.set_xlabel(f"a {digit}", color=INK)
