"""Learning whom to trust: six models of handwritten digits, one agent, and its rivals.

Each model was trained on few or spoilt data, as models are when they are new. The agent
shows a digit, follows the model it trusts (mostly), learns only whether that answer was
right, and ends up with the best of them. Then the same digits are played many times by
the agent and by its rivals.

Run it with `make demo`; it prints a table, and writes a report (index.html) and the log
of decisions.
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

import oddsmith as od
from oddsmith.files.reports import Figure, Section, Table, write
from oddsmith.files.reports.answer import chart, digits, interval
from oddsmith.files.reports.style import (
    COLOURS,
    DASHES,
    EDGE,
    INK,
    band,
    legend,
    panels,
    svg,
)
from oddsmith.lab import Run, simulate
from oddsmith.lab.leaders import interval_of
from oddsmith.lab.run import mean_and_error
from oddsmith.lab.worlds import TableWorld
from oddsmith.logs.progress import progress

ARMS = tuple(str(digit) for digit in range(10))
GAMMA = 0.01
AGENT, UNIFORM = "oddsmith (GTS, gamma 0.01)", "uniform play"


def train(x: Any, y: Any) -> dict[str, Any]:
    """Six models of different quality: few digits, half an image, mixed-up labels, and
    one that had all it needs."""
    mixed_up = np.random.default_rng(0).permutation(y)
    top_half = ColumnTransformer([("top", "passthrough", slice(0, 32))])
    forest = RandomForestClassifier(30, random_state=0)
    return {
        "logistic, 30 digits": make_pipeline(
            StandardScaler(), LogisticRegression(C=0.1)
        ).fit(x[:30], y[:30]),
        "neighbours, 150 digits": KNeighborsClassifier(5).fit(x, y),
        "forest, top half only": make_pipeline(top_half, forest).fit(x, y),
        "naive Bayes, 60 digits": GaussianNB(var_smoothing=1e-2).fit(x[:60], y[:60]),
        "small tree": DecisionTreeClassifier(max_depth=4, random_state=0).fit(x, y),
        "mixed-up labels": RandomForestClassifier(30, random_state=0).fit(x, mixed_up),
    }


def play(agent: od.Agent, x: Any, y: Any) -> tuple[list[od.Decision], Any]:
    """Decisions, and the posterior after each of them: the loop of a real
    application."""
    decisions, posteriors = [], []
    for image, digit in progress(zip(x, y, strict=True), len(y), "digits"):
        decision = agent.decide(image)
        reward = float(decision.arm == str(digit))
        agent.learn(decision, reward)
        decisions.append(decision)
        posteriors.append(list(agent.posterior().values()))
    return decisions, np.array(posteriors)


def race(experts: od.ModelExperts, x: Any, y: Any, runs: int) -> dict[str, Run]:
    """The agent and its rivals on the same digits, drawn at random in every run; a
    right answer pays 1."""
    said = od.TableExperts(experts.predict(experts.init(), x), names=experts.names)
    world = TableWorld((y[:, None] == np.arange(10)).astype(float))
    rivals = {
        AGENT: od.GeneralizedThompsonSampling(said, gamma=GAMMA),
        "plain Thompson sampling": od.thompson_sampling(said),
        "epsilon-greedy (epsilon 0.01)": od.epsilon_greedy(said, epsilon=GAMMA),
        UNIFORM: od.uniform(said),
    }
    return {
        name: simulate(policy, world, steps=len(y), runs=runs, seed=7)
        for name, policy in progress(rivals.items(), len(rivals), "rivals")
    }


def answers(runs: dict[str, Run], alone: Any, names: list[str]) -> dict[str, Any]:
    """The chance to be right, digit by digit (T, runs): of those who learn, and of each
    model alone on the same digits.

    It is exact given the digits (the odds of the right answer), and the one source of
    every number and figure below.
    """
    # the same digits for all, by their seed
    shown = np.array(next(iter(runs.values())).contexts)
    return {name: 1 - run.regret for name, run in runs.items()} | {
        f"{name}, alone": alone[shown, i] for i, name in enumerate(names)
    }


def ranked(right: dict[str, Any]) -> list[str]:
    """Those who answer, the best first."""
    return sorted(right, key=lambda name: -float(right[name].mean()))


def best_model(right: dict[str, Any]) -> str:
    return next(name for name in ranked(right) if name.endswith(", alone"))


def missed(right: dict[str, Any], name: str) -> Any:
    """Mistakes of `name` more than those of the best model on the same digits, so far
    (T, runs)."""
    return np.cumsum(right[best_model(right)] - right[name], axis=0)


def verdict(right: dict[str, Any]) -> str:
    """What finding out has cost, in one sentence."""
    lost, (length, runs) = interval_of(missed(right, AGENT)[-1]), right[AGENT].shape
    mistakes = (
        f"{abs(lost.value):.{digits(lost)}f} {'more' if lost.value > 0 else 'fewer'} "
        "mistakes"
    )
    return (
        "Told only whether its own answer was right, the agent answers "
        f"{right[AGENT].mean():.1%} of {length:,} digits right: {mistakes} than the "
        f"best of the six models, which it was not told, {interval(lost)} (95 % "
        f"interval over {runs} runs)."
    )


def picture(right: dict[str, Any]) -> str:
    """Mistakes more than the best model's, for a terminal; those far off are beyond the
    axis."""
    bars = [
        (name, interval_of(missed(right, name)[-1]))
        for name in ranked(right)
        if name != best_model(right)
    ]
    return chart(
        bars, zero="the best model; further right: more mistakes", most=ceiling(right)
    )


def ceiling(right: dict[str, Any]) -> float:
    """Where the axes end: with those who learn, not with uniform play."""
    learners = [
        name for name in right if not name.endswith(", alone") and name != UNIFORM
    ]
    return 1.4 * max(interval_of(missed(right, name)[-1]).high for name in learners)


def results(right: dict[str, Any]) -> Table:
    """The share of right answers of everybody, in falling order; models alone are those
    who could not learn."""
    rows = []
    for name in ranked(right):
        share, error = mean_and_error(right[name].mean(axis=0))
        shown = f"{name} (best in hindsight)" if name == best_model(right) else name
        rows.append(
            (shown, f"{share:.1%}", f"{error:.1%}", f"{right[name][:100].mean():.1%}")
        )
    return Table(
        ("who answers", "right", "± s.e.", "in the first 100"),
        tuple(rows),
        "Right answers, the best first",
    )


def trust(names: list[str], posteriors: Any) -> Figure:
    """Whom the agent trusts, digit by digit."""
    figure, (panel,) = panels()
    for i, name in enumerate(names):
        panel.plot(
            np.arange(1, len(posteriors) + 1),
            posteriors[:, i],
            color=COLOURS[i],
            ls=DASHES[i],
            label=name,
        )
    panel.set(
        xscale="log",
        xlabel="digits answered",
        ylabel="probability of being the right model",
        ylim=(0, 1),
    )
    legend(panel)
    return Figure(
        svg(figure),
        "The agent starts without an opinion and soon follows the models that predict "
        "well.",
    )


def cost(right: dict[str, Any]) -> Figure:
    """What it costs to find out: mistakes more than those of the best model, so far."""
    figure, (panel,) = panels()
    length, runs = right[AGENT].shape
    steps = np.unique(np.linspace(1, length, 120).round().astype(int))
    second = [name for name in ranked(right) if name.endswith(", alone")][1]
    for i, name in enumerate(
        [
            AGENT,
            *(name for name in right if not name.endswith(", alone") and name != AGENT),
        ]
    ):
        mean, error = np.array(
            [mean_and_error(row) for row in missed(right, name)[steps - 1]]
        ).T
        band(panel, steps, mean, error, i, name)
    panel.plot(
        steps,
        missed(right, second)[steps - 1].mean(axis=1),
        color=EDGE,
        ls=":",
        label=f"{second} (second best)",
    )
    panel.axhline(
        0, color=INK, lw=2, label=f"{best_model(right)} (the best, known in advance)"
    )
    panel.set(xlabel="digits answered", ylabel="mistakes more than the best model's")
    panel.set(xlim=(0, length), ylim=(-0.05 * ceiling(right), ceiling(right)))
    legend(panel)
    leave = (
        "Uniform play and the second-best model leave the picture at once. Lower is "
        "better."
    )
    return Figure(
        svg(figure),
        f"What it costs to find out whom to trust: mean of {runs} runs, with two "
        f"standard errors. {leave}",
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("report"),
        help="folder for the report and the log",
    )
    parser.add_argument(
        "--seed",
        type=int,
        default=7,
        help="seed of the stream and of the agent's draws",
    )
    parser.add_argument(
        "--runs", type=int, default=40, help="how often the rivals play"
    )
    arguments = parser.parse_args()
    if arguments.runs < 2 or arguments.seed < 0:
        parser.error(
            f"runs must be at least 2 and seed at least 0; got {arguments.runs} and "
            f"{arguments.seed}"
        )

    images = load_digits()
    order = np.random.default_rng(arguments.seed).permutation(len(images.target))
    x, y = images.data[order], images.target[order]
    print(
        "Training six models of handwritten digits, most of them on few or spoilt data "
        "…"
    )
    models = train(x[:150], y[:150])
    experts = od.ModelExperts(models, arms=ARMS, version="demo")
    agent = od.Agent(
        od.GeneralizedThompsonSampling(experts, gamma=GAMMA), seed=arguments.seed
    )

    print(
        f"The agent answers {len(y) - 150:,} new digits and is told only whether it "
        "was right …"
    )
    decisions, posteriors = play(agent, x[150:], y[150:])
    alone = np.array(
        [model.predict(x[150:]) == y[150:] for model in models.values()]
    ).T.astype(float)
    right = answers(
        race(experts, x[150:], y[150:], arguments.runs), alone, list(models)
    )
    explained, table = str(agent.explain(x[-1])), results(right)
    print(f"\n{verdict(right)}\n\n{picture(right)}\n\n{table}")
    print(f"\none decision taken apart (a {y[-1]} is shown):\n{explained}")

    told = (
        "Six models read handwritten digits. Which of them is good is not known. The "
        "agent follows one drawn from its posterior, sees whether that one answer was "
        "right, and re-weighs all six. Every decision is logged with its exact odds. "
        f"All numbers are means of {arguments.runs} runs of {len(y) - 150:,} "
        "digits.\n\n"
        "One answer in a hundred is drawn at random: that costs a little, and buys a "
        "log from which any other policy can be evaluated. Plain Thompson sampling "
        "saves it, and gives some arms odds of 0."
    )
    figure = cost(right)
    sections = [
        Section("What it costs to find out", figures=(figure,), tables=(table,)),
        Section(
            "Whom the agent trusts",
            "One more run, digit by digit.",
            figures=(trust(list(models), posteriors),),
        ),
        Section(
            "One decision taken apart",
            f"A {y[-1]} is shown, after that run.",
            printed=explained,
        ),
        Section("How it was played", told, folded=True),
    ]
    page = write(
        arguments.out / "index.html", "Learning whom to trust", verdict(right), sections
    )
    (arguments.out / "digits.svg").write_text(figure.file())
    (arguments.out / "decisions.jsonl").write_text(
        "\n".join(d.to_json() for d in decisions) + "\n"
    )
    print(f"\nreport: {page}   log: {arguments.out / 'decisions.jsonl'}")


if __name__ == "__main__":
    main()
