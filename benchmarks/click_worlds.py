"""Worlds of clicks, made from seeds: the odds of a click are logistic in what is known
of a visit.

Four worlds of each kind, 4 to 10 arms, clicks of 3 to 17 in 100 under uniform play:

* plain: numbers only, each in a unit of its own.
* categories: numbers, and text of 3, 30 and 12 values, some of them rare.
* missing: numbers and a category, of which 10 to 30 in 100 are missing; half of them
  are None, half have no key. What is missing has an effect of its own.
* interplay: products of numbers, and slopes that depend on a category, next to a
  smaller linear part.
* two_good: two arms that differ little, and others that are worse.
* drifting: the weights turn by a quarter over the run, or all at once somewhere in its
  middle.
* codes: numbers that are codes (12 and 30 of them), next to numbers that are amounts.

Ours are given dicts, as a service is; linear models and peers are given exact one-hot
columns, standardised numbers with 0 where they are missing, and a column that says so:
what their users would have to make themselves.
"""

from hashlib import sha256
from typing import Any, NamedTuple

import numpy as np

from benchmarks.games import Game, Round
from oddsmith.core.arrays import Array, Bools, Ints

KINDS = ("plain", "categories", "missing", "interplay", "two_good", "drifting", "codes")
SIZES: dict[str, tuple[int, ...]] = {
    "categories": (3, 30, 12),
    "codes": (12, 30),
    "plain": (),
}
"""How many values each category has; 3 where nothing is said."""
WORLDS = tuple(f"{kind}-{number}" for kind in KINDS for number in range(4))


class World(NamedTuple):
    """What stays of a world from shuffle to shuffle; effects are (K, …), one of each
    for before and after a drift."""

    kind: str
    number: int
    bases: Array
    weights: Array
    effects: list[Array]
    gone: Array
    products: Array
    slopes: Array
    units: Array

    @property
    def arms(self) -> int:
        return len(self.bases)


class Visits(NamedTuple):
    """What is known of T visits: numbers (T, d), values of categories (T, c), and which
    of both are missing."""

    numbers: Array
    values: Ints
    missing: Bools


def world(name: str) -> World:
    """The world of that name, the same in every process."""
    kind, number = name.rsplit("-", 1)
    rng = np.random.default_rng([KINDS.index(kind), int(number), 19])
    arms, sizes = int(rng.integers(4, 11)), SIZES.get(kind, (3,))
    dim = (
        int(rng.integers(3, 6)) if kind in SIZES and sizes else int(rng.integers(4, 11))
    )
    rate = np.exp(rng.uniform(np.log(0.015), np.log(0.10)))
    bases = np.log(rate / (1 - rate)) + 0.3 * rng.normal(size=arms)
    weights = rng.normal(size=(2, arms, dim))
    effects = [rng.normal(size=(2, arms, n)) for n in sizes]
    gone = rng.normal(size=(arms, dim + len(sizes)))
    products, slopes = (
        rng.normal(size=(arms, dim, dim)),
        rng.normal(size=(arms, 3, dim)),
    )
    if kind == "two_good":
        bases[:2] = bases[:2].mean() + 0.8
        weights[:, 1] = 0.85 * weights[:, 0] + 0.5 * weights[:, 1]
    units = np.exp(rng.normal(size=(2, dim)) * 2)
    return World(
        kind, int(number), bases, weights, effects, gone, products, slopes, units
    )


def game(name: str, *, shuffle: int, cap: int) -> Game:
    """`cap` visits of a world, in a run of their own for each shuffle."""
    made = world(name)
    rng = np.random.default_rng([KINDS.index(made.kind), made.number, shuffle, 2021])
    visits = _visits(made, rng, cap)
    means = 1 / (1 + np.exp(-_logits(made, visits, _turn(made, cap))))
    rewards = (rng.random((cap, 1)) < means).astype(np.float64)
    encoded, contexts = _columns(made, visits), _dicts(made, visits, rng)
    names, none = tuple(f"arm {k}" for k in range(made.arms)), np.zeros((made.arms, 0))
    rounds = [
        Round(x, none, names, reward, mean, context)
        for x, reward, mean, context in zip(
            encoded, rewards, means, contexts, strict=True
        )
    ]
    return Game(rounds, True, shuffle)


