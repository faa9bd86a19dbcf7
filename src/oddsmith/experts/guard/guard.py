"""Guarded: if an expert fails, it makes no prediction, the failure is counted, and the
decision does not fail."""

import itertools
import logging
import threading
import time
import weakref
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from queue import Empty, SimpleQueue
from typing import TypeAlias

import numpy as np

from oddsmith.core.arrays import Array, Bools, number
from oddsmith.core.decision import Context, State
from oddsmith.core.errors import InvalidInput
from oddsmith.core.experts import Experts, check_bank
from oddsmith.core.names import check_names
from oddsmith.core.offer import AnyOffer, Offer
from oddsmith.core.weights import greedy
from oddsmith.experts.guard.failures import CallFailure, Record
from oddsmith.experts.guard.outcomes import (
    Advice,
    CallResult,
    Leaf,
    ask,
    common_shape,
    leaves,
)
from oddsmith.experts.guard.pace import Pace, TimeLimit
from oddsmith.experts.guard.parts import RecordKeeper, failure_records
from oddsmith.experts.wrapper import Wrapper

__all__ = ["Guarded", "Workers"]

Job = Callable[[], None]


class Workers:
    """A pool of daemon threads that grows to the number of simultaneous jobs. A job
    that hangs keeps its thread; other jobs get other threads.

    A job must not raise.

    >>> done: SimpleQueue[int] = SimpleQueue()
    >>> workers = Workers()
    >>> workers.run(lambda: done.put(1))
    >>> done.get()
    1
    >>> workers.close()
    """

    def __init__(self) -> None:
        # Queues of the idle threads. The last thread to become idle gets the next job.
        self._idle: list[SimpleQueue[Job | None]] = []
        self._lock = threading.Lock()
        self._closed = False

    def run(self, job: Job) -> None:
        """Start `job` in a thread and return at once."""
        with self._lock:
            inbox = self._idle.pop() if self._idle else None
        if inbox is None:
            inbox = SimpleQueue()
            thread = threading.Thread(
                target=self._work, args=(inbox,), name="oddsmith-expert", daemon=True
            )
            thread.start()
        inbox.put(job)

    def close(self) -> None:
        """End idle threads now, and busy threads after their job."""
        with self._lock:
            idle = self._idle
            self._idle = []
            self._closed = True
        for inbox in idle:
            inbox.put(None)

    def _work(self, inbox: "SimpleQueue[Job | None]") -> None:
        while (job := inbox.get()) is not None:
            job()
            # Release the references of the job while waiting for the next one.
            job = None
            with self._lock:
                if self._closed:
                    return
                self._idle.append(inbox)


_log = logging.getLogger(__name__)
# Kinds of failure that do not depend on the context.
_ABSENT = frozenset({"late", "resting", "died", "starting"})
# Do not call an expert while this many of its late calls are still running.
_STUCK = 4
_RETIRED = CallFailure("retired", "")
# After this many late calls in a row, an expert is called only occasionally.
_PATIENCE = 10
# Experts that are called only occasionally are all called again in every 128th call, so
# that less than 1 % of calls are slow.
_ROUND = 128
_Ended: TypeAlias = SimpleQueue[tuple[int, CallResult]]


@dataclass(eq=False)
class _Call:
    """A call in a thread. Under the guard's lock it either ends or is abandoned,
    whichever comes first."""

    ended: bool = False
    given_up: bool = False


