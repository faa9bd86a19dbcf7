"""Whose advice a decision carries, and what another bank makes of it: columns by name
and version, never by place."""

from collections.abc import Sequence
from hashlib import sha256

import numpy as np

from oddsmith.core.arrays import Array
from oddsmith.core.decision import Decision, State
from oddsmith.core.errors import InvalidInput
from oddsmith.core.expert_policy import ExpertState
from oddsmith.core.experts import Experts
from oddsmith.experts.stack import Stacked
from oddsmith.experts.wrapper import Wrapper

__all__ = ["as_known", "signed_names"]

_LONG = 40  # characters of a version that is written as it is


def signed_names(bank: Experts | None) -> tuple[str, ...] | None:
    """The experts' names, each with the version of its bank where it has one.

    >>> from oddsmith.experts.external import GivenExperts
    >>> signed_names(GivenExperts(["cold", "warm"]))
    ('cold', 'warm')
    """
    if bank is None:
        return None
    if isinstance(bank, Stacked):
        return tuple(name for part in bank.banks for name in signed_names(part) or ())
    if isinstance(bank, Wrapper) and tuple(bank.names) == tuple(bank.experts.names):
        return signed_names(bank.experts)
    version = bank.version
    if version is None:
        return tuple(bank.names)
    short = (
        version if len(version) <= _LONG else sha256(version.encode()).hexdigest()[:16]
    )
    return tuple(f"{name}, version {short}" for name in bank.names)


def as_known(
    decision: Decision, experts: Sequence[str] | None, state: State
) -> Decision:
    """The decision as these experts read it: those that did not advise it are asleep,
    others' advice is left out.

    Sleepers are charged under the weights the decision was drawn with, or where it has
    none under the state's.

    >>> state = ExpertState(np.zeros(2), 0, ())
    >>> made = Decision(
    ...     1,
    ...     None,
    ...     None,
    ...     0,
    ...     np.array([1.0]),
    ...     advice=np.array([0.3, 0.6]),
    ...     advisers=("old", "kept"),
    ... )
    >>> as_known(made, ("kept", "new"), state).advice
    array([0.6, nan])
    """
    if not isinstance(decision, Decision):
        raise InvalidInput(
            f"decision must be what decide gave back; got {type(decision).__name__}"
        )
    if (
        decision.advisers is None
        or experts is None
        or decision.advice is None
        or decision.advisers == tuple(experts)
    ):
        return decision
    there = {name: place for place, name in enumerate(decision.advisers)}
    places = np.array([there.get(name, -1) for name in experts])
    if decision.advice.shape[-1] != len(there):
        raise InvalidInput(
            f"decision must name its {decision.advice.shape[-1]} experts; got "
            f"{len(there)} names"
        )
    if (places < 0).all():
        raise InvalidInput(
            f"decision must have advice of an expert of {_few(experts)}; got "
            f"{_few(decision.advisers)}"
        )
    new = [name for name, place in zip(experts, places, strict=True) if place < 0]
    if new and not isinstance(state, ExpertState):
        got = f"advice of {_few(decision.advisers)}, and none of {_few(new)}"
        raise InvalidInput(
            "decision must be learnt by the policy that made it, where this has no "
            f"weights; got {got}"
        )

    def columns(values: Array | None, missing: float) -> Array | None:
        return (
            None
            if values is None
            else np.where(places < 0, missing, values[..., places])
        )

    advice, bonus = columns(decision.advice, np.nan), columns(decision.bonus, np.nan)
    drawn_with = columns(decision.log_weights, -np.inf)
    if new:
        today = np.broadcast_to(
            state.log_weights, (*decision.advice.shape[:-1], len(places))
        )
        drawn_with = (
            today
            if drawn_with is None
            else np.where(np.isnan(drawn_with), today, drawn_with)
        )
    return decision._replace(
        advice=advice, bonus=bonus, log_weights=drawn_with, advisers=tuple(experts)
    )


def _few(names: Sequence[str]) -> str:
    return f"{list(names[:4])}{' …' if len(names) > 4 else ''}"
