"""fit_log: a policy's state after a log of any size, on one machine or on many."""

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from itertools import chain
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
"""A source, and which row groups of it (None: all)."""
_MOST_ASKED_AGAIN = 20_000  # rows for whose comparison fixed experts are asked again
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


class Seen(NamedTuple):
    """What went by: rewards learnt, rows still waiting, how odds are known, whether all
    are 1, the least of an arm, and for how many rewards the experts were asked anew.
    """

    learnt: int = 0
    waiting: int = 0
    kinds: frozenset[LogKind] = frozenset()
    certain: bool = True
    floor: float = np.inf
    computed: int = 0
    # by which a policy without names was fitted to offers
    arms: frozenset[tuple[str, ...] | None] = frozenset()

    def __add__(self, other: "Seen") -> "Seen":  # type: ignore[override]
        return Seen(
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
    """The state after a log, and what the theory says of it; `print` it.

    `learnt` rewards went in, `waiting` rows had none; `kinds` are the classes of the
    logs; `floor` is the least probability an eligible arm had anywhere (NaN where not
    all odds are known); `computed` rows lacked advice of some expert, which was asked
    anew.
    """

    state: State = field(repr=False)
    learnt: int
    waiting: int
    kinds: tuple[LogKind, ...]
    floor: float
    computed: int
    comparison: Comparison | None = None

    def state_of(self, policy: Policy) -> State:
        """The state, for `Agent(policy, start=fit)`."""
        return self.state

    @property
    def promises(self) -> tuple[str, ...]:
        """What the theory then does and does not promise, a sentence each."""
        sentences = [
            "Whatever the logger did, an expert's weight is its prior times exp(-eta · "
            "its total loss) on the arms that were drawn: what it says of other arms "
            "was not tested."
        ]
        if np.isnan(self.floor):
            sentences.append(
                f"The log is {' and '.join(self.kinds)}: how much it explored is not "
                "known, so experts that differ only on arms it avoided may still be "
                "in their prior's order; keep gamma above 0 from here on."
            )
        elif self.floor == 0:
            sentences.append(
                "Some eligible arms had odds 0: experts that differ only there keep "
                "their prior's order, and no regret bound of exploration carries over; "
                "keep gamma above 0 from here on."
            )
        else:
            sentences.append(
                f"Every eligible arm had odds of at least {self.floor:.3g}, so this "
                f"teaches as exploration with gamma / K = {self.floor:.3g} would: "
                "regret bounds hold from here on with the posterior as prior."
            )
        if self.computed:
            sentences.append(
                f"{self.computed:,} rows lacked advice of experts, which were asked "
                "now: if they were trained on these rewards, their weights are too "
                "good to be true."
            )
        return tuple(sentences)

    def __str__(self) -> str:
        rewards = "reward" if self.learnt == 1 else "rewards"
        return "\n".join(
            [
                f"{self.learnt:,} {rewards} learnt, {self.waiting:,} still waiting.",
                *([] if self.comparison is None else [str(self.comparison)]),
                *self.promises,
            ]
        )


def fit_log(
    policy: Policy,
    paths: object,
    *,
    engine: str = "serial",
    workers: int | None = None,
    reader: LogReader | None = None,
) -> Fit:
    """The state of `policy` after the logs in `paths` (files, folders, tables, Logs),
    and what the theory says of it.

    With fixed experts the posterior is a sum over events: pieces of the logs (row
    groups of Parquet, else files) are folded on any engine, and merged. Where order
    defines the posterior, the logs are one stream in the order given, and other engines
    than "serial" are refused. Advice is what the log has of experts of the policy's
    names; the others are asked in batches (and a sleeper is then charged as if no
    reward had come before). Memory is bounded by the reader's rows. Logs whose rewards
    have not come yet are no mistake: the state is then the prior, `learnt` 0 and all
    rows `waiting`.

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
    reading = reader or LogReader()
    sources = reading.sources(paths, "paths")
    if engine == "serial":
        parts = [(source, None) for source in sources]
        held_out = HeldOut(policy, _MOST_ASKED_AGAIN if policy.mergeable else np.inf)
        with closing(_bar(reading, sources)) as bar:
            state, seen = _learnt(policy, reading, parts, bar, held_out)
        return replace(_fit(state, seen), comparison=held_out.result())
    if not policy.mergeable:
        raise OrderMatters(
            "engine must be 'serial' where the order of events defines the posterior; "
            f"got {engine!r} with {type(policy).__name__}, which is folded in one "
            "stream (fixed experts, share=0 and discount=1 are not)"
        )
    pieces = [[piece] for source in sources for piece in _row_groups(source, reading)]
    done = each(
        partial(_learnt, policy, reading), pieces, engine=engine, workers=workers
    )
    found = {}
    with closing(_bar(reading, sources)) as bar:
        for place, (state, seen) in done:
            found[place] = (state, seen)
            bar.advance(seen.learnt + seen.waiting)
    # one order of sums, whichever came first
    states, seens = zip(*(found[i] for i in range(len(pieces))), strict=True)
    return _fit(policy.merge(*states), reduce(Seen.__add__, seens))


def _bar(reader: LogReader, sources: Sequence[object]) -> Bar:
    """A bar of the rows of all sources."""
    return Bar("rows", total_rows(reader, sources), every=LINE_EVERY_S)


def _learnt(
    policy: Policy,
    reader: LogReader,
    parts: Sequence[_Part],
    bar: Bar | None = None,
    held_out: HeldOut | None = None,
) -> tuple[State, Seen]:
    """The state after some parts of logs, from the prior, and what went by; the bar
    advances by their rows."""
    state, seen = policy.begin_log(policy.init()), Seen()
    prior = policy.init() if policy.mergeable else None
    compared = prior
    by_place = policy.arms is None and not policy.takes_offers
    batches = chain.from_iterable(
        _lean(policy, reader, source, groups) for source, groups in parts
    )
    for batch in batches:
        log = for_policy(policy, batch)
        known = log.rewarded()
        places = places_of(policy, log)
        if len(known) and (held_out is None or policy.mergeable):
            state = _folded(policy, state, prior, known, places, bar)
        if len(known) and held_out is not None:
            for block in held_out.blocks(known):
                if policy.mergeable:
                    compared = _compared(policy, compared, block, places, held_out)
                else:
                    held_out.compare(state, block)
                    state = _folded(policy, state, None, block, places, bar)
        seen = seen + _seen(log, known, computed=not complete(places))
        if bar is not None:
            bar.reach(seen.learnt + seen.waiting)
        if by_place and batch.offered is not None:
            seen = seen._replace(
                arms=seen.arms | {None if batch.arms is None else tuple(batch.arms)}
            )
    return policy.end_log(state), seen


def _lean(
    policy: Policy, reader: LogReader, source: object, groups: Sequence[int] | None
) -> Iterator[Log]:
    """Batches without contexts where advice stands in for them."""
    if reader.arms is None and policy.arms is not None and not isinstance(source, Log):
        reader = replace(reader, arms=tuple(policy.arms))
    again = isinstance(source, str | Path)  # a stream can be read only once
    if again and reader.only is None and policy.mergeable:
        lean = replace(reader, only=_LEARNT)
        batches = lean.batches(source, groups)
        head = next(batches, None)
        if head is None or (
            head.advice is not None and complete(places_of(policy, head))
        ):
            yield from () if head is None else (head,)
            yield from batches
            return
    yield from reader.batches(source, groups)


def _compared(
    policy: Policy, state: State, block: Log, places: Places, held_out: HeldOut
) -> State:
    """A state that learns block by block, for the comparison alone: sums of whole
    batches are exact in another order."""
    if held_out.is_over:
        return state
    held_out.compare(state, block)
    return _folded(policy, state, state, block, places, None)


def _folded(
    policy: Policy,
    state: State,
    prior: State,
    log: Log,
    places: Places,
    bar: Bar | None,
) -> State:
    if prior is not None or complete(places):
        start = state if prior is None else prior
        return fold(
            policy, state, decisions_for(policy, start, log, places), log.reward
        )
    # experts that learn, or weights that fade: what they say depends on what came
    # before
    for row in log.split(1):
        decision = decision_for(policy, state, row, places)
        state = policy.update(state, decision, float(row.reward[0]))
        if bar is not None:
            bar.advance()
    return state


def _seen(log: Log, known: Log, *, computed: bool) -> Seen:
    floor: float = np.inf
    # whether all odds are 1 is for the whole to say
    kind: LogKind = "unknown" if log.propensity is None else "drawn"
    if log.propensities is not None:
        kind = "exact"
        odds = (
            log.propensities
            if log.eligible is None
            else np.where(log.eligible, log.propensities, np.inf)
        )
        floor = float(odds.min())
    asked = len(known) if computed else 0
    return Seen(
        len(known),
        len(log) - len(known),
        frozenset([kind]),
        log.kind == "deterministic",
        floor,
        asked,
    )


def _fit(state: State, seen: Seen) -> Fit:
    if not seen.learnt + seen.waiting:
        raise InvalidInput("paths must hold at least one row; got none")
    if len(seen.arms) > 1:
        raise InvalidInput(
            "paths must offer the same arms in every row to a policy that knows none "
            "by name: name them"
        )
    kinds: tuple[LogKind, ...] = (
        ("deterministic",) if seen.certain else tuple(sorted(seen.kinds))
    )
    floor = seen.floor if kinds == ("exact",) else np.nan
    return Fit(state, seen.learnt, seen.waiting, kinds, floor, seen.computed)


def _row_groups(source: object, reader: LogReader) -> list[_Part]:
    """The parts of a source that can be read by themselves."""
    if isinstance(source, Log):
        return [(part, None) for part in source.split(reader.rows)]
    is_parquet = reader.format == "parquet" or str(source).endswith((".parquet", ".pq"))
    if (
        not isinstance(source, str | Path)
        or not is_parquet
        or not Path(source).is_file()
    ):
        return [(source, None)]
    return [(source, [group]) for group in range(parquet.row_groups(Path(source)))]