def digest(name: str) -> str:
    """A hash of what a world is, by its first visits: results of another one are not
    taken for these."""
    found = game(name, shuffle=0, cap=64).rounds
    numbers = np.concatenate([np.append(now.shared, now.means) for now in found])
    return sha256(
        numbers.round(9).tobytes() + repr([now.context for now in found[:8]]).encode()
    ).hexdigest()


def _visits(made: World, rng: np.random.Generator, n: int) -> Visits:
    dim = made.weights.shape[2]
    numbers = rng.normal(size=(n, dim))
    numbers[:, 1:] = 0.9 * numbers[:, 1:] + np.sqrt(1 - 0.81) * numbers[:, :1]
    values = []
    for effect in made.effects:
        odds = 1 / np.arange(2, effect.shape[2] + 2)
        values.append(rng.choice(len(odds), n, p=odds / odds.sum()))
    both = dim + len(values)
    share = np.linspace(0.1, 0.3, both) if made.kind == "missing" else np.zeros(both)
    return Visits(
        numbers,
        np.array(values, dtype=np.int64).reshape(-1, n).T,
        rng.random((n, both)) < share,
    )


def _turn(made: World, n: int) -> Array:
    """The angle by which the weights have turned, for each visit."""
    if made.kind != "drifting":
        return np.zeros(n)
    if made.number % 2:
        return np.where(np.arange(n) < n * (0.35 + 0.1 * made.number), 0.0, np.pi / 2)
    return np.linspace(0, np.pi / 2, n)


def _logits(made: World, visits: Visits, turn: Array) -> Array:
    """Log-odds of a click (T, K): a linear function for each arm, and what is
    curved."""
    dim, mixed = made.weights.shape[2], (np.cos(turn)[:, None], np.sin(turn)[:, None])
    shown = np.where(visits.missing[:, :dim], 0.0, visits.numbers)
    linear = sum(
        part * (shown @ w.T) for part, w in zip(mixed, made.weights, strict=True)
    )
    for c, effect in enumerate(made.effects):
        known = ~visits.missing[:, dim + c, None]
        linear = linear + known * sum(
            part * e.T[visits.values[:, c]]
            for part, e in zip(mixed, effect, strict=True)
        )
    linear = linear + visits.missing @ made.gone.T
    logits: Array = made.bases + 1.2 * linear / np.sqrt(dim + len(made.effects))
    if made.kind == "interplay":
        curved = np.einsum(
            "ti,kij,tj->tk", shown, np.triu(made.products, 1), shown
        ) / np.sqrt(dim * (dim - 1) / 2)
        curved += np.einsum(
            "tkd,td->tk", made.slopes.transpose(1, 0, 2)[visits.values[:, 0]], shown
        ) / np.sqrt(dim)
        logits = made.bases + 0.4 * (logits - made.bases) + 0.9 * curved
    return logits


def _columns(made: World, visits: Visits) -> Array:
    """What peers are given: standardised numbers, one-hot columns, and columns for what
    is missing."""
    dim = made.weights.shape[2]
    known = np.where(visits.missing[:, :dim], np.nan, visits.numbers)
    blocks = [
        np.nan_to_num((known - np.nanmean(known, axis=0)) / np.nanstd(known, axis=0))
    ]
    for c, effect in enumerate(made.effects):
        one_hot = np.eye(effect.shape[2])[visits.values[:, c]]
        blocks.append(np.where(visits.missing[:, dim + c, None], 0.0, one_hot))
    if made.kind == "missing":
        blocks.append(visits.missing.astype(np.float64))
    return np.concatenate(blocks, axis=1)


def _dicts(
    made: World, visits: Visits, rng: np.random.Generator
) -> list[dict[str, Any]]:
    """What ours are given: amounts in their units, text or codes, None or no key where
    something is missing."""
    raw = made.units[0] * visits.numbers + 3 * made.units[1]
    dim, coded, absent = (
        raw.shape[1],
        made.kind == "codes",
        rng.random(visits.missing.shape) < 0.5,
    )
    found = []
    for t in range(len(raw)):
        row: dict[str, Any] = {
            f"amount {j}": float(f"{raw[t, j]:.6g}") for j in range(dim)
        }
        for c, value in enumerate(visits.values[t].tolist()):
            row[f"code {c}" if coded else f"kind {c}"] = (
                100 * (c + 1) + 7 * value % 97 if coded else f"v{value}"
            )
        for place, name in enumerate(list(row)):
            if visits.missing[t, place]:
                row[name] = None
                if absent[t, place]:
                    del row[name]
        found.append(row)
    return found
