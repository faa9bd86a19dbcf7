"""Comparison of several targets on one log: values, and paired intervals of their differences."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from oddsmith.errors import InvalidInput
from oddsmith.evaluation.intervals import Estimate, estimate
from oddsmith.evaluation.terms import Terms

__all__ = ["Comparison", "compare"]


class Comparison(NamedTuple):
    """Each target's estimate, and the estimate of its value minus the baseline's, by name."""

    baseline: str
    values: dict[str, Estimate]
    differences: dict[str, Estimate]


def compare(
    terms: Mapping[str, Terms],
    *,
    baseline: str | None = None,
    level: float = 0.95,
    interval: str = "beta",
    floor: float | None = None,
    seed: int = 0,
    overrule: Iterable[str] = (),
) -> Comparison:
    """Targets by name, each against the baseline (the first, unless named), on the same rows of one log.

    Differences are taken row by row, so what the targets share cancels. All differences hold together at `level`: each
    of m has 1 - (1 - level)/m (Bonferroni). Values are at `level` each.

    >>> from oddsmith.evaluation import ips, logged
    >>> from oddsmith.logs import Log
    >>> log = Log(arm=[0, 1] * 200, reward=[1, 0] * 150 + [1, 1] * 50, propensity=[0.5] * 400)
    >>> found = compare({"today": logged(log), "new": ips(log, [0.9, 0.1])})
    >>> print(found.differences["new"])
    new - today: 0.3 in [0.2419, 0.3548] (0.95 beta)
    """
    if len(terms) < 2:
        raise InvalidInput(f"a comparison needs at least 2 targets; got {len(terms)}")
    base = next(iter(terms)) if baseline is None else baseline
    if base not in terms:
        raise InvalidInput(f"baseline must be one of {', '.join(terms)}; got {base!r}")
    rules, share = tuple([overrule] if isinstance(overrule, str) else overrule), (1 - level) / (len(terms) - 1)
    values, differences = {}, {}
    for name, own in terms.items():
        found = estimate(own, level=level, interval=interval, floor=floor, seed=seed, overrule=rules)
        values[name] = found._replace(name=name)
        if name != base:
            apart = own.minus(terms[base])
            found = estimate(apart, level=1 - share, interval=interval, floor=floor, seed=seed, overrule=rules)
            differences[name] = found._replace(name=f"{name} - {base}")
    return Comparison(base, values, differences)
