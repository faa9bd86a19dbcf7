"""Real models behind a policy: seven models of different quality on labelled sets.

    python -m benchmarks.model_study --data ../shared/data/bakeoff --seeds 3

Of each open set with at least 400 rows, 15 % (60 to 400 rows) train seven models:
logistic regression, naive Bayes, a full tree, a nearest neighbour on a quarter of that,
a forest on half of the columns, a neural network, and a logistic regression on labels
of which 40 % were shuffled. A model's prediction for an arm is its probability of that
class, also where the reward is a click. At most 3,000 of the other rows are played.
A cell is what the policy's arms earn in the mean, over what the arms of the best single
model earn; both count right answers.
"""

import argparse
import json
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import oddsmith as od
from benchmarks.timing import table
from oddsmith.core.arrays import Array, Ints
from oddsmith.experts.clip import Clipped
from oddsmith.logs.engines import each
from oddsmith.logs.progress import progress

ROUNDS = 3_000
LEAST_ROWS = 400
REWARDS = {"labels": (1.0, 0.0), "30/5 %": (0.3, 0.05), "2/0.4 %": (0.02, 0.004)}
MODELS = ("logistic", "bayes", "tree", "neighbour", "forest", "network", "shuffled")
KEPT = Path("benchmarks/results/parts/models")


class Study(NamedTuple):
    """The rows that are played (n, d), their classes (n), and the models' predictions
    (n, 7, K)."""

    x: Array
    y: Ints
    predictions: Array

    @property
    def votes(self) -> Ints:
        """The arm (n, 7) that each model prefers."""
        arms: Ints = self.predictions.argmax(axis=-1)
        return arms

    @property
    def right(self) -> Array:
        """How often (7) each model is right."""
        share: Array = (self.votes == self.y[:, None]).mean(axis=0)
        return share


class Recorded(od.Experts):
    """Predictions (n, M, K) that were made before: those of the round `now`."""

    def __init__(self, predictions: Array, names: Sequence[str] = MODELS) -> None:
        self.predictions = predictions
        self.now = 0
        self._names = tuple(names)

    @property
    def names(self) -> Sequence[str]:
        return self._names

    @property
    def arms(self) -> Sequence[str]:
        return [str(k) for k in range(self.predictions.shape[-1])]

    def predict(self, state: Any, context: Any) -> Array:
        found: Array = self.predictions[self.now]
        return found


