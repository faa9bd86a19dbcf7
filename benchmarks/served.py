"""Served as logged: false alarms on honest logs, power on fifteen ways to be wrong;
`python -m benchmarks.served`.

Wrong logs start from one of two loggers of five arms, whose odds change from row to row
and are at least 0.02: "spread", 0.9 Dirichlet(1, …, 1) + 0.02, and "steps", 0.6, 0.28,
0.06, 0.04 and 0.02 in random order.
"""

import argparse
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from benchmarks.timing import table
from oddsmith.evaluation import served_as_logged
from oddsmith.logs import Log
from oddsmith.logs.engines import each

ARMS = 5
FLOOR = 0.02
VIEWS = ("all odds", "drawn odds", "drawn odds, floor")
LOOKS = (
    ("all odds", 500),
    ("all odds", 2000),
    ("drawn odds", 2000),
    ("drawn odds", 10_000),
    ("drawn odds, floor", 2000),
)


def draw(odds: Any, uniform: Any) -> Any:
    """The arms (T,) in whose part of [0, 1) the random numbers lie."""
    return (uniform[:, None] >= np.cumsum(odds, axis=1)[:, :-1]).sum(axis=1)


def mixed(odds: Any, gamma: float) -> Any:
    return (1 - gamma) * odds + gamma / odds.shape[-1]


def uniform(_: Any, n: int) -> tuple[Any, Any]:
    return np.full((n, 4), 0.25), None


def thompson(rng: Any, n: int) -> tuple[Any, Any]:
    """Tiny odds: most arms have less than 1e-6."""
    return rng.dirichlet(np.full(6, 0.05), n) * (1 - 6e-12) + 1e-12, None


def floors(rng: Any, n: int) -> tuple[Any, Any]:
    """One likeliest arm, and gamma = 0.05 for exploration."""
    return mixed(np.eye(8)[rng.integers(8, size=n)], 0.05), None


def many(rng: Any, n: int) -> tuple[Any, Any]:
    return mixed(rng.dirichlet(np.full(60, 0.3), n), 0.1), None


def sets(rng: Any, n: int) -> tuple[Any, Any]:
    """Of six arms each is eligible with probability 0.7, and two always."""
    eligible = rng.random((n, 6)) < 0.7
    eligible[:, :2] = True
    odds = np.where(eligible, rng.dirichlet(np.ones(6), n) + 0.01, 0)
    return odds / odds.sum(axis=1, keepdims=True), eligible


def pair(rng: Any, n: int) -> tuple[Any, Any]:
    likely = rng.beta(0.5, 0.5, n) * 0.99 + 0.005
    return np.column_stack([likely, 1 - likely]), None


def urn(rng: Any, n: int) -> tuple[Any, Any]:
    """Odds that follow the arms drawn before: a Pólya urn of three arms."""
    counts, odds, state = np.ones(3), np.empty((n, 3)), rng.bit_generator.state
    # the same random numbers that arms are drawn with below
    for t, u in enumerate(rng.random(n)):
        odds[t] = mixed(counts / counts.sum(), 0.1)
        counts[draw(odds[t : t + 1], np.array([u]))[0]] += 1
    rng.bit_generator.state = state
    return odds, None


HONEST: dict[str, Callable[[Any, int], tuple[Any, Any]]] = {
    "uniform, 4 arms": uniform,
    "tiny odds, 6 arms": thompson,
    "gamma 0.05, 8 arms": floors,
    "60 arms": many,
    "eligible sets of 6 arms": sets,
    "2 arms": pair,
    "odds that follow the arms drawn": urn,
}


def spread(rng: Any, n: int) -> Any:
    return mixed(rng.dirichlet(np.ones(ARMS), n), ARMS * FLOOR)


def steps(rng: Any, n: int) -> Any:
    return rng.permuted(np.tile([0.6, 0.28, 0.06, 0.04, FLOOR], (n, 1)), axis=1)


LOGGERS = {"spread": spread, "steps": steps}


def forced(odds: Any, rng: Any, rank: int, share: float, since: float = 0.0) -> Any:
    n = len(odds)
    hit = (rng.random(n) < share) & (np.arange(n) >= since * n)
    return np.where(hit, np.argsort(-odds, axis=1)[:, rank], draw(odds, rng.random(n)))


def scaled(q: Any) -> Any:
    return q / q.sum(axis=1, keepdims=True)


def served(q: Any) -> Callable[[Any, Any], Any]:
    """Arms drawn from other odds than the logged."""
    return lambda odds, rng: draw(scaled(q(odds, rng)), rng.random(len(odds)))


def sticky(odds: Any, rng: Any) -> Any:
    arm, again = draw(odds, rng.random(len(odds))), rng.random(len(odds)) < 0.1
    for t in np.flatnonzero(again[1:]) + 1:
        arm[t] = arm[t - 1]
    return arm


def stuck(odds: Any, rng: Any) -> Any:
    return draw(
        odds, np.where(rng.random(len(odds)) < 0.2, 0.37, rng.random(len(odds)))
    )


def twins(odds: Any, rng: Any) -> Any:
    u = rng.random(len(odds))
    return draw(odds, np.where(rng.random(len(odds)) < 0.5, np.roll(u, 1), u))


