"""Vowpal Wabbit's Python API on the same decisions: its documented loop, and two
stronger ones.

All of them predict, draw an arm from the returned distribution, and learn from the
reward of the drawn arm.
"""

from collections.abc import Callable
from typing import Any

ARGUMENTS = "--cb_explore_adf --epsilon 0.02 --quiet"


def lines_of(features: Any) -> list[str]:
    """One decision in VW's text format: a shared line and a line per arm."""
    arms = [
        "|f " + " ".join(f"{j}:{value:.6g}" for j, value in enumerate(row))
        for row in features.tolist()
    ]
    return ["shared |s", *arms]


def pick(odds: list[float], uniform: float) -> int:
    """The arm that the uniform number draws."""
    reached = 0.0
    for arm, probability in enumerate(odds):
        reached += probability
        if reached > uniform:
            return arm
    return len(odds) - 1


def contenders(problem: Any) -> dict[str, Callable[[], int]]:
    """Loops over the problem's decisions, each with a workspace of its own."""
    import vowpalwabbit as vw

    kind = vw.LabelType.CONTEXTUAL_BANDIT
    texts = [lines_of(features) for features in problem.contexts]
    workspaces = {
        name: vw.Workspace(ARGUMENTS) for name in ("text", "parsed once", "arrays")
    }

    def documented() -> int:
        space, record = workspaces["text"], []
        for t, lines in enumerate(texts):
            odds = space.predict(lines)
            arm = pick(odds, problem.uniforms[t])
            labelled = list(lines)
            labelled[arm + 1] = (
                f"0:{-problem.rewards[t][arm]}:{odds[arm]} {lines[arm + 1]}"
            )
            space.learn(labelled)
            record.append((arm, odds))
        return len(record)

    def parsed_once() -> int:
        space, record = workspaces["parsed once"], []
        for t, lines in enumerate(texts):
            examples = space.parse(lines, kind)
            odds = space.predict(examples)
            arm = pick(odds, problem.uniforms[t])
            examples[arm + 1].set_label_string(
                f"0:{-problem.rewards[t][arm]}:{odds[arm]}"
            )
            space.learn(examples)
            space.finish_example(examples)
            record.append((arm, odds))
        return len(record)

    def from_arrays() -> int:
        space, record = workspaces["arrays"], []
        numbers = range(1, problem.contexts.shape[-1] + 1)
        for t, features in enumerate(problem.contexts):
            examples = [
                vw.Example(space, {"f": list(zip(numbers, row, strict=True))}, kind)
                for row in features.tolist()
            ]
            odds = space.predict(examples)
            arm = pick(odds, problem.uniforms[t])
            examples[arm].set_label_string(f"0:{-problem.rewards[t][arm]}:{odds[arm]}")
            space.learn(examples)
            space.finish_example(examples)
            record.append((arm, odds))
        return len(record)

    return {
        "VW, documented loop on text made beforehand": documented,
        "VW, text made beforehand, parsed once, relabelled": parsed_once,
        "VW, examples from arrays": from_arrays,
    }
