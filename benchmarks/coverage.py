"""Do intervals cover? 20 settings with known values, 1,000 logs each; `python -m benchmarks.coverage [--logs 1000]`.

An interval that is refused covers nothing and misses nothing: the table says how often it was refused, how often the
others covered, and how often all would have, had the rules been overruled. Anytime intervals are checked after every
row of every log: a log counts as a miss if the true value was outside at any time.
"""

import argparse
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from math import log
from typing import Any

import numpy as np

from benchmarks.known_values import SETTINGS, Setting
from benchmarks.timing import table
from oddsmith.engines import each
from oddsmith.evaluation import RULES, Terms, dm, dr, estimate, ips, snips
from oddsmith.evaluation.betting import log_wealth
from oddsmith.logs import Log

LEVEL = 0.95
BOOTSTRAPPED = ("light 0", "light 5", "light 8")  # the slow ones


def split(terms: Terms, logs: int) -> Iterator[Terms]:
    """The terms of each log, of the terms of all logs in a row."""
    columns = ("values", "missing", "weights", "expected_squares")
    parts = {name: getattr(terms, name).reshape(logs, -1) for name in columns if getattr(terms, name) is not None}
    for i in range(logs):
        yield replace(terms, **{name: part[i] for name, part in parts.items()}, bets=None)


def misses(terms: Terms, value: float, logs: int, floor: float) -> Any:
    """For each log, whether the anytime interval misses the value at any time."""
    bets = terms.betting(floor)
    wrong = np.zeros(logs, bool)
    for column, mean in ((bets.gain, value + bets.gain_shift), (bets.loss, bets.loss_shift - value)):
        x = column.reshape(logs, -1)
        for rows in np.array_split(np.arange(logs), max(1, x.size // 2_000_000)):
            peak = log_wealth(x[rows], np.full(len(rows), mean), looks=x.shape[1]).max(axis=-1)
            wrong[rows] |= peak >= -log((1 - LEVEL) / 2)
    return wrong


def covered(terms: Iterator[Terms], interval: str, value: float, floor: float) -> tuple[float, float, float]:
    """The share refused, the share of the others that cover, and of all if the rules are overruled."""
    found = [estimate(t, level=LEVEL, interval=interval, floor=floor, overrule=RULES) for t in terms]
    inside = np.array([e.low <= value <= e.high for e in found])
    refused = np.array([bool(e.overruled) for e in found])
    kept = inside[~refused].mean() if not refused.all() else np.nan
    return float(refused.mean()), float(kept), float(inside.mean())


def measure(setting: Setting, logs: int, seed: int) -> dict[str, Any]:
    """Everything about one setting."""
    played, contexts = setting.logs(logs, seed)
    target, model, floor = setting.target[contexts], setting.model[contexts], float(setting.logger.min())
    terms = {"ips": ips(played, target), "dr": dr(played, target, model), "dm": dm(played, target, model)}
    result: dict[str, Any] = {"errors": {}, "z": {}, "intervals": {}}
    for name, t in terms.items():
        means = t.values.reshape(logs, -1).mean(axis=1)
        result["errors"][name] = float(np.sqrt(((means - setting.value) ** 2).mean()))
        if name == "dm":
            continue
        error = setting.deviation(modelled=name == "dr") / np.sqrt(len(t))
        result["z"][name] = float((t.values.mean() - setting.value) / error)
        for interval in ("normal", "bernstein"):
            found = covered(split(t, logs), interval, setting.value, floor)
            result["intervals"][name, interval] = found
        result["intervals"][name, "anytime"] = 0.0, *(1 - misses(t, setting.value, logs, floor).mean(),) * 2
    short = [_log(played, i, setting.rows) for i in range(logs)]
    ratios = [snips(part, target[i * setting.rows :][: setting.rows]) for i, part in enumerate(short)]
    result["errors"]["snips"] = float(np.sqrt(np.mean([(t.values.mean() - setting.value) ** 2 for t in ratios])))
    result["intervals"]["snips", "normal"] = covered(iter(ratios), "normal", setting.value, floor)
    if setting.name in BOOTSTRAPPED:
        result["intervals"]["ips", "bootstrap"] = covered(split(terms["ips"], logs), "bootstrap", setting.value, floor)
        result["intervals"]["snips", "bootstrap"] = covered(iter(ratios), "bootstrap", setting.value, floor)
    return result


def _log(played: Log, i: int, rows: int) -> Log:
    return played[i * rows : (i + 1) * rows]


def shown(found: tuple[float, float, float] | None) -> str:
    if found is None:
        return ""
    refused, kept, all_of_them = found
    if refused < 0.005:
        return f"{kept:.3f}"
    return f"refused {refused:.0%}" + (f", else {kept:.3f}" if refused < 0.99 else "") + f" ({all_of_them:.3f})"


def report(logs: int = 1000, engine: str = "local") -> str:
    results = dict(each(partial(measure, logs=logs, seed=11), SETTINGS, engine=engine))
    kinds = list(dict.fromkeys(kind for r in results.values() for kind in r["intervals"]))
    rows, errors = [], []
    for i, setting in enumerate(SETTINGS):
        found = results[i]
        head = [setting.name, f"{setting.rows:,}", f"{setting.largest:,.0f}", f"{setting.value:.3f}"]
        rows.append([*head, *(shown(found["intervals"].get(kind)) for kind in kinds)])
        names = ("ips", "snips", "dm", "dr")
        z = [f"{found['z'][name]:+.2f}" for name in ("ips", "dr")]
        errors.append([setting.name, *(f"{found['errors'][name]:.4f}" for name in names), *z])
    head = ["setting", "rows", "largest weight", "value"]
    return f"""## Intervals, where the value is known

{len(SETTINGS)} settings, {logs:,} logs each, nominal coverage {LEVEL:g}. An entry is the share of intervals that cover.
Where more than a few in a thousand are refused, it is the share refused, the coverage of the others, and in brackets
the coverage of all had the rules been overruled. Anytime: covered after every row at once.

{table([*head, *(" ".join(kind) for kind in kinds)], rows)}

Root mean squared errors, and the mean over all logs in exact standard errors from the value.

{table(["setting", "ips", "snips", "dm", "dr", "z of ips", "z of dr"], errors)}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--logs", type=int, default=1000)
    parser.add_argument("--engine", default="local")
    arguments = parser.parse_args()
    print(report(arguments.logs, arguments.engine))


if __name__ == "__main__":
    main()
