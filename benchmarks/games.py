"""The games of the bake-off's families: rounds in which one of several arms is chosen,
from the sets of a folder.

* labels (`X`, `y`): a round is a row, the arms are the classes, the reward is 1 for the
  right one.
* clicks: the same, but the reward is a coin: 1 with one probability for the right arm,
  with another for a wrong one.
* worlds: made from seeds, `benchmarks.click_worlds` says how.
* rows (`X`, `y`): a round is ten rows drawn at random, without repeats inside the
  round; each comes under a fresh name.
* groups (`X`, `y`, `group`): a round is one group, at its own size, in random order.
  Columns that the set's .json calls `same_within_group` are the context, the others the
  items'. Where one of its one-hot blocks tells the items of every group apart (brands,
  modes of travel), items have those names; else names are fresh.
* routing (`X` and a table over models): the context is the row, the arms are the
  models, rewards are the `score`, or `correct`; where the .json suggests cases, the
  last of them, `correct - cost_weight * cost` on its models, cut at 0.
"""

import json
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from oddsmith.core.arrays import Array, Ints

LABELLED, CHOICES = ("labels", "clicks"), ("rows", "groups", "routing")
FAMILIES = (*LABELLED, "worlds", *CHOICES)
RULES = 1
"""The number of the rules above; results under other rules are not taken for these."""
NOISES = {"0.3/0.05": (0.3, 0.05), "0.10/0.02": (0.10, 0.02)}
"""Odds of a click, for the right arm and for a wrong one."""
CANDIDATES = 10


class Round(NamedTuple):
    """What is known and what comes of it.

    Numbers that hold for all arms (s), numbers of each (K, d), names of the arms, the
    reward that each would bring (K), and its mean (K), by which regret is counted.
    `context`: what holds for all as it comes, if not as numbers.
    """

    shared: Array
    own: Array
    names: tuple[str, ...]
    rewards: Array
    means: Array
    context: Any = None


class Game(NamedTuple):
    """The rounds, whether names mean the same thing from round to round, and the
    shuffle they belong to."""

    rounds: list[Round]
    lasting: bool
    shuffle: int = 0


def labelled(
    path: Path, noise: str, *, shuffle: int, cap: int, standardised: bool
) -> Game:
    """The rows of a labelled set as rounds; with `noise`, rewards are coins that every
    contender sees fall alike."""
    with np.load(path) as arrays:
        x, y = arrays["X"].astype(np.float64), arrays["y"].astype(np.int64)
    x = _standardised(x) if standardised else x
    order = np.random.default_rng([shuffle, 2018]).permutation(len(y))[:cap]
    right = np.eye(int(y.max()) + 1)[y[order]]
    means = rewards = right
    if noise:
        high, low = NOISES[noise]
        means = np.where(right == 1, high, low)
        rewards = (
            np.random.default_rng([shuffle, 2020]).random((len(order), 1)) < means
        ).astype(np.float64)
    names, none = (
        tuple(str(k) for k in range(right.shape[1])),
        np.zeros((right.shape[1], 0)),
    )
    rounds = [
        Round(x[i], none, names, rewards[t], means[t]) for t, i in enumerate(order)
    ]
    return Game(rounds, True, shuffle)


def choices(
    path: Path, family: str, *, shuffle: int, cap: int, standardised: bool
) -> Game:
    """The rounds of a set, `cap` at most, in the order of a shuffle; with numbers
    standardised over the whole set."""
    about = json.loads(path.with_suffix(".json").read_text())
    with np.load(path) as file:
        arrays = {
            name: file[name] for name in file.files if not name.startswith("text")
        }
    x = arrays["X"].astype(np.float64)
    x = _standardised(x) if standardised else x
    rng = np.random.default_rng([shuffle, 2018])
    if family == "rows":
        found = _of_rows(x, arrays["y"].astype(np.float64), rng, cap)
    else:
        found = (_of_groups if family == "groups" else _of_routing)(
            x, arrays, about, rng, cap
        )
    return found._replace(shuffle=shuffle)


def _standardised(x: Array) -> Array:
    sd = x.std(axis=0)
    numbers: Array = (x - x.mean(axis=0)) / np.where(sd > 0, sd, 1.0)
    return numbers


def _of_rows(x: Array, y: Array, rng: np.random.Generator, cap: int) -> Game:
    rounds = []
    for t in range(cap):
        drawn = rng.choice(len(y), CANDIDATES, replace=False)
        rounds.append(
            Round(np.zeros(0), x[drawn], _fresh(t, CANDIDATES), y[drawn], y[drawn])
        )
    return Game(rounds, False)


def _of_groups(
    x: Array, arrays: dict[str, Any], about: Any, rng: np.random.Generator, cap: int
) -> Game:
    same = set(about["same_within_group"])
    is_shared = np.array([column in same for column in about["columns"]])
    labels = _labels(arrays["X"], arrays["group"], about["columns"])
    starts = np.flatnonzero(np.diff(arrays["group"], prepend=arrays["group"][0] - 1))
    blocks, rounds = np.split(np.arange(len(x)), starts[1:]), []
    for t, place in enumerate(rng.permutation(len(blocks))[:cap]):
        rows = rng.permutation(blocks[place])
        names = (
            _fresh(t, len(rows))
            if labels is None
            else tuple(labels[row] for row in rows)
        )
        rewards = arrays["y"][rows].astype(np.float64)
        rounds.append(
            Round(
                x[rows[0], is_shared], x[rows][:, ~is_shared], names, rewards, rewards
            )
        )
    return Game(rounds, labels is not None)


def _of_routing(
    x: Array, arrays: dict[str, Any], about: Any, rng: np.random.Generator, cap: int
) -> Game:
    models, rewards = list(about["models"]), _routing_rewards(arrays, about)
    if "suggested" in about and about["suggested"]["cases"][-1]["models"] != "all":
        kept = [
            models.index(model) for model in about["suggested"]["cases"][-1]["models"]
        ]
        models, rewards = [models[k] for k in kept], rewards[:, kept]
    none, names = np.zeros((len(models), 0)), tuple(models)
    return Game(
        [
            Round(x[i], none, names, rewards[i], rewards[i])
            for i in rng.permutation(len(x))[:cap]
        ],
        True,
    )


def _routing_rewards(arrays: dict[str, Any], about: Any) -> Array:
    """Rewards (n, models) of all models."""
    if "score" in arrays:
        return np.asarray(arrays["score"], dtype=np.float64)
    correct = np.asarray(arrays["correct"], dtype=np.float64)
    if "suggested" not in about:
        return correct
    weight = float(about["suggested"]["cases"][-1]["cost_weight"])
    return np.maximum(
        correct - weight * np.asarray(arrays["cost"], dtype=np.float64), 0.0
    )


def _fresh(t: int, n: int) -> tuple[str, ...]:
    return tuple(f"{t}-{k}" for k in range(n))


def _labels(x: Array, group: Ints, columns: list[str]) -> list[str] | None:
    """For each row the column of the one-hot block that tells the items of every group
    apart; None if there is none."""
    blocks: dict[str, list[int]] = defaultdict(list)
    for place, column in enumerate(columns):
        if "=" in column:
            blocks[column.split("=")[0]].append(place)
    for places in blocks.values():
        block = x[:, places]
        if not ((block == 0) | (block == 1)).all() or (block.sum(axis=1) != 1).any():
            continue
        value = block.argmax(axis=1)
        if len(np.unique(np.stack([group, value]), axis=1).T) == len(x):
            return [columns[places[k]] for k in value]
    return None
