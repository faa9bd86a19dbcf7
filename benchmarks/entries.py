"""Who takes part in the bake-off, family by family: ours, then peers over a grid; add
yours here."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np

import oddsmith as od
from benchmarks.contenders import (
    BayesianBandits,
    ContextualBandits,
    Mabwiser,
    Ours,
    OursOnNumbers,
    OursOnOffers,
    Player,
    River,
    Vowpal,
    joined,
)
from benchmarks.games import CHOICES, LABELLED, Game
from oddsmith.experts.learners import LearningExperts
from oddsmith.policies.auto import SIZES

CROSSED_SECONDS = 60.0
"""What a configuration may take for a cell that crosses all pairs of numbers with the
arm: hours on wide sets."""

SOURCES = ("core", "contexts", "experts", "policies")
LINEAR = (
    "policies/linucb.py",
    "policies/linear_thompson.py",
    "policies/parts",
    "core/weights.py",
    "core/decision.py",
)
"""The sources that decide what our policies do, and what the linear ones do: results of
ours are known by them."""


@dataclass(frozen=True)
class Entry:
    """A configuration with a name, the library it comes from, and a player for a game.

    `standardised`: whether numbers have mean 0 and variance 1 over the whole set, as
    peers are given them. `seconds` of CPU are all it may take for a cell. `made_of`:
    sources of ours.
    """

    name: str
    library: str
    player: Callable[[Game], Player]
    standardised: bool = True
    seconds: float = np.inf
    made_of: tuple[str, ...] = SOURCES


def entries(family: str, *, slow: bool = False) -> Iterator[Entry]:
    """All configurations of a family; those of `slow` libraries only if asked for."""
    yield from _ours(family)
    yield from _choosing(family) if family in CHOICES else _knowing_arms(family)
    if slow and family not in CHOICES:
        yield from _slow()


def _ours(family: str) -> Iterator[Entry]:
    for size in ("normal", "small"):
        name = "auto" if size == "normal" else f"auto, {size}"
        yield Entry(name, "oddsmith", partial(_auto, family, size), standardised=False)
    for alpha in (1.0, 0.3):
        player = partial(_linear, family, partial(od.LinUCB, alpha=alpha))
        yield Entry(f"LinUCB {alpha:g}", "oddsmith", player, made_of=LINEAR)
    if family not in ("rows", "groups"):
        for width in (0.3, 0.1):
            player = partial(
                _linear,
                family,
                partial(od.LinearThompsonSampling, width=width, gamma=0.0),
            )
            yield Entry(f"LinTS {width:g}", "oddsmith", player, made_of=LINEAR)
    if family in LABELLED:
        learners = SIZES["normal"]
        for learner in learners:
            yield Entry(
                f"alone: {learner.name}",
                "oddsmith",
                partial(_alone, (learner,), False),
                standardised=False,
            )
        yield Entry(
            "alone: blend",
            "oddsmith",
            partial(_alone, learners, True),
            standardised=False,
        )


def _arms(game: Game) -> list[str]:
    return list(game.rounds[0].names)


def _auto(family: str, size: str, game: Game) -> Player:
    if family in ("rows", "groups"):
        return OursOnOffers(od.auto(size=size))
    return Ours(od.auto(_arms(game), size=size))


def _alone(learners: tuple[Any, ...], blend: bool, game: Game) -> Player:
    """One expert of `auto` by itself: a learner, or only the blend."""
    bank = LearningExperts(_arms(game), learners, blend=blend)
    return Ours(
        replace(od.auto(_arms(game)), experts=bank, prior=np.eye(len(bank.names))[-1])
    )


def _linear(family: str, policy: Callable[..., Any], game: Game) -> Player:
    first = game.rounds[0]
    if family in ("rows", "groups"):
        return OursOnNumbers(policy(joined(first).shape[1] + 1), a_row_each=True)
    return OursOnNumbers(policy(len(first.shared) + 1, n_arms=len(first.names)))


def _vowpal(options: str, base: str = "", *, seconds: float = np.inf) -> Entry:
    return Entry(
        f"vw {options}",
        "vowpalwabbit",
        partial(Vowpal, f"{options} {base}"),
        seconds=seconds,
    )


def _knowing_arms(family: str) -> Iterator[Entry]:
    """Peers where arms are known: labels, clicks and worlds."""
    base = "-q sa --noconstant"
    yield from _river()
    for exploration in (
        "--squarecb",
        "--bag 5 --greedify",
        "--regcbopt",
        "--epsilon 0.05",
    ):
        for rate in (0.5, 2.0):
            yield _vowpal(f"{exploration} -l {rate:g}", base)
    for alpha in (0.2, 0.5, 1.0):
        yield Entry(
            f"LinUCB {alpha:g}", "contextualbandits", partial(ContextualBandits, alpha)
        )
    for exploration in (
        "--squarecb -l 0.5",
        "--squarecb -l 2",
        "--bag 5 --greedify -l 0.5",
    ):
        yield _vowpal(
            f"{exploration} --interactions ssa",
            f"{base} -b 22",
            seconds=CROSSED_SECONDS,
        )
    if family == "labels":
        for exploration in (
            "--squarecb",
            "--bag 5 --greedify",
            "--regcbopt",
            "--epsilon 0.05",
        ):
            yield _vowpal(f"{exploration} -l 10", base)
        for exploration, rate in product(("--cover 5", "--rnd 3"), (0.5, 2.0, 10.0)):
            yield _vowpal(f"{exploration} -l {rate:g}", base)


def _river() -> Iterator[Entry]:
    for alpha in (1.0, 0.5, 0.25, 2.0):
        yield Entry(f"LinUCB {alpha:g}", "river", partial(River, alpha))


_CROSSED = {
    "rows": ("", "-q aa"),
    "groups": ("", "-q sa", "-q aa", "-q sa -q aa"),
    "routing": ("-q sa --noconstant",),
}
_MORE_CROSSED = {
    "rows": (
        "--bag 5 --greedify -l 0.5 -q aa --interactions aaa",
        "--squarecb -l 2 -q aa --interactions aaa",
    ),
    "groups": (
        "--regcbopt -l 0.5 -q sa --interactions saa",
        "--squarecb -l 2 -q sa --interactions saa",
    ),
    "routing": tuple(
        f"{exploration} -q sa --interactions ssa --noconstant"
        for exploration in (
            "--epsilon 0.05 -l 2",
            "--squarecb -l 0.5",
            "--squarecb -l 2",
        )
    ),
}


def _choosing(family: str) -> Iterator[Entry]:
    """Peers where a round is a choice: rows, groups and routing."""
    if family == "routing":
        yield from _river()
    explorations = (
        "--squarecb",
        "--regcbopt",
        "--bag 5",
        "--bag 5 --greedify",
        "--epsilon 0.05",
    )
    for exploration, rate, crossed in product(
        explorations, (0.5, 2.0), _CROSSED[family]
    ):
        yield _vowpal(
            " ".join(filter(None, [exploration, f"-l {rate:g}", crossed])), "-b 20"
        )
    for options in _MORE_CROSSED[family]:
        yield _vowpal(options, "-b 22", seconds=CROSSED_SECONDS)


def _slow() -> Iterator[Entry]:
    for alpha in (1.0, 0.5, 0.2):
        yield Entry(f"LinUCB {alpha:g}", "mabwiser", partial(Mabwiser, "LinUCB", alpha))
        yield Entry(
            f"LinTS {alpha / 5:g}", "mabwiser", partial(Mabwiser, "LinTS", alpha / 5)
        )
    for scale in (0.2, 0.1):
        yield Entry(
            f"LinTS {scale:g}",
            "bayesianbandits",
            partial(BayesianBandits, "LinTS", scale),
        )
    for scale in (1.0, 0.5):
        yield Entry(
            f"LinUCB {scale:g}",
            "bayesianbandits",
            partial(BayesianBandits, "LinUCB", scale),
        )
