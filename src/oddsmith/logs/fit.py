"""Learn a policy's state from a log of any size, on one machine or a cluster
(`fit_log`)."""

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np

from oddsmith.core.decision import State
from oddsmith.core.errors import InvalidInput, OrderMatters
from oddsmith.core.names import check_choice
from oddsmith.core.policy import Policy, check_policy, fold
from oddsmith.logs import parquet
from oddsmith.logs.advice import (
    Places,
    complete,
    decision_for,
    decisions_for,
    places_of,
)
from oddsmith.logs.by_policy import for_policy
from oddsmith.logs.comparison import Comparison, HeldOut
from oddsmith.logs.engines import ENGINES, each
from oddsmith.logs.formats import LogReader, total_rows
from oddsmith.logs.knowledge import LogKind
from oddsmith.logs.progress import LINE_EVERY_S, Bar
from oddsmith.logs.table import Log

__all__ = ["Fit", "fit_log"]

_Part: TypeAlias = tuple[object, Sequence[int] | None]
"""A source and its row groups (None: all)."""
# Maximum number of rows for which fixed experts predict again to compare policies.
_MOST_ASKED_AGAIN = 20_000
_LEARNT = (
    "propensity",
    "propensities",
    "eligible",
    "advice",
    "bonus",
    "log_weights",
    "step",
    "fingerprint",
    "offered",
)


class _Counts(NamedTuple):
    """Counts while a log is learnt: the rewards learnt, the rows without a reward, the
    kinds of the logs, whether all propensities are 1, the smallest propensity of an
    arm, and the rewards for which experts predicted again.
    """

    learnt: int = 0
    waiting: int = 0
    kinds: frozenset[LogKind] = frozenset()
    certain: bool = True
    floor: float = np.inf
    computed: int = 0
    # names of the offered arms, if the policy has no names of its own
    arms: frozenset[tuple[str, ...] | None] = frozenset()

    def __add__(self, other: "_Counts") -> "_Counts":  # type: ignore[override]
        return _Counts(
            self.learnt + other.learnt,
            self.waiting + other.waiting,
            self.kinds | other.kinds,
            self.certain and other.certain,
            min(self.floor, other.floor),
            self.computed + other.computed,
            self.arms | other.arms,
        )


@dataclass(frozen=True, eq=False)
class Fit:
    """The state after learning a log. Printing it shows the guarantees of the theory.

    `learnt` is the number of rewards, and `waiting` the number of rows without one.
    `kinds` are the kinds of the logs. `floor` is the smallest propensity of an eligible
    arm in any row (NaN if not all are known). `computed` is the number of rows that
    lacked the predictions of an expert that does not learn online, so that this expert
    predicted again.
    """

    state: State = field(repr=False)
    learnt: int
    waiting: int
    kinds: tuple[LogKind, ...]
    floor: float
    computed: int
    comparison: Comparison | None = None

    def state_of(self, policy: Policy) -> State:
        """Return the state, for `Agent(policy, start=fit)`."""
        return self.state

    @property
    def promises(self) -> tuple[str, ...]:
        """Return the guarantees of the theory and their limits, one sentence each."""
        sentences = [
            "For any logging policy, an expert's weight is its prior times exp(-eta "
            "· its total loss) on the drawn arms: its predictions for other arms "
            "were not tested."
        ]
        if np.isnan(self.floor):
            sentences.append(
                f"The log is {' and '.join(self.kinds)}: its exploration is unknown, "
                "so experts that differ only on arms it avoided may still have the "
                "order of their prior; keep gamma above 0 from here on."
            )
        elif self.floor == 0:
            sentences.append(
                "Some eligible arms had propensity 0: experts that differ only there "
                "keep the order of their prior, and no regret bound of exploration "
                "applies; keep gamma above 0 from here on."
            )
        else:
            sentences.append(
                f"Every eligible arm had a propensity of at least {self.floor:.3g}, "
                "which teaches as much as exploration with gamma / K = "
                f"{self.floor:.3g}: regret bounds hold from here on with the "
                "posterior as prior."
            )
        if self.computed:
            sentences.append(
                f"{self.computed:,} rows lacked predictions of experts, which "
                "predicted now: if they were trained on these rewards, their weights "
                "are too high."
            )
        return tuple(sentences)

    def __str__(self) -> str:
        rewards = "reward" if self.learnt == 1 else "rewards"
        lines = [f"{self.learnt:,} {rewards} learnt, {self.waiting:,} still waiting."]
        if self.comparison is not None:
            lines.append(str(self.comparison))
        return "\n".join([*lines, *self.promises])


