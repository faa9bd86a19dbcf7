"""stack: combine several banks into one."""

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from itertools import chain

import numpy as np

from oddsmith.core.arrays import Array, Bools, Real
from oddsmith.core.decision import Context, Decision, State
from oddsmith.core.errors import ExpertFailed, InvalidInput
from oddsmith.core.experts import Experts, check_bank
from oddsmith.core.names import check_names

__all__ = ["StackedExperts", "stack"]


@dataclass(frozen=True)
class StackedExperts(Experts):
    """Several banks combined by `stack`: experts in the order of the banks, with one
    state per bank."""

    banks: tuple[Experts, ...]
    wraps = True

    def __post_init__(self) -> None:
        if not self.banks:
            raise InvalidInput("stack needs at least one bank of experts; got none")
        for bank in self.banks:
            check_bank("every part of a stack", bank)
        check_names("names over all banks", self.names)
        rosters = {tuple(bank.arms) for bank in self.banks if bank.arms is not None}
        if len(rosters) > 1:
            raise InvalidInput(
                "banks must have the same arms; got "
                f"{' and '.join(str(list(arms)) for arms in rosters)}"
            )

    @property
    def names(self) -> Sequence[str]:
        return tuple(name for bank in self.banks for name in bank.names)

    @property
    def arms(self) -> Sequence[str] | None:
        return next((bank.arms for bank in self.banks if bank.arms is not None), None)

    @property
    def learns(self) -> bool:
        return any(bank.learns for bank in self.banks)

    @property
    def unversioned(self) -> bool:
        return any(bank.unversioned for bank in self.banks)

    @property
    def takes_offers(self) -> bool:
        return all(bank.takes_offers for bank in self.banks)

    def init(self, shape: tuple[int, ...] = ()) -> State:
        return tuple(bank.init(shape) for bank in self.banks)

    def predict(self, state: State, context: Context) -> Array:
        return _join([bank.predict(own, context) for bank, own in self._pairs(state)])

    def advise(
        self, state: State, context: Context, eligible: Bools | None = None
    ) -> tuple[Array, Array]:
        predictions = list[Array]()
        ballots = list[Array]()
        for bank, own in self._pairs(state):
            own_predictions, own_ballots = bank.advise(own, context, eligible)
            predictions.append(own_predictions)
            ballots.append(own_ballots)
        return _join(predictions), _join(ballots)

    def begin_log(self, state: State) -> State:
        pairs = zip(self.banks, state, strict=True)
        return tuple(bank.begin_log(own) for bank, own in pairs)

    def end_log(self, state: State) -> State:
        pairs = zip(self.banks, state, strict=True)
        return tuple(bank.end_log(own) for bank, own in pairs)

    def follows_log(self, state: State) -> Bools:
        pairs = zip(self.banks, state, strict=True)
        return np.concatenate([bank.follows_log(own) for bank, own in pairs])

    def online(self) -> Bools:
        return np.concatenate([bank.online() for bank in self.banks])

    def notes(self, state: State) -> tuple[str, ...]:
        pairs = zip(self.banks, state, strict=True)
        return tuple(chain.from_iterable(bank.notes(own) for bank, own in pairs))

    def prediction_bounds(self, state: State) -> Array | None:
        parts = list[Array]()
        is_bounded = False
        for bank, own in self._pairs(state):
            bounds = bank.prediction_bounds(own)
            if bounds is None:
                bounds = np.tile([-np.inf, np.inf], (len(bank.names), 1))
            else:
                is_bounded = True
            parts.append(bounds)
        if not is_bounded:
            return None
        return np.concatenate(parts)

    def with_arms(self, state: State, arms: Sequence[str]) -> tuple[Experts, State]:
        """Add arms to each bank; raise if any bank cannot."""
        pairs = [bank.with_arms(own, arms) for bank, own in self._pairs(state)]
        banks, states = zip(*pairs, strict=True)
        return StackedExperts(banks), states

    def update(self, state: State, decision: Decision, reward: Real) -> State:
        """Update each bank with its part of the advice. If one raises, none has
        changed."""

        def learn(bank: Experts, own: State, part: Decision) -> State:
            return bank.update(own, part, reward)

        return self._each(state, decision, learn)

    def revise(
        self, state: State, decision: Decision, before: float, reward: float
    ) -> State:
        """Correct a reward in each bank. If one raises, none has changed."""

        def learn(bank: Experts, own: State, part: Decision) -> State:
            return bank.revise(own, part, before, reward)

        return self._each(state, decision, learn)

    def _each(
        self,
        state: State,
        decision: Decision,
        learn: Callable[[Experts, State, Decision], State],
    ) -> State:
        """Return the states after `learn` for each bank and its part of the
        decision."""
        last_learner = max(
            (i for i, bank in enumerate(self.banks) if bank.learns), default=-1
        )
        states = list[State]()
        first = 0
        for i, (bank, own) in enumerate(self._pairs(state)):
            last = first + len(bank.names)
            part = decision
            if decision.advice is not None:
                part = decision._replace(advice=decision.advice[..., first:last])
            first = last
            # Copy the state of a bank that learns in place, so that it is unchanged if
            # a later bank raises.
            if bank.learns and i < last_learner:
                own = deepcopy(own)
            states.append(learn(bank, own, part))
        return tuple(states)

    def _pairs(self, state: State) -> "zip[tuple[Experts, State]]":
        """Return each bank with its own state."""
        return zip(self.banks, state, strict=True)


def stack(*banks: Experts) -> StackedExperts:
    """Return several banks as one; all of them read the same context.

    >>> from oddsmith.experts.external import GivenExperts
    >>> stack(GivenExperts(["a"]), GivenExperts(["b"])).predict(((), ()), [[0.2, 0.3]])
    array([[0.2, 0.3],
           [0.2, 0.3]])"""
    return StackedExperts(banks)


def _join(parts: list[Array]) -> Array:
    """Return predictions of all banks (…, N, K)."""
    try:
        lead = np.broadcast_shapes(*(part.shape[:-2] for part in parts))
        wide = [np.broadcast_to(part, lead + part.shape[-2:]) for part in parts]
        return np.concatenate(wide, axis=-2)
    except ValueError as error:
        shapes = ", ".join(str(part.shape) for part in parts)
        raise ExpertFailed(
            "banks must have the same batch axes and arms; got predictions of shapes "
            f"{shapes}"
        ) from error
