"""Real models on open data about choices and routing: `auto(models=…)` beside the best
single model.

    python -m benchmarks.choice_models --data ../shared/data/choices --seeds 3

Groups are choices among as many options each time (Swissmetro, tuna, electricity
contracts, …): an arm is the place of an option, or its label. Routing sets choose among
algorithms or language models. 15 % of the rounds (at most 400) train seven models of
the reward of a round and an arm: ridge regression, boosting, a full tree, a nearest
neighbour on a quarter, a forest on half of the columns, a neural network, and a ridge
regression on rewards of which 40 % were shuffled. At most 2,000 other rounds are played
with the reward itself, or with a click whose rate is 0.05 + 0.25 times the reward; the
models predict the reward in both cases. A cell is the mean reward of the policy's arms
over that of the best single model's, with the least reward of the round taken off.
"""

import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import oddsmith as od
from benchmarks import model_study
from benchmarks.games import Game, Round, choices
from benchmarks.model_study import (
    Recorded,
    run_cells,
    study_options,
    training_rows,
    z_scores,
)
from benchmarks.timing import table
from oddsmith.core.arrays import Array

MODELS = ("ridge", "boosting", "tree", "neighbour", "forest", "network", "shuffled")
ROUNDS = 2_000
KINDS = ("rewards", "clicks")
LEAST_ROUNDS = 300


class Study(NamedTuple):
    """Contexts (n, d), rewards (n, K) in [0, 1], and the models' predictions (n, 7, K)
    of the rounds that are played."""

    contexts: Array
    rewards: Array
    predictions: Array

    @property
    def earned(self) -> Array:
        """The mean reward (7,) of each model's arms."""
        arms = self.predictions.argmax(axis=-1)
        got = np.take_along_axis(self.rewards, arms, axis=1)
        mean: Array = got.mean(axis=0)
        return mean


def game_of(path: Path, seed: int) -> Game:
    """The rounds of a set that have as many arms as most rounds have."""
    family = path.parent.name
    game = choices(path, family, shuffle=seed, cap=2 * ROUNDS, standardised=False)
    sizes = [len(now.names) for now in game.rounds]
    usual = max(set(sizes), key=sizes.count)
    same = [now for now in game.rounds if len(now.names) == usual]
    return game._replace(rounds=same[: ROUNDS + 400])


def context_of(now: Round) -> Array:
    """All numbers of a round as one row."""
    return np.concatenate([now.shared, now.own.ravel()])


def study(game: Game, seed: int) -> Study:
    """Train the models on the first rounds, and predict the others."""
    contexts = np.nan_to_num(np.stack([context_of(now) for now in game.rounds]))
    rewards = np.stack([now.rewards for now in game.rounds])
    z = z_scores(contexts)
    n_train = training_rows(len(z))
    played = slice(n_train, n_train + ROUNDS)
    predictions = np.stack(
        [
            np.asarray(predict(z[played])).reshape(-1, rewards.shape[1])
            for predict in trained(z[:n_train], rewards[:n_train], seed)
        ],
        axis=1,
    )
    inside = np.clip(predictions, 0.0, 1.0)
    return Study(contexts[played], rewards[played], inside)