def fit_log(
    policy: Policy,
    paths: object,
    *,
    engine: str = "serial",
    workers: int | None = None,
    reader: LogReader | None = None,
) -> Fit:
    """Fit `policy` to the logs in `paths` (files, folders, tables, Logs). Return its
    state, with the guarantees of the theory.

    With fixed experts the posterior is a sum over events: parts of the logs (row groups
    of Parquet, otherwise files) are processed on any engine and merged. If the order
    defines the posterior, the logs are one stream in the given order, and engines other
    than "serial" are an error. Logged predictions are used for experts with the same
    names; other experts are called in batches. If such an expert makes no prediction in
    a row, its loss is the mixed loss of the others under the prior weights. The
    reader's number of rows bounds the memory. A log without rewards is not an error:
    the state is then the prior, `learnt` is 0 and all rows are `waiting`.

    >>> from oddsmith.experts.external import GivenExperts
    >>> from oddsmith.core.gts import GeneralizedThompsonSampling
    >>> import pyarrow
    >>> policy = GeneralizedThompsonSampling(GivenExperts(["cold", "warm"]), eta=1.0)
    >>> table = pyarrow.table(
    ...     {"arm": [0, 0], "reward": [1, None], "advice": [[0.2, 0.8], [0.5, 0.5]]}
    ... )
    >>> fit = fit_log(policy, table, reader=LogReader(experts=["cold", "warm"]))
    >>> policy.posterior(fit.state), fit.learnt, fit.waiting
    (array([0.2, 0.8]), 1, 1)
    """
    check_policy(policy)
    check_choice("engine", engine, ENGINES)
    if reader is None:
        reader = LogReader()
    sources = reader.sources(paths, "paths")
    if engine == "serial":
        parts = [(source, None) for source in sources]
        held_out = HeldOut(policy, _MOST_ASKED_AGAIN if policy.mergeable else np.inf)
        with closing(_bar(reader, sources)) as bar:
            state, counts = _fit_parts(policy, reader, parts, bar, held_out)
        return replace(_fit(state, counts), comparison=held_out.result())
    if not policy.mergeable:
        raise OrderMatters(
            "engine must be 'serial' if the order of events defines the posterior; "
            f"got {engine!r} with {type(policy).__name__}, which learns from one "
            "stream (the order does not matter with fixed experts, share=0 and "
            "discount=1)"
        )
    pieces = []
    for source in sources:
        for piece in _row_groups(source, reader):
            pieces.append([piece])
    fit_piece = partial(_fit_parts, policy, reader)
    results = {}
    with closing(_bar(reader, sources)) as bar:
        for place, result in each(fit_piece, pieces, engine=engine, workers=workers):
            results[place] = result
            _, counts = result
            bar.advance(counts.learnt + counts.waiting)
    # Merge in the order of the parts, so that sums do not depend on which worker
    # finished first.
    ordered = [results[place] for place in range(len(pieces))]
    merged = policy.merge(*(state for state, _ in ordered))
    return _fit(merged, reduce(_Counts.__add__, (counts for _, counts in ordered)))


def _bar(reader: LogReader, sources: Sequence[object]) -> Bar:
    """Return a progress bar for the rows of all sources."""
    return Bar("rows", total_rows(reader, sources), every=LINE_EVERY_S)


def _fit_parts(
    policy: Policy,
    reader: LogReader,
    parts: Sequence[_Part],
    bar: Bar | None = None,
    held_out: HeldOut | None = None,
) -> tuple[State, "_Counts"]:
    """Return the state after some parts of logs, starting from the prior, and the
    counts. The bar advances by their rows."""
    state = policy.begin_log(policy.init())
    total = _Counts()
    prior = policy.init() if policy.mergeable else None
    compared = prior
    by_place = policy.arms is None and not policy.takes_offers
    for source, groups in parts:
        for batch in _batches(policy, reader, source, groups):
            log = for_policy(policy, batch)
            known = log.rewarded()
            places = places_of(policy, log)
            if len(known) and (held_out is None or policy.mergeable):
                state = _fold(policy, state, prior, known, places, bar)
            if len(known) and held_out is not None:
                for block in held_out.blocks(known):
                    if policy.mergeable:
                        compared = _compare(policy, compared, block, places, held_out)
                    else:
                        held_out.compare(state, block)
                        state = _fold(policy, state, None, block, places, bar)
            counts = _count(log, known, computed=_fixed_experts_lack(policy, places))
            if by_place and batch.offered is not None:
                arms = None if batch.arms is None else tuple(batch.arms)
                counts = counts._replace(arms=frozenset([arms]))
            total = total + counts
            if bar is not None:
                bar.reach(total.learnt + total.waiting)
    return policy.end_log(state), total


