"""Real ground truth: bandit logs made from ten classification sets, where the value of
any policy is known.

    python -m benchmarks.ope --data ../shared/data --draws 20

Of each set's rows (3,000 at most, shuffled) a fifth trains two logistic regressions:
one on a quarter of it makes the loggers, one on the rest the targets. The other rows
are the log: an arm is drawn from the logger's odds and pays 1 if it is the class. A
target's value on those rows is the mean of its odds of the class, so errors are exact.
"""

import argparse
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.timing import table
from oddsmith.evaluation import (
    clipped_ips,
    cross_fit,
    diagnose,
    dm,
    dr,
    ips,
    shrunk_dr,
    snips,
    switch_dr,
)
from oddsmith.files.reports.style import COLOURS, INK, MARKERS, panels, save
from oddsmith.logs import Log
from oddsmith.logs.engines import each

SETS = (
    "covertype15k",
    "eeg_eye_state",
    "frogs_mfcc",
    "letter",
    "pendigits",
    "spambase",
    "splice",
    "steel_plates",
    "wall_robot24",
    "wine_quality_white",
)
ESTIMATORS = ("ips", "snips", "clipped_ips", "dm", "dr", "switch_dr", "shrunk_dr")
LOGGERS = {"uniform": 1.0, "half explored": 0.5, "tenth explored": 0.1}
ROWS = 3_000


def soft(odds: Any, gamma: float) -> Any:
    return (1 - gamma) * odds + gamma / odds.shape[1]


def best(odds: Any) -> Any:
    return np.eye(odds.shape[1])[odds.argmax(axis=1)]


def prepared(path: Path) -> tuple[Any, Any, Any, Any]:
    """Features and classes of the log's rows, and both models' probabilities of the
    classes."""
    from sklearn.linear_model import LogisticRegression

    with np.load(path) as arrays:
        x, y = arrays["X"].astype(np.float64), arrays["y"].astype(np.int64)
    rows = np.random.default_rng(5).permutation(len(y))[:ROWS]
    x, y, classes = x[rows], y[rows], int(y.max()) + 1
    spread = x.std(axis=0)
    x = (x - x.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    fifth = len(y) // 5
    chances = []
    for part in (slice(0, fifth // 4), slice(fifth // 4, fifth)):
        model = LogisticRegression(max_iter=500).fit(x[part], y[part])
        known = np.full((len(y) - fifth, classes), 1e-3)
        known[:, model.classes_] += model.predict_proba(x[fifth:])
        chances.append(known / known.sum(axis=1, keepdims=True))
    return x[fifth:], y[fifth:], *chances


def errors(path: Path, draws: int) -> list[dict[str, Any]]:
    """|estimate - value| / value by logger, target, draw and estimator; and the
    effective sample size."""
    from sklearn.linear_model import Ridge

    x, y, first, second = prepared(path)
    n, records = len(y), []
    for logger, gamma in LOGGERS.items():
        odds = soft(best(first), gamma)
        for draw in range(draws):
            uniforms = np.random.default_rng([draw, 31]).random((n, 1))
            arms = (uniforms > odds.cumsum(axis=1)[:, :-1]).sum(axis=1)
            log = Log(
                arm=arms,
                reward=(arms == y).astype(np.float64),
                propensities=odds,
                context=x,
            )
            model = cross_fit(log, Ridge(10.0), per_arm=True, seed=draw)
            for target, chosen in (
                ("greedy", soft(best(second), 0.02)),
                ("soft", second),
            ):
                value = float(chosen[np.arange(n), y].mean())
                plain = [f(log, chosen) for f in (ips, snips, clipped_ips)]
                terms = plain + [
                    f(log, chosen, model) for f in (dm, dr, switch_dr, shrunk_dr)
                ]
                found = {
                    t.name: abs(float(t.values.mean()) - value) / value for t in terms
                }
                about = {
                    "set": path.stem,
                    "logger": logger,
                    "target": target,
                    "draw": draw,
                }
                records.append(about | {"ess": diagnose(terms[0]).ess} | found)
    return records


def draw_figure(records: list[dict[str, Any]], path: Path) -> None:
    figure, axes = panels(len(LOGGERS))
    for axis, logger in zip(axes, LOGGERS, strict=True):
        for i, name in enumerate(ESTIMATORS):
            means = [
                np.mean(
                    [
                        r[name]
                        for r in records
                        if r["logger"] == logger and r["set"] == s
                    ]
                )
                for s in SETS
            ]
            places = i + np.linspace(-0.22, 0.22, len(means))
            axis.scatter(
                places,
                np.array(means) * 100,
                color=COLOURS[i],
                marker=MARKERS[i],
                s=22,
                alpha=0.75,
            )
            axis.plot([i - 0.32, i + 0.32], [np.mean(means) * 100] * 2, color=INK, lw=2)
        axis.set(
            xticks=range(len(ESTIMATORS)),
            yscale="log",
            ylim=(0.3, 100),
            title=f"logger: {logger}",
        )
        axis.set_xticklabels(ESTIMATORS, rotation=35, ha="right")
        axis.yaxis.set_major_formatter("{x:g}")
    axes[0].set_ylabel("mean error, % of the value")
    save(figure, path)


def report(
    figures: Path,
    data: Path = Path("../shared/data"),
    draws: int = 20,
    engine: str = "local",
) -> str:
    """The table as Markdown, with its figure; one line where the data are not there."""
    paths = [data / "bakeoff" / f"{name}.npz" for name in SETS]
    if missing := [p for p in paths if not p.exists()]:
        return (
            "## Off-policy evaluation, real ground truth\n\n"
            f"Skipped: {missing[0]} is not there (see --data).\n"
        )
    records = [
        r
        for _, part in sorted(each(partial(errors, draws=draws), paths, engine=engine))
        for r in part
    ]
    draw_figure(records, figures / "ope.svg")
    rows = []
    for logger in LOGGERS:
        for target in ("greedy", "soft"):
            own = [
                r for r in records if r["logger"] == logger and r["target"] == target
            ]
            cells = [f"{np.mean([r[name] for r in own]):.1%}" for name in ESTIMATORS]
            rows.append(
                [
                    f"{logger}, {target}",
                    f"{np.median([r['ess'] for r in own]):,.0f}",
                    *cells,
                ]
            )
    by_set = [
        [
            s,
            *(
                f"{np.mean([r[name] for r in records if r['set'] == s]):.1%}"
                for name in ESTIMATORS
            ),
        ]
        for s in SETS
    ]
    total = [
        "all",
        *(f"{np.mean([r[name] for r in records]):.1%}" for name in ESTIMATORS),
    ]
    return f"""## Off-policy evaluation, real ground truth

Mean relative error |estimate - value| / value over {len(SETS)} classification sets as bandits, {draws} logs of at most
{ROWS * 4 // 5:,} rows for each logging policy. The reward model is a ridge regression per arm, cross-fitted. Clipping, switching and
shrinking use the data-driven choice. *ess* is the median effective sample size.

{table(["logger, target", "ess", *ESTIMATORS], rows)}

{table(["set", *ESTIMATORS], [*by_set, total])}

![Mean relative error by estimator, logger and set](figures/ope.svg)

A mark is a dataset, a bar the mean over datasets.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--engine", default="local")
    parser.add_argument(
        "--figures", type=Path, default=Path(__file__).parent / "figures"
    )
    arguments = parser.parse_args()
    print(report(arguments.figures, arguments.data, arguments.draws, arguments.engine))


if __name__ == "__main__":
    main()
