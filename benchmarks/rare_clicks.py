"""Rare clicks: worlds of segments with click rates of 0.2 to 2 %.

    python -m benchmarks.rare_clicks --decisions 100000

In each of three worlds of segments and arms, the rate of an arm in a segment is drawn
from 0.2 to 2 % (log-uniform). `auto` and the peers are given the segment as a category.
The table is Thompson sampling with a Beta posterior for each segment and arm: it is
told the segments, and its prior is Beta(1, 99), the right order of size. Regret is
counted by true rates, and in brackets it is relative to the best peer.
"""

import argparse
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

import oddsmith as od
from benchmarks.contenders import ContextualBandits, Ours, Player, River, Vowpal
from benchmarks.games import Game, Round
from benchmarks.timing import table
from oddsmith.logs.engines import each

LOW, HIGH = 0.002, 0.02


class World(NamedTuple):
    name: str
    n_segments: int
    n_arms: int


WORLDS = (World("4 x 5", 4, 5), World("8 x 3", 8, 3), World("2 x 10", 2, 10))


class BetaTable:
    """Thompson sampling with Beta(1, 99) for each segment and arm."""

    def __init__(self, game: Game) -> None:
        n_segments = len(game.rounds[0].shared)
        n_arms = len(game.rounds[0].names)
        self._clicks = np.ones((n_segments, n_arms))
        self._others = np.full((n_segments, n_arms), 99.0)
        self._rng = np.random.default_rng(game.shuffle)
        self._place = (0, 0)

    def act(self, now: Round, uniform: float) -> int:
        segment = int(now.shared.argmax())
        draws = self._rng.beta(self._clicks[segment], self._others[segment])
        self._place = (segment, int(draws.argmax()))
        return self._place[1]

    def learn(self, reward: float) -> None:
        self._clicks[self._place] += reward
        self._others[self._place] += 1 - reward


def _ours(game: Game) -> Player:
    return Ours(od.auto(list(game.rounds[0].names)))


PLAYERS: dict[str, Callable[[Game], Player]] = {
    "auto": _ours,
    "Beta table": BetaTable,
    "river LinUCB 0.25": partial(River, 0.25),
    "river LinUCB 1": partial(River, 1.0),
    "vw --squarecb -l 0.5": partial(Vowpal, "--squarecb -l 0.5 -q sa --noconstant"),
    "vw --regcbopt -l 0.5": partial(Vowpal, "--regcbopt -l 0.5 -q sa --noconstant"),
    "vw --bag 5 -l 2": partial(Vowpal, "--bag 5 --greedify -l 2 -q sa --noconstant"),
    "contextualbandits LinUCB 0.2": partial(ContextualBandits, 0.2),
}


class Case(NamedTuple):
    world: World
    seed: int
    player: str
    decisions: int


def game_of(world: World, seed: int, decisions: int) -> Game:
    """Return the rounds of a world, made from a seed."""
    rng = np.random.default_rng([seed, world.n_segments, world.n_arms])
    shape = (world.n_segments, world.n_arms)
    rates = np.exp(rng.uniform(np.log(LOW), np.log(HIGH), size=shape))
    segments = rng.integers(world.n_segments, size=decisions)
    clicks = rng.random((decisions, world.n_arms)) < rates[segments]
    names = tuple(f"arm {place}" for place in range(world.n_arms))
    nothing = np.zeros((world.n_arms, 0))
    one_hot = np.eye(world.n_segments)
    rounds = [
        Round(
            one_hot[segment],
            nothing,
            names,
            now.astype(float),
            rates[segment],
            {"segment": f"s{segment}"},
        )
        for segment, now in zip(segments.tolist(), clicks, strict=True)
    ]
    return Game(rounds, True, seed)


def regret(case: Case) -> float:
    """Return the true regret of a player."""
    game = game_of(case.world, case.seed, case.decisions)
    player = PLAYERS[case.player](game)
    uniforms = np.random.default_rng(case.seed).random(len(game.rounds))
    lost = 0.0
    for now, uniform in zip(game.rounds, uniforms.tolist(), strict=True):
        arm = player.act(now, uniform)
        lost += float(now.means.max() - now.means[arm])
        player.learn(float(now.rewards[arm]))
    return lost


def lines(cases: list[Case], found: list[float]) -> list[list[str]]:
    """Return the rows of the table: one per player, relative to the best peer of each
    world."""
    names = list(dict.fromkeys(case.player for case in cases))
    worlds = list(dict.fromkeys(case.world for case in cases))
    means: dict[tuple[str, World], float] = {}
    for name in names:
        for world in worlds:
            of_both = [
                lost
                for case, lost in zip(cases, found, strict=True)
                if case.player == name and case.world == world
            ]
            means[name, world] = float(np.mean(of_both))
    rows = []
    for name in names:
        ratios: list[float] = []
        row = [name]
        for world in worlds:
            peers = [means[other, world] for other in names if other != "auto"]
            ratios.append(means[name, world] / min(peers, default=np.nan))
            row.append(f"{means[name, world]:.0f} ({ratios[-1]:.2f})")
        rows.append([*row, f"{np.mean(ratios):.2f}"])
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--decisions", type=int, default=100_000)
    parser.add_argument("--worlds", nargs="*", default=[one.name for one in WORLDS])
    parser.add_argument("--players", nargs="*", default=list(PLAYERS))
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    cases = [
        Case(world, seed, player, options.decisions)
        for world in WORLDS
        for seed in range(options.seeds)
        for player in options.players
        if world.name in options.worlds
    ]
    results: dict[int, Any] = dict(each(regret, cases, workers=options.workers))
    found: list[float] = [results[place] for place in range(len(cases))]
    worlds = [world.name for world in WORLDS if world.name in options.worlds]
    print(table(["player", *worlds, "mean ratio"], lines(cases, found)))


if __name__ == "__main__":
    main()