def arm_zero(odds: Any, rng: Any) -> Any:
    return np.where(rng.random(len(odds)) < 0.05, 0, draw(odds, rng.random(len(odds))))


def half_filtered(odds: Any, rng: Any) -> Any:
    keep = rng.random(odds.shape) < 0.5
    keep[:, 0] = True
    return odds * keep


WRONG: dict[str, Callable[[Any, Any], Any]] = {
    "second likeliest arm forced in 20 % of rows": lambda odds, rng: forced(
        odds, rng, 1, 0.2
    ),
    "exploration cut off: odds below 0.1 not served": served(
        lambda odds, _: np.where(odds >= 0.1, odds, 0)
    ),
    "served sharper than logged (p²)": served(lambda odds, _: odds**2),
    "served flatter than logged (√p)": served(lambda odds, _: np.sqrt(odds)),
    "likeliest arm forced in 10 %": lambda odds, rng: forced(odds, rng, 0, 0.1),
    "one arm forced in 5 %": arm_zero,
    "one arm not served": served(lambda odds, _: odds * (np.arange(ARMS) != 2)),
    "previous arm repeated in 10 %": sticky,
    "odds 20 rows old": served(lambda odds, _: np.roll(odds, 20, axis=0)),
    "arms permuted": served(lambda odds, _: odds[:, [2, 0, 1, 4, 3]]),
    "a filter takes out half of arms 1 to 4": served(half_filtered),
    "exploration logged, not played": served(lambda odds, _: odds - FLOOR),
    "second likeliest forced in 40 %, last third": lambda odds, rng: forced(
        odds, rng, 1, 0.4, 2 / 3
    ),
    "a client of 20 % of rows draws with one random number": stuck,
    "random number of the row before in half of rows": twins,
}


def seen(odds: Any, arm: Any, eligible: Any, view: str) -> Any:
    """The report on this log, as far as `view` shows it."""
    columns = (
        {"propensities": odds}
        if view == "all odds"
        else {"propensity": odds[np.arange(len(arm)), arm]}
    )
    names = [f"a{i}" for i in range(odds.shape[1])]
    played: Any = Log(
        arm=arm, reward=np.zeros(len(arm)), eligible=eligible, arms=names, **columns
    )
    least = float((odds if eligible is None else odds[eligible]).min())
    return served_as_logged(played, floor=least if view.endswith("floor") else 0.0)


def alarms(kind: str, logs: int, rows: int) -> list[int]:
    """How many honest logs of this kind are caught, by view."""
    caught = np.zeros(len(VIEWS), np.int64)
    for seed in range(logs):
        rng = np.random.default_rng([seed, len(kind)])
        odds, eligible = HONEST[kind](rng, rows)
        arm = draw(odds, rng.random(rows))
        caught += [seen(odds, arm, eligible, view).caught for view in VIEWS]
    return [int(count) for count in caught]


def power(case: tuple[str, str, str, int], logs: int) -> int:
    """How many wrong logs (way, logger, view, rows) are caught."""
    way, logger, view, rows = case
    count = 0
    for seed in range(logs):
        rng = np.random.default_rng([seed, rows])
        odds = LOGGERS[logger](rng, rows)
        count += seen(odds, WRONG[way](odds, rng), None, view).caught
    return count


def report(logs: int = 1000, engine: str = "local") -> str:
    kinds, wrong = list(HONEST), logs // 5
    false = dict(each(partial(alarms, logs=logs, rows=1000), kinds, engine=engine))
    cases = [
        (way, logger, *look) for way in WRONG for logger in LOGGERS for look in LOOKS
    ]
    found = dict(each(partial(power, logs=wrong), cases, engine=engine))
    width = len(LOGGERS) * len(LOOKS)
    shares = [
        [f"{found[i * width + j] / wrong:.0%}" for j in range(width)]
        for i in range(len(WRONG))
    ]
    head = [
        f"{logger}: {view}, {rows:,} rows" for logger in LOGGERS for view, rows in LOOKS
    ]
    honest = [
        [kind, *(f"{count / logs:.1%}" for count in false[i])]
        for i, kind in enumerate(kinds)
    ]
    return f"""## Served as logged

False alarms at alpha = 0.05 among {logs:,} correct logs of 1,000 rows, by the data that the test gets;
"floor" is the smallest propensity of an eligible arm. Two standard errors of 5 % are {2 * (0.05 * 0.95 / logs) ** 0.5:.1%}.

{table(["honest logger", *VIEWS], honest)}

Rejected logs, of {wrong}, for {len(WRONG)} faults. Logging policies have five arms and propensities of at least 0.02: "spread"
has 0.9 Dirichlet(1, …, 1) + 0.02, "steps" has 0.6, 0.28, 0.06, 0.04, 0.02 in random order.

{table(["what is wrong", *head], [[way, *row] for way, row in zip(WRONG, shares, strict=True)])}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--logs", type=int, default=1000)
    parser.add_argument("--engine", default="local")
    arguments = parser.parse_args()
    print(report(arguments.logs, arguments.engine))


if __name__ == "__main__":
    main()
