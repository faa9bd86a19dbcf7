"""Learning whom to trust: six models of handwritten digits, one agent.

Each model was trained on few or spoilt data, as models are when they are new. The agent shows a digit, follows the
model it trusts (mostly), learns only whether that answer was right, and ends up with the best of them.

Run it with `make demo`; it prints a table and writes a figure and the log of decisions.
"""

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

import oddsmith as od

ARMS = tuple(str(digit) for digit in range(10))


def train(x: Any, y: Any) -> dict[str, Any]:
    """Six models of different quality; the last one learnt from labels that were mixed up."""
    mixed_up = np.random.default_rng(0).permutation(y)
    models = {
        "logistic": make_pipeline(StandardScaler(), LogisticRegression(C=0.1, max_iter=500)),
        "neighbours": KNeighborsClassifier(5),
        "forest": RandomForestClassifier(30, random_state=0),
        "naive Bayes": GaussianNB(var_smoothing=1e-2),
        "small tree": DecisionTreeClassifier(max_depth=4, random_state=0),
        "mixed-up labels": RandomForestClassifier(30, random_state=0),
    }
    return {name: m.fit(x, mixed_up if name == "mixed-up labels" else y) for name, m in models.items()}


def play(agent: od.Agent, x: Any, y: Any) -> tuple[list[od.Decision], Any, Any]:
    """Decisions, rewards and the posterior after each of them."""
    decisions, rewards, posteriors = [], [], []
    for step, (image, digit) in enumerate(zip(x, y, strict=True), start=1):
        decision = agent.decide(image)
        reward = float(decision.arm == str(digit))
        agent.learn(decision, reward)
        decisions.append(decision)
        rewards.append(reward)
        posteriors.append(list(agent.posterior().values()))
        if sys.stderr.isatty() and (step % 50 == 0 or step == len(y)):
            print(f"\r{step:5} of {len(y)} digits", end="\n" if step == len(y) else "", file=sys.stderr)
    return decisions, np.array(rewards), np.array(posteriors)


def table(names: list[str], alone: Any, posteriors: Any, rewards: Any) -> str:
    """What each model earns alone, how much the agent trusts it, and what the agent earns."""
    lines = [f"{'model':18}{'right alone':>12}{'trust at 10':>14}{'trust at end':>14}"]
    for i in np.argsort(-alone.mean(axis=0)):
        lines.append(f"{names[i]:18}{alone[:, i].mean():12.1%}{posteriors[9, i]:14.3f}{posteriors[-1, i]:14.3f}")
    best = alone.mean(axis=0).max()
    lines += [
        "",
        f"the agent was right {rewards.mean():.1%} of the time, {rewards[-500:].mean():.1%} in the last 500;",
        f"the best model alone {best:.1%}, a random model {alone.mean():.1%}, a random digit 10.0%",
    ]
    return "\n".join(lines)


def figure(names: list[str], alone: Any, posteriors: Any, rewards: Any, path: Path) -> None:
    """Left: trust over time. Right: errors so far, of the agent and of each model alone."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    colours = dict(zip(names, plt.get_cmap("tab10").colors, strict=False))
    steps = np.arange(1, len(rewards) + 1)
    fig, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
    for i, name in enumerate(names):
        left.plot(steps, posteriors[:, i], color=colours[name], label=name)
        right.plot(steps, np.cumsum(1 - alone[:, i]), color=colours[name], lw=1)
    right.plot(steps, np.cumsum(1 - rewards), color="black", lw=2.5, label="the agent, learning whom to follow")
    left.set(
        xscale="log", xlabel="decisions", ylabel="posterior probability", title="Whom the agent trusts", ylim=(0, 1)
    )
    worst = float(np.cumsum(1 - rewards)[-1])
    right.set(
        xlabel="decisions", ylabel="wrong answers so far", title="What it costs to find out", ylim=(0, 2.2 * worst)
    )
    left.legend(frameon=False, fontsize=9)
    right.legend(frameon=False, fontsize=9)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    fig.savefig(path, dpi=130)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("demo"), help="folder for the figure and the log")
    parser.add_argument("--seed", type=int, default=7, help="seed of the stream and of the agent's draws")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)

    digits = load_digits()
    order = np.random.default_rng(arguments.seed).permutation(len(digits.target))
    x, y = digits.data[order], digits.target[order]
    models = train(x[:150], y[:150])
    experts = od.ModelExperts(models, arms=ARMS, version="demo")
    agent = od.Agent(od.GeneralizedThompsonSampling(experts, gamma=0.01), seed=arguments.seed)

    decisions, rewards, posteriors = play(agent, x[150:], y[150:])
    alone = np.array([model.predict(x[150:]) == y[150:] for model in models.values()]).T.astype(float)
    print(table(list(models), alone, posteriors, rewards))
    print(f"\none decision taken apart (a {y[-1]} is shown):\n{agent.explain(x[-1])}")
    figure(list(models), alone, posteriors, rewards, arguments.out / "digits.png")
    (arguments.out / "decisions.jsonl").write_text("\n".join(d.to_json() for d in decisions) + "\n")
    print(f"\nfigure: {arguments.out / 'digits.png'}   log: {arguments.out / 'decisions.jsonl'}")


if __name__ == "__main__":
    main()