def _compare(
    policy: Policy, state: State, block: Log, places: Places, held_out: HeldOut
) -> State:
    """Return a state that learns block by block, used only in the comparison. Sums over
    whole batches would have another rounding."""
    if held_out.is_over:
        return state
    held_out.compare(state, block)
    return _fold(policy, state, state, block, places, None)


def _batches(
    policy: Policy, reader: LogReader, source: object, groups: Sequence[int] | None
) -> Iterator[Log]:
    """Yield batches of a source, without contexts if the log has all advice."""
    if reader.arms is None and policy.arms is not None and not isinstance(source, Log):
        reader = replace(reader, arms=tuple(policy.arms))
    is_file = isinstance(source, str | Path)  # a stream can be read only once
    if is_file and reader.only is None and policy.mergeable:
        batches = replace(reader, only=_LEARNT).batches(source, groups)
        head = next(batches, None)
        if head is None:
            return
        if head.advice is not None and complete(places_of(policy, head)):
            yield head
            yield from batches
            return
    yield from reader.batches(source, groups)


def _fold(
    policy: Policy,
    state: State,
    prior: State,
    log: Log,
    places: Places,
    bar: Bar | None,
) -> State:
    if prior is not None or complete(places):
        start = state if prior is None else prior
        decisions = decisions_for(policy, start, log, places)
        return fold(policy, state, decisions, log.reward)
    # Learn row by row: experts that learn and weights that decay depend on earlier
    # rewards.
    for row in log.split(1):
        decision = decision_for(policy, state, row, places)
        state = policy.update(state, decision, float(row.reward[0]))
        if bar is not None:
            bar.advance()
    return state


def _fixed_experts_lack(policy: Policy, places: Places) -> bool:
    """Return whether the log lacks predictions of an expert that does not learn online.
    One that does predicts each row before it learns it."""
    if policy.bank is None:
        return False
    online = policy.bank.online()
    # the columns of some policies, such as Hedged, are not those of the experts
    if len(online) != len(places):
        return not complete(places)
    pairs = zip(online, places, strict=True)
    return any(place is None and not is_online for is_online, place in pairs)


def _count(log: Log, known: Log, *, computed: bool) -> "_Counts":
    floor: float = np.inf
    # Do not use the kind "deterministic" here, because other parts of the log may
    # contain other propensities.
    kind: LogKind = "unknown" if log.propensity is None else "drawn"
    if log.propensities is not None:
        kind = "exact"
        odds = log.propensities
        if log.eligible is not None:
            odds = np.where(log.eligible, odds, np.inf)
        floor = float(odds.min())
    return _Counts(
        learnt=len(known),
        waiting=len(log) - len(known),
        kinds=frozenset([kind]),
        certain=log.kind == "deterministic",
        floor=floor,
        computed=len(known) if computed else 0,
    )


def _fit(state: State, counts: "_Counts") -> Fit:
    if not counts.learnt + counts.waiting:
        raise InvalidInput("paths must hold at least one row; got none")
    if len(counts.arms) > 1:
        raise InvalidInput(
            "paths must offer the same arms in every row to a policy without named "
            "arms: name them"
        )
    kinds: tuple[LogKind, ...] = tuple(sorted(counts.kinds))
    if counts.certain:
        kinds = ("deterministic",)
    floor = counts.floor if kinds == ("exact",) else np.nan
    return Fit(state, counts.learnt, counts.waiting, kinds, floor, counts.computed)


def _row_groups(source: object, reader: LogReader) -> list[_Part]:
    """Return the parts of a source that can be read independently: a log in pieces, a
    Parquet file by row group, and any other source as a single part."""
    if isinstance(source, Log):
        return [(part, None) for part in source.split(reader.rows)]
    if not isinstance(source, str | Path) or not Path(source).is_file():
        return [(source, None)]
    is_parquet = reader.format == "parquet"
    if not is_parquet and not str(source).endswith((".parquet", ".pq")):
        return [(source, None)]
    return [(source, [group]) for group in range(parquet.row_groups(Path(source)))]
