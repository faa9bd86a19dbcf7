"""Whose advice a decision carries, and what another bank makes of it: columns by name
and version, never by place."""

from collections.abc import Sequence
from hashlib import sha256

import numpy as np

from oddsmith.core.decision import Decision, State
from oddsmith.core.errors import InvalidInput
from oddsmith.core.experts import Experts
from oddsmith.core.policy import Policy
from oddsmith.experts.stack import StackedExperts
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
    if isinstance(bank, StackedExperts):
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
    decision: Decision, experts: Sequence[str] | None, policy: Policy, state: State
) -> Decision:
    """The decision as these experts read it: those that did not advise it are asleep,
    others' advice is left out.

    Sleepers are charged under the weights the decision was drawn with, or where it has
    none under the state's.

    >>> from oddsmith.core.gts import GeneralizedThompsonSampling
    >>> from oddsmith.experts.external import GivenExperts
    >>> gts = GeneralizedThompsonSampling(GivenExperts(["kept", "new"]))
    >>> made = Decision(
    ...     1,
    ...     None,
    ...     None,
    ...     0,
    ...     np.array([1.0]),
    ...     advice=np.array([0.3, 0.6]),
    ...     advisers=("old", "kept"),
    ... )
    >>> as_known(made, ("kept", "new"), gts, gts.init()).advice
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
    n_advisers = policy.adviser_count(decision)
    if n_advisers != len(there):
        raise InvalidInput(
            f"decision must name its {n_advisers} experts; got {len(there)} names"
        )
    if (places < 0).all():
        raise InvalidInput(
            f"decision must have advice of an expert of {_few(experts)}; got "
            f"{_few(decision.advisers)}"
        )
    return policy.with_advisers(state, decision, places)._replace(
        advisers=tuple(experts)
    )


def _few(names: Sequence[str]) -> str:
    return f"{list(names[:4])}{' …' if len(names) > 4 else ''}"