@dataclass(frozen=True, eq=False)
class Guarded(RecordKeeper, Wrapper):
    """A bank in which an expert of `experts` that fails makes no prediction.
    `failures()` returns the number of failures by expert and kind:

      * "raised": it raised an exception, which may be SystemExit;
      * "shape": it did not return one number for each arm;
      * "values": it returned values that are not real numbers or not in the range
        `within` (`losses.domain` is the range of the loss), or votes that are not a
        distribution over the eligible arms. NaN is not a failure but means that the
        expert makes no prediction;
      * "late": it took longer than `timeout_ms` milliseconds. If this is "measured",
        the limit is three times the 95 % quantile of recent calls, between 50 ms and 2
        s. If it is None, there is no limit and no thread;
      * "resting": it was late ten times in a row. It is then asked only in every 128th
        call, until it answers in time;
      * "died", "starting": the process of an `Isolated` bank ended, or has not been
        restarted yet.

    If no expert answers a decision within the time limit, each late expert votes for
    the arm with the largest mean of its recent predictions. Set `earlier_votes` to
    False for a policy that learns from votes, because it would learn from these votes
    too.

    A bank that can be split (models, functions, a stack) is guarded expert by expert.
    In a batch, an expert that fails on one row has no prediction for any row. A late
    call continues in its thread, which cannot be stopped from outside; an expert with
    four such calls is not called until one of them ends. The library's own code and
    banks that learn run in the calling thread without a limit, because a late call
    could read a state while it changes. KeyboardInterrupt in the main thread is not
    caught. `update` is not guarded. `arms` names the arms if the experts do not;
    `retired` experts are not called. A guard is not part of a policy's fingerprint.

    >>> from oddsmith.experts.functions import FunctionExperts
    >>> guarded = Guarded(
    ...     FunctionExperts(
    ...         {"ok": lambda x: [0.1, 0.2], "broken": lambda x: 1 / 0}, ["a", "b"]
    ...     )
    ... )
    >>> guarded.predict(guarded.init(), None)
    array([[0.1, 0.2],
           [nan, nan]])
    >>> guarded.failures()
    {'broken': {'raised': 1}}
    """

    experts: Experts
    timeout_ms: TimeLimit = None
    within: tuple[float, float] = (-1e6, 1e6)
    arms: Sequence[str] | None = None
    retired: frozenset[str] = frozenset()
    earlier_votes: bool = True
    _leaves: tuple[Leaf, ...] = field(init=False, repr=False)
    # The whole bank, if it runs only library code; otherwise None.
    _only: Experts | None = field(init=False, repr=False)
    record: Record = field(init=False, repr=False, default_factory=Record)
    _paces: dict[tuple[str, ...], Pace] = field(
        init=False, repr=False, default_factory=dict
    )
    _calls: "itertools.count[int]" = field(
        init=False, repr=False, default_factory=lambda: itertools.count(1)
    )
    _workers: Workers = field(init=False, repr=False, default_factory=Workers)
    _lock: threading.Lock = field(
        init=False, repr=False, default_factory=threading.Lock
    )

    def __post_init__(self) -> None:
        check_bank("experts", self.experts)
        if self.timeout_ms not in (None, "measured"):
            number("timeout_ms", self.timeout_ms, low=0, high=np.inf, open_low=True)
        low, high = self.within
        if not -np.inf < low < high < np.inf:
            raise InvalidInput(
                f"within must be finite numbers low < high; got {self.within!r}"
            )
        arms = self.experts.arms
        if self.arms is not None:
            arms = check_names("arms", self.arms)
        parts = tuple(leaves(self.experts))
        only = None
        if len(parts) == 1 and parts[0].is_library_code and not self.retired:
            only = parts[0].bank
        object.__setattr__(self, "arms", arms)
        object.__setattr__(self, "_leaves", parts)
        object.__setattr__(self, "_only", only)
        self._keep_pace()
        weakref.finalize(self, self._workers.close)

    def failures(self) -> dict[str, dict[str, int]]:
        """Return how often each expert failed, by kind, since this object was created.
        Inner guards are included."""
        return Record.failures(failure_records(self))

    def reasons(self) -> dict[str, str]:
        """Return the reason of the last failure of each expert that ever failed."""
        return Record.reasons(failure_records(self))

    @property
    def inline(self) -> bool:
        """Return whether all experts run in the calling thread, so that no call has a
        time limit."""
        return self.timeout_ms is None or all(leaf.inline for leaf in self._leaves)

    def with_arms(self, state: State, arms: Sequence[str]) -> "tuple[Guarded, State]":
        experts, wider = self.experts.with_arms(state, arms)
        guard = self.with_roster(experts, self.retired, arms)
        return guard, wider

    def with_roster(
        self,
        experts: Experts,
        retired: frozenset[str],
        arms: Sequence[str] | None = None,
    ) -> "Guarded":
        """Return this guard, with its counts and unfinished calls, for a changed list
        of experts or more arms."""
        if arms is None:
            arms = self.arms
        guard = replace(self, experts=experts, retired=retired, arms=arms)
        for name in ("record", "_paces", "_lock"):
            object.__setattr__(guard, name, getattr(self, name))
        guard._keep_pace()
        return guard

    def predict(self, state: State, context: Context) -> Array:
        return self.advise(state, context)[0]

    def advise(
        self, state: State, context: Context, eligible: Bools | None = None
    ) -> Advice:
        plain = self._plain(state, context, eligible)
        if plain is not None:
            return plain
        outcomes = self._ask_all(state, context, eligible)
        return self._advice(outcomes, context, eligible)

    def advise_or_refuse(
        self, state: State, context: Context, eligible: Bools | None = None
    ) -> Advice:
        """Return the same as `advise`, but raise and count no failure if every expert
        rejects the context."""
        plain = self._plain(state, context, eligible)
        if plain is not None:
            return plain
        outcomes = self._ask_all(state, context, eligible)
        refusals = list[InvalidInput]()
        for _, result in outcomes:
            if result is _RETIRED:
                continue
            if not isinstance(result, CallFailure) or result.refusal is None:
                return self._advice(outcomes, context, eligible)
            refusals.append(result.refusal)
        if refusals:
            raise refusals[0]
        return self._advice(outcomes, context, eligible)

    def _advice(
        self,
        outcomes: list[tuple[Leaf, CallResult]],
        context: Context,
        eligible: Bools | None,
    ) -> Advice:
        """Return the outcomes as one array each, and count failures. A failed expert
        has no prediction."""
        arms = context.arms if isinstance(context, AnyOffer) else self.arms
        known = None
        if arms is not None:
            known = len(arms)
        elif eligible is not None:
            known = eligible.shape[-1]
        lead, n_arms = common_shape(outcomes, context, known)
        all_predictions = list[Array]()
        all_ballots = list[Array]()
        for leaf, outcome in outcomes:
            shape = (*lead, len(leaf.bank.names), n_arms)
            checked = _check_shape(outcome, shape)
            if isinstance(checked, CallFailure):
                if checked is not _RETIRED:
                    self.record.add(leaf.bank.names, checked)
                checked = (np.full(shape, np.nan), np.zeros(shape))
            predictions, ballots = checked
            all_predictions.append(predictions)
            all_ballots.append(ballots)
        advice = self._usable(
            np.concatenate(all_predictions, axis=-2),
            np.concatenate(all_ballots, axis=-2),
            eligible,
        )
        if self.timeout_ms is None or not self.earlier_votes or lead:
            return advice
        names = range(n_arms) if arms is None else arms
        return self._with_earlier_votes(advice, outcomes, names, eligible)

    def _with_earlier_votes(
        self,
        advice: Advice,
        outcomes: list[tuple[Leaf, CallResult]],
        arms: Sequence[Hashable],
        eligible: Bools | None,
    ) -> Advice:
        """Return the advice. If no expert voted, late experts vote by their mean
        predictions, but still count as having made none, so that nothing is learnt
        about them."""
        ballots = advice[1]
        if ballots.any():
            return advice
        first = 0
        for leaf, outcome in outcomes:
            rows = slice(first, first + len(leaf.bank.names))
            first = rows.stop
            if not isinstance(outcome, CallFailure) or outcome.kind not in _ABSENT:
                continue
            n_experts = rows.stop - rows.start
            with self._lock:
                means = leaf.pace.means.predict(arms, n_experts=n_experts)
            ballots[rows] = greedy(means, eligible)
        if ballots.any():
            self._warn()
        return advice

    def _warn(self) -> None:
        """Warn once that experts need more time."""
        if self.record.is_warned:
            return
        self.record.is_warned = True
        _log.warning(
            "no expert answered in time (timeout_ms = %s): they voted by their "
            "earlier predictions; increase timeout_ms, or make them faster",
            self.timeout_ms,
        )

    def _keep_pace(self) -> None:
        """Use the same `Pace` for an expert in all versions of the list of experts, so
        that unfinished calls are counted together."""
        with self._lock:
            for leaf in self._leaves:
                leaf.pace = self._paces.setdefault(tuple(leaf.bank.names), leaf.pace)

    def _plain(
        self, state: State, context: Context, eligible: Bools | None
    ) -> Advice | None:
        """Return the advice of the library's own bank, if valid. Most services have
        only such a bank."""
        if self._only is None:
            return None
        for step in self._leaves[0].path:
            state = state[step]
        try:
            predictions, ballots = self._only.advise(state, context, eligible)
        except Exception:
            return None
        if self.arms is not None and predictions.shape[-1] != len(self.arms):
            return None
        low = np.fmin.reduce(predictions, axis=None)
        high = np.fmax.reduce(predictions, axis=None)
        if self.within[0] <= low <= high <= self.within[1]:
            return (predictions, ballots)
        return None

    def _ask_all(
        self, state: State, context: Context, eligible: Bools | None
    ) -> list[tuple[Leaf, CallResult]]:
        """Call all experts in parallel, within `timeout_ms` if set, and return the
        result of each."""
        began = time.monotonic()
        ended = _Ended()
        calls = dict[int, _Call]()
        outcomes: dict[int, CallResult] = {}
        arms = context.arms if isinstance(context, Offer) else self.arms
        put = partial(ask, state=state, context=context, eligible=eligible)
        inline = dict[int, Leaf]()
        timed = dict[int, Leaf]()
        limits = dict[int, float]()
        for i, leaf in enumerate(self._leaves):
            if self.retired.issuperset(leaf.bank.names):
                outcomes[i] = _RETIRED
            elif self.timeout_ms is None or leaf.inline:
                inline[i] = leaf
            else:
                timed[i] = leaf
                with self._lock:
                    limits[i] = leaf.pace.limit_ms(self.timeout_ms)
        all_experts = next(self._calls) % _ROUND == 0
        for i, leaf in timed.items():
            refusal = self._refusal(leaf, all_experts)
            if refusal is not None:
                outcomes[i] = refusal
                continue
            calls[i] = _Call()
            job = partial(self._in_thread, i, calls[i], put, ended, arms)
            self._workers.run(job)
        for i, leaf in inline.items():
            outcomes[i] = put(leaf)
        while calls:
            end = began + max(limits[i] for i in calls) / 1000
            try:
                i, outcomes[i] = ended.get(timeout=max(0.0, end - time.monotonic()))
            except Empty:
                break
            del calls[i]
        for i, call in calls.items():
            outcomes[i] = self._give_up(self._leaves[i], call, limits[i])
        return [(leaf, outcomes[i]) for i, leaf in enumerate(self._leaves)]

    def _refusal(self, leaf: Leaf, all_experts: bool) -> CallFailure | None:
        """Return the reason to skip an expert in this call; None to call it."""
        if leaf.pace.late >= _PATIENCE and not all_experts:
            return CallFailure("resting", f"was late {_PATIENCE} times in a row")
        if leaf.pace.stuck >= _STUCK:
            with self._lock:
                leaf.pace.late += 1
            return CallFailure("late", f"{_STUCK} earlier calls are still running")
        return None

    def _in_thread(
        self,
        i: int,
        call: _Call,
        put: Callable[[Leaf], CallResult],
        ended: _Ended,
        arms: Sequence[Hashable] | None,
    ) -> None:
        leaf = self._leaves[i]
        pace = leaf.pace
        began = time.monotonic()
        outcome = put(leaf)
        took_ms = 1000 * (time.monotonic() - began)
        kind = outcome.kind if isinstance(outcome, CallFailure) else ""
        with self._lock:
            call.ended = True
            pace.durations_ms.append(took_ms)
            if not isinstance(outcome, CallFailure):
                predictions, _ = outcome
                self._remember(leaf, predictions, arms)
            if call.given_up:
                pace.stuck -= 1
            elif kind == "late":
                pace.late += 1
            # Failures of other kinds do not depend on the pace of the expert.
            elif kind not in ("died", "starting"):
                pace.late = 0
        ended.put((i, outcome))  # the queue has no reader if the caller has given up

    def _remember(
        self, leaf: Leaf, predictions: Array, arms: Sequence[Hashable] | None
    ) -> None:
        """Store the predictions for one context, including late ones. They are used for
        votes if no expert answers in time. The caller holds the lock."""
        low, high = self.within
        names = range(predictions.shape[-1]) if arms is None else arms
        if predictions.shape != (len(leaf.bank.names), len(names)):
            return
        if not ((predictions < low) | (predictions > high)).any():
            leaf.pace.means.take(names, predictions)

    def _give_up(self, leaf: Leaf, call: _Call, limit_ms: float) -> CallFailure:
        with self._lock:
            call.given_up = True
            leaf.pace.stuck += not call.ended
            leaf.pace.late += 1
        reason = f"was not done after {limit_ms:g} ms; timeout_ms can give it more time"
        return CallFailure("late", reason)

    def _usable(
        self, predictions: Array, ballots: Array, eligible: Bools | None
    ) -> Advice:
        """Return the advice without experts whose predictions are invalid or whose
        votes are not a distribution."""
        low, high = self.within
        invalid = (predictions < low) | (predictions > high) | (ballots < 0)
        if eligible is not None:
            invalid |= (ballots != 0) & ~eligible[..., None, :]
        with np.errstate(invalid="ignore"):  # invalid votes may be inf or -inf
            votes = ballots.sum(axis=-1)
        # Use a tolerance, because votes may be float32.
        is_vote = (np.abs(votes - 1) <= 1e-6) | (votes == 0)
        unusable = invalid.any(axis=-1) | ~is_vote
        if unusable.any():
            failed = unusable.any(axis=tuple(range(unusable.ndim - 1)))
            names = [name for name, one in zip(self.names, failed, strict=True) if one]
            reason = (
                f"gave predictions outside [{low:g}, {high:g}], or votes that are not "
                "a distribution over the eligible arms"
            )
            self.record.add(names, CallFailure("values", reason))
            predictions[..., failed, :] = np.nan
            ballots[..., failed, :] = 0.0
        return predictions, ballots


def _check_shape(outcome: CallResult, shape: tuple[int, ...]) -> CallResult:
    """Return the outcome, or a failure if its arrays have another shape."""
    if isinstance(outcome, CallFailure):
        return outcome
    predictions, ballots = outcome
    if predictions.shape == shape and ballots.shape == shape:
        return outcome
    return CallFailure("shape", f"gave shape {predictions.shape} instead of {shape}")
