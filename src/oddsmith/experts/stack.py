"""stack: several banks side by side as one."""

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass

import numpy as np

from oddsmith.core.arrays import Array, Bools, Real
from oddsmith.core.decision import Context, Decision, State
from oddsmith.core.errors import ExpertFailed, InvalidInput
from oddsmith.core.experts import Experts, check_bank
from oddsmith.core.names import check_names

__all__ = ["Stacked", "stack"]


@dataclass(frozen=True)
class Stacked(Experts):
    """Banks side by side, made by `stack`: experts in the order of the banks, one state
    for each bank."""

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
                "banks must agree on the arms; got "
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
        return _joined(
            [
                bank.predict(own, context)
                for bank, own in zip(self.banks, state, strict=True)
            ]
        )

    def advise(
        self, state: State, context: Context, eligible: Bools | None = None
    ) -> tuple[Array, Array]:
        pairs = [
            bank.advise(own, context, eligible)
            for bank, own in zip(self.banks, state, strict=True)
        ]
        return _joined([predictions for predictions, _ in pairs]), _joined(
            [ballots for _, ballots in pairs]
        )

    def begin_log(self, state: State) -> State:
        pairs = zip(self.banks, state, strict=True)
        return tuple(bank.begin_log(own) for bank, own in pairs)

    def end_log(self, state: State) -> State:
        pairs = zip(self.banks, state, strict=True)
        return tuple(bank.end_log(own) for bank, own in pairs)

    def prediction_bounds(self, state: State) -> Array | None:
        parts = [
            bank.prediction_bounds(own)
            for bank, own in zip(self.banks, state, strict=True)
        ]
        if all(part is None for part in parts):
            return None
        unbounded = np.array([[-np.inf, np.inf]])
        return np.concatenate(
            [
                np.repeat(unbounded, len(bank.names), axis=0) if part is None else part
                for bank, part in zip(self.banks, parts, strict=True)
            ]
        )

    def with_arms(self, state: State, arms: Sequence[str]) -> tuple[Experts, State]:
        """Each bank with further arms; a bank that cannot gain any refuses for all."""
        wider = [
            bank.with_arms(own, arms)
            for bank, own in zip(self.banks, state, strict=True)
        ]
        return Stacked(tuple(bank for bank, _ in wider)), tuple(own for _, own in wider)

    def update(self, state: State, decision: Decision, reward: Real) -> State:
        """Each bank learns from its own part of the advice; if one raises, none has
        learnt."""
        return self._each(
            state, decision, lambda bank, own, part: bank.update(own, part, reward)
        )

    def revise(
        self, state: State, decision: Decision, before: float, reward: float
    ) -> State:
        """Each bank changes what it has learnt; if one raises, none has."""
        return self._each(
            state,
            decision,
            lambda bank, own, part: bank.revise(own, part, before, reward),
        )

    def _each(
        self,
        state: State,
        decision: Decision,
        learnt: Callable[[Experts, State, Decision], State],
    ) -> State:
        ends = np.cumsum([len(bank.names) for bank in self.banks])[:-1]
        parts = [decision] * len(self.banks)
        if decision.advice is not None:
            parts = [
                decision._replace(advice=part)
                for part in np.split(decision.advice, ends, axis=-1)
            ]
        learning = [bank.learns for bank in self.banks]
        updated = []
        for i, (bank, own, part) in enumerate(
            zip(self.banks, state, parts, strict=True)
        ):
            # a later bank may still raise: work on a copy where this one would write in
            # place
            safe = deepcopy(own) if bank.learns and any(learning[i + 1 :]) else own
            updated.append(learnt(bank, safe, part))
        return tuple(updated)


def stack(*banks: Experts) -> Stacked:
    """Several banks as one; all of them read the same context.

    >>> from oddsmith.experts.external import GivenExperts
    >>> stack(GivenExperts(["a"]), GivenExperts(["b"])).predict(((), ()), [[0.2, 0.3]])
    array([[0.2, 0.3],
           [0.2, 0.3]])
    """
    return Stacked(banks)


def _joined(parts: list[Array]) -> Array:
    try:
        lead = np.broadcast_shapes(*(part.shape[:-2] for part in parts))
        return np.concatenate(
            [np.broadcast_to(part, lead + part.shape[-2:]) for part in parts], axis=-2
        )
    except ValueError as error:
        shapes = ", ".join(str(part.shape) for part in parts)
        raise ExpertFailed(
            "banks must agree on batch axes and arms; got predictions of shapes "
            f"{shapes}"
        ) from error
