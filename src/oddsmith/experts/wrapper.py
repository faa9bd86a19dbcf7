"""Wrapper: base class of banks that wrap another one."""

from collections.abc import Sequence
from dataclasses import replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any, cast

from oddsmith.core.arrays import Array, Bools, Real
from oddsmith.core.decision import Decision, State
from oddsmith.core.experts import Experts

__all__ = ["Wrapper"]


class Wrapper(Experts):
    """A bank that wraps another one. Everything that it does not define comes from the
    inner bank."""

    experts: Experts
    wraps = True

    @property
    def names(self) -> Sequence[str]:
        return self.experts.names

    if not TYPE_CHECKING:  # the type checker uses the types that Experts declares
        arms = property(attrgetter("experts.arms"))
        learns = property(attrgetter("experts.learns"))
        version = property(attrgetter("experts.version"))
        unversioned = property(attrgetter("experts.unversioned"))

    @property
    def takes_offers(self) -> bool:
        return self.experts.takes_offers

    def init(self, shape: tuple[int, ...] = ()) -> State:
        return self.experts.init(shape)

    def update(self, state: State, decision: Decision, reward: Real) -> State:
        return self.experts.update(state, decision, reward)

    def revise(
        self, state: State, decision: Decision, before: float, reward: float
    ) -> State:
        return self.experts.revise(state, decision, before, reward)

    def begin_log(self, state: State) -> State:
        return self.experts.begin_log(state)

    def end_log(self, state: State) -> State:
        return self.experts.end_log(state)

    def follows_log(self, state: State) -> Bools:
        return self.experts.follows_log(state)

    def online(self) -> Bools:
        return self.experts.online()

    def notes(self, state: State) -> tuple[str, ...]:
        return self.experts.notes(state)

    def prediction_bounds(self, state: State) -> Array | None:
        return self.experts.prediction_bounds(state)

    def with_arms(self, state: State, arms: Sequence[str]) -> tuple[Experts, State]:
        experts, wider = self.experts.with_arms(state, arms)
        wrapper = cast(Any, self)
        return replace(wrapper, experts=experts), wider