def trained(x: Array, y: Ints, seed: int) -> dict[str, tuple[Any, Any]]:
    """Each model, with the columns that it reads."""
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.naive_bayes import GaussianNB
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.neural_network import MLPClassifier
    from sklearn.tree import DecisionTreeClassifier

    rng = np.random.default_rng([seed, 7])
    every = np.arange(x.shape[1])
    half = np.sort(rng.choice(every, max(1, len(every) // 2), replace=False))
    quarter = rng.choice(len(y), max(1, len(y) // 4), replace=False)
    wrong = y.copy()
    mixed = rng.random(len(y)) < 0.4
    wrong[mixed] = rng.permutation(wrong[mixed])
    made = {
        "logistic": LogisticRegression(max_iter=500),
        "bayes": GaussianNB(),
        "tree": DecisionTreeClassifier(random_state=seed),
        "neighbour": KNeighborsClassifier(1),
        "forest": RandomForestClassifier(50, random_state=seed),
        "network": MLPClassifier((32,), max_iter=300, random_state=seed),
        "shuffled": LogisticRegression(max_iter=500),
    }
    found = {}
    for name, model in made.items():
        rows = quarter if name == "neighbour" else np.arange(len(y))
        columns = half if name == "forest" else every
        labels = wrong if name == "shuffled" else y
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found[name] = (model.fit(x[rows][:, columns], labels[rows]), columns)
    return found


def z_scores(x: Array) -> Array:
    """Columns (n, d) with mean 0 and standard deviation 1, or 0 if they are constant."""
    sd = x.std(axis=0)
    scores: Array = (x - x.mean(axis=0)) / np.where(sd > 0, sd, 1.0)
    return scores


def training_rows(n: int) -> int:
    """The number of rows of n that train the models."""
    return int(np.clip(0.15 * n, 60, 400))


def study(path: Path, seed: int) -> Study:
    """The study of a set; predictions are kept in a folder."""
    kept = KEPT / f"{path.stem}-{seed}.npz"
    if kept.exists():
        with np.load(kept) as arrays:
            return Study(arrays["x"], arrays["y"], arrays["predictions"])
    with np.load(path) as arrays:
        x, y = arrays["X"].astype(np.float64), arrays["y"].astype(np.int64)
    x = np.nan_to_num(x)
    z = z_scores(x)
    order = np.random.default_rng([seed, 2026]).permutation(len(y))
    n_train = training_rows(len(y))
    train, played = order[:n_train], order[n_train : n_train + ROUNDS]
    n_arms = int(y.max()) + 1
    predictions = np.zeros((len(played), len(MODELS), n_arms))
    for place, (model, columns) in enumerate(
        trained(z[train], y[train], seed).values()
    ):
        odds = model.predict_proba(z[played][:, columns])
        predictions[:, place, model.classes_] = odds
    result = Study(x[played], y[played], predictions)
    kept.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(kept, **result._asdict())
    return result


class Cell(NamedTuple):
    """A policy on one set, with one seed and one kind of rewards."""

    path: Path
    seed: int
    rewards: str
    policy: str


def play(cell: Cell) -> dict[str, Any]:
    """What the policy's arms earn, over what the best model's earn."""
    given = study(cell.path, cell.seed)
    share = played_share(given, POLICIES[cell.policy], cell.rewards, cell.seed)
    return {**cell._asdict(), "path": cell.path.stem, "share": share}


def played_share(
    given: Study, make: Callable[[Any], Any], rewards: str, seed: int
) -> float:
    """Right answers of a policy, relative to those of the best model."""
    bank = Recorded(given.predictions)
    policy = make(bank)
    high, low = REWARDS[rewards]
    n = len(given.y)
    uniforms = np.random.default_rng([seed, 2019]).random(n)
    coins = np.random.default_rng([seed, 2020]).random(n)
    state = policy.init()
    n_right = 0
    for t in range(n):
        bank.now = t
        decision = od.decide(policy, state, given.x[t], uniforms[t], step=t + 1)
        is_right = bool(decision.arm == given.y[t])
        n_right += is_right
        reward = float(coins[t] < (high if is_right else low))
        state = policy.update(state, decision, reward)
    return float(n_right / n / given.right.max())


def clipped_gts(bank: Any, loss: Any = od.log_loss, eta: float = 0.5) -> Any:
    return od.GeneralizedThompsonSampling(Clipped(bank), loss, eta=eta, gamma=0.02)


POLICIES: dict[str, Callable[[Any], Any]] = {
    "GTS, log loss": clipped_gts,
    "GTS, square loss": lambda bank: clipped_gts(bank, od.square_loss, 2.0),
    "RateMixture": lambda bank: od.policies.RateMixture(Clipped(bank)),
    "Hedged": lambda bank: od.policies.hedged(Clipped(bank)),
    "EXP4": lambda bank: od.policies.exp4(bank, n_arms=len(bank.arms), steps=ROUNDS),
    "auto without models": lambda bank: od.auto(bank.arms),
    "auto with models": lambda bank: od.auto(models=bank),
}


def study_options(
    description: str | None, data: str, policies: Sequence[str]
) -> argparse.Namespace:
    """The options of a study on the command line."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=Path(data))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--policies", nargs="*", default=list(policies))
    parser.add_argument("--out", type=Path)
    return parser.parse_args()


def run_cells(
    play: Callable[[Any], dict[str, Any]],
    cells: Sequence[Any],
    options: argparse.Namespace,
) -> list[dict[str, Any]]:
    """The results of all cells, which are also written to the file `--out`."""
    results = []
    done = each(play, cells, engine="local", workers=options.workers)
    for _, found in progress(done, len(cells), "cells"):
        results.append(found)
        if options.out:
            with options.out.open("a") as file:
                file.write(json.dumps(found) + "\n")
    return results


def main() -> None:
    options = study_options(__doc__, "../shared/data/bakeoff", list(POLICIES))
    paths = [
        path
        for path in sorted(options.data.glob("*.npz"))
        if path.with_suffix(".json").exists() and _has_rows(path)
    ]
    cells = [
        Cell(path, seed, rewards, policy)
        for seed in range(options.seeds)
        for path in paths
        for policy in options.policies
        for rewards in REWARDS
    ]
    print(report(run_cells(play, cells, options)))


def _has_rows(path: Path) -> bool:
    with np.load(path) as arrays:
        return len(arrays["y"]) >= LEAST_ROWS


def report(results: list[dict[str, Any]]) -> str:
    """By policy and kind of rewards: the mean over sets of the mean over seeds, and the
    worst set."""
    rows = []
    for policy in dict.fromkeys(one["policy"] for one in results):
        row = [policy]
        for kind in REWARDS:
            by_set: dict[str, list[float]] = {}
            for one in results:
                if one["policy"] == policy and one["rewards"] == kind:
                    by_set.setdefault(one["path"], []).append(one["share"])
            means = {name: float(np.mean(found)) for name, found in by_set.items()}
            worst = min(means, key=lambda name: means[name])
            mean = float(np.mean(list(means.values())))
            row.append(f"{mean:.3f} ({means[worst]:.3f} {worst})")
        rows.append(row)
    return table(["policy", *REWARDS], rows)


if __name__ == "__main__":
    main()
