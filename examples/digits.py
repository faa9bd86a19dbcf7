"""Learning whom to trust: six models of handwritten digits, one agent, and its rivals.

Each model was trained on few or spoilt data, as models are when they are new. The agent shows a digit, follows the
model it trusts (mostly), learns only whether that answer was right, and ends up with the best of them. Then the same
digits are played many times by the agent and by its rivals.

Run it with `make demo`; it prints a table, and writes a report (index.html) and the log of decisions.
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
from oddsmith.lab import Run, simulate
from oddsmith.lab.run import mean_and_error
from oddsmith.progress import progress
from oddsmith.reports import Figure, Section, Table, write
from oddsmith.reports.style import COLOURS, DASHES, band, panels, svg
from oddsmith.worlds import TableWorld

ARMS = tuple(str(digit) for digit in range(10))
GAMMA = 0.01
AGENT = "oddsmith (GTS, gamma 0.01)"


def train(x: Any, y: Any) -> dict[str, Any]:
    """Six models of different quality: few digits, half an image, mixed-up labels, and one that had all it needs."""
    mixed_up = np.random.default_rng(0).permutation(y)
    top_half = ColumnTransformer([("top", "passthrough", slice(0, 32))])
    forest = RandomForestClassifier(30, random_state=0)
    return {
        "logistic, 30 digits": make_pipeline(StandardScaler(), LogisticRegression(C=0.1)).fit(x[:30], y[:30]),
        "neighbours, 150 digits": KNeighborsClassifier(5).fit(x, y),
        "forest, top half only": make_pipeline(top_half, forest).fit(x, y),
        "naive Bayes, 60 digits": GaussianNB(var_smoothing=1e-2).fit(x[:60], y[:60]),
        "small tree": DecisionTreeClassifier(max_depth=4, random_state=0).fit(x, y),
        "mixed-up labels": RandomForestClassifier(30, random_state=0).fit(x, mixed_up),
    }


def play(agent: od.Agent, x: Any, y: Any) -> tuple[list[od.Decision], Any, Any]:
    """Decisions, rewards and the posterior after each of them: the loop of a real application."""
    decisions, rewards, posteriors = [], [], []
    for image, digit in progress(zip(x, y, strict=True), len(y), "digits"):
        decision = agent.decide(image)
        reward = float(decision.arm == str(digit))
        agent.learn(decision, reward)
        decisions.append(decision)
        rewards.append(reward)
        posteriors.append(list(agent.posterior().values()))
    return decisions, np.array(rewards), np.array(posteriors)


def race(experts: od.ModelExperts, x: Any, y: Any, runs: int) -> dict[str, Run]:
    """The agent and its rivals on the same digits, drawn at random in every run; a right answer pays 1."""
    said = od.TableExperts(experts.predict(experts.init(), x), names=experts.names)
    world = TableWorld((y[:, None] == np.arange(10)).astype(float))
    rivals = {
        AGENT: od.GeneralizedThompsonSampling(said, gamma=GAMMA),
        "plain Thompson sampling": od.thompson_sampling(said),
        "epsilon-greedy (epsilon 0.01)": od.epsilon_greedy(said, epsilon=GAMMA),
        "uniform play": od.uniform(said),
    }
    return {
        name: simulate(policy, world, steps=len(y), runs=runs, seed=7)
        for name, policy in progress(rivals.items(), len(rivals), "rivals")
    }


def results(runs: dict[str, Run], alone: Any, names: list[str]) -> Table:
    """The share of right answers of everybody, in falling order; models alone are those who could not learn."""
    rows = []
    for name, run in runs.items():
        right = run.rewards.mean(axis=0)
        early = run.rewards[:100].mean()
        rows.append((right.mean(), (name, f"{right.mean():.1%}", f"{mean_and_error(right)[1]:.1%}", f"{early:.1%}")))
    for i, name in enumerate(names):
        best = " (best in hindsight)" if i == alone.mean(axis=0).argmax() else ""
        share = alone[:, i].mean()
        rows.append((share, (f"{name}, alone{best}", f"{share:.1%}", "", f"{share:.1%}")))
    ordered = tuple(row for _, row in sorted(rows, key=lambda row: -row[0]))
    return Table(("who answers", "right", "± s.e.", "in the first 100"), ordered)


def trust(names: list[str], posteriors: Any) -> Figure:
    """Whom the agent trusts, digit by digit."""
    figure, (panel,) = panels(1, width=8)
    for i, name in enumerate(names):
        panel.plot(np.arange(1, len(posteriors) + 1), posteriors[:, i], color=COLOURS[i], ls=DASHES[i], label=name)
    panel.set(xscale="log", xlabel="digits answered", ylabel="probability of being the right model", ylim=(0, 1))
    panel.legend(frameon=False, fontsize=9)
    return Figure(svg(figure), "The agent starts without an opinion and soon follows the models that predict well.")


def cost(runs: dict[str, Run], alone: Any) -> Figure:
    """Wrong answers so far, of the agent, its rivals and the best model."""
    figure, (panel,) = panels(1, width=8)
    steps = np.unique(np.linspace(1, len(alone), 120).round().astype(int))
    for i, (name, run) in enumerate(runs.items()):
        wrong = np.cumsum(1 - run.rewards, axis=0)[steps - 1]
        mean, error = np.array([mean_and_error(row) for row in wrong]).T
        band(panel, steps, mean, error, i, name)
    best, typical = 1 - alone.mean(axis=0).max(), 1 - alone.mean()
    panel.plot(steps, best * steps, color="black", lw=2, label="best model, known in advance")
    panel.plot(steps, typical * steps, color="grey", ls=":", label="a model picked at random")
    ceiling = 1.6 * typical * len(alone)
    panel.set(xlabel="digits answered", ylabel="wrong answers so far", xlim=(0, len(alone)), ylim=(0, ceiling))
    panel.legend(frameon=False, fontsize=9, loc="upper left")
    caption = "What it costs to find out: the agent's curve runs beside that of the best model, which nobody knew."
    return Figure(svg(figure), caption)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("report"), help="folder for the report and the log")
    parser.add_argument("--seed", type=int, default=7, help="seed of the stream and of the agent's draws")
    parser.add_argument("--runs", type=int, default=40, help="how often the rivals play")
    arguments = parser.parse_args()
    if arguments.runs < 2 or arguments.seed < 0:
        parser.error(f"runs must be at least 2 and seed at least 0; got {arguments.runs} and {arguments.seed}")

    digits = load_digits()
    order = np.random.default_rng(arguments.seed).permutation(len(digits.target))
    x, y = digits.data[order], digits.target[order]
    print("Training six models of handwritten digits, most of them on few or spoilt data …")
    models = train(x[:150], y[:150])
    experts = od.ModelExperts(models, arms=ARMS, version="demo")
    agent = od.Agent(od.GeneralizedThompsonSampling(experts, gamma=GAMMA), seed=arguments.seed)

    print(f"The agent answers {len(y) - 150:,} new digits and is told only whether it was right …")
    decisions, rewards, posteriors = play(agent, x[150:], y[150:])
    runs = race(experts, x[150:], y[150:], arguments.runs)
    alone = np.array([model.predict(x[150:]) == y[150:] for model in models.values()]).T.astype(float)
    table = results(runs, alone, list(models))
    print(f"\n{table}\n\none decision taken apart (a {y[-1]} is shown):\n{agent.explain(x[-1])}")

    intro = (
        "Six models read handwritten digits. Nobody knows which is good. The agent follows one drawn from its "
        "posterior, sees whether that one answer was right, and re-weighs all six. Every decision is logged with its "
        "exact odds.\n\n"
        f"In this run it was right {rewards.mean():.1%} of the time. One answer in a hundred is drawn at random: that "
        "costs a little, and buys a log from which any other policy can be evaluated. Plain Thompson sampling saves "
        "it, and gives some arms odds of 0."
    )
    sections = [
        Section("What it costs to find out", figures=(cost(runs, alone),), tables=(table,)),
        Section("Whom the agent trusts", figures=(trust(list(models), posteriors),)),
        Section("One decision taken apart", f"A {y[-1]} is shown.", printed=str(agent.explain(x[-1]))),
    ]
    page = write(arguments.out / "index.html", "Learning whom to trust", intro, sections)
    (arguments.out / "decisions.jsonl").write_text("\n".join(d.to_json() for d in decisions) + "\n")
    print(f"\nreport: {page}   log: {arguments.out / 'decisions.jsonl'}")


if __name__ == "__main__":
    main()