def trained(x: Array, rewards: Array, seed: int) -> list[Callable[[Array], Any]]:
    """Functions of contexts (n, d) that predict the rewards (n, K) of all arms."""
    from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
    from sklearn.linear_model import Ridge
    from sklearn.multioutput import MultiOutputRegressor
    from sklearn.neighbors import KNeighborsRegressor
    from sklearn.neural_network import MLPRegressor
    from sklearn.tree import DecisionTreeRegressor

    rng = np.random.default_rng([seed, 7])
    n, n_columns = x.shape
    half = np.sort(rng.choice(n_columns, max(1, n_columns // 2), replace=False))
    quarter = rng.choice(n, max(2, n // 4), replace=False)
    wrong = rewards.copy()
    mixed = np.flatnonzero(rng.random(n) < 0.4)
    wrong[mixed] = rewards[rng.permutation(mixed)]
    boosting = HistGradientBoostingRegressor(max_iter=40, random_state=seed)
    forest = RandomForestRegressor(50, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        models = [
            Ridge(10.0).fit(x, rewards),
            MultiOutputRegressor(boosting).fit(x, rewards),
            DecisionTreeRegressor(random_state=seed).fit(x, rewards),
            KNeighborsRegressor(1).fit(x[quarter], rewards[quarter]),
            forest.fit(x[:, half], rewards),
            MLPRegressor(hidden_layer_sizes=(32,), max_iter=300, random_state=seed).fit(
                x, rewards
            ),
            Ridge(10.0).fit(x, wrong),
        ]
    predictors: list[Callable[[Array], Any]] = [model.predict for model in models]
    predictors[4] = lambda rows: forest.predict(rows[:, half])
    return predictors


POLICIES = {
    name: model_study.POLICIES[name]
    for name in ("auto with models", "auto without models", "GTS, log loss", "Hedged")
}


class Cell(NamedTuple):
    path: Path
    seed: int
    kind: str
    policy: str


def play(cell: Cell) -> dict[str, Any]:
    """Return what a policy earns, over what the best model earns."""
    game = game_of(cell.path, cell.seed)
    given = study(game, cell.seed)
    bank = Recorded(given.predictions, MODELS)
    policy = POLICIES[cell.policy](bank)
    rng = np.random.default_rng([cell.seed, 2019])
    state = policy.init()
    least = float(given.rewards.min(axis=1).mean())
    earned = 0.0
    for t, (context, rewards) in enumerate(
        zip(given.contexts, given.rewards, strict=True)
    ):
        bank.now = t
        decision = od.decide(policy, state, context, rng.random(), step=t + 1)
        reward = float(rewards[decision.number])
        earned += reward
        if cell.kind == "clicks":
            reward = float(rng.random() < 0.05 + 0.25 * reward)
        state = policy.update(state, decision, reward)
    best = float(given.earned.max())
    share = (earned / len(given.rewards) - least) / (best - least)
    mean = earned / len(given.rewards)
    found = {"share": share, "earned": mean, "best": best}
    return {**cell._asdict(), "path": cell.path.stem, **found}


def tasks(data: Path) -> list[Path]:
    """The sets with enough rounds that have the same number of arms."""
    paths = sorted([*data.glob("groups/*.npz"), *data.glob("routing/*.npz")])
    return [path for path in paths if len(game_of(path, 0).rounds) >= LEAST_ROUNDS]


def report(results: Sequence[dict[str, Any]]) -> str:
    """The share of every policy: one row per set and kind, and their means."""
    policies = list(dict.fromkeys(one["policy"] for one in results))
    shares: dict[tuple[str, str, str], list[float]] = {}
    for one in results:
        place = (one["path"], one["kind"], one["policy"])
        shares.setdefault(place, []).append(one["share"])
    rows = []
    for kind in KINDS:
        names = list(dict.fromkeys(one["path"] for one in results))
        of_kind = [
            [float(np.mean(shares.get((name, kind, policy), [np.nan])))]
            for name in names
            for policy in policies
        ]
        means = np.array(of_kind).reshape(len(names), len(policies))
        for name, row in zip(names, means, strict=True):
            rows.append([name, kind, *(f"{share:.3f}" for share in row)])
        total = np.nanmean(means, axis=0)
        rows.append(["**mean**", kind, *(f"{share:.3f}" for share in total)])
    return table(["set", "reward", *policies], rows)


def main() -> None:
    options = study_options(__doc__, "../shared/data/choices", list(POLICIES))
    cells = [
        Cell(path, seed, kind, policy)
        for seed in range(options.seeds)
        for path in tasks(options.data)
        for policy in options.policies
        for kind in KINDS
    ]
    print(report(run_cells(play, cells, options)))


if __name__ == "__main__":
    main()
