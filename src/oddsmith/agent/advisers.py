"""Match the advice in a decision with the experts of a bank, by name and version."""

from collections.abc import Sequence
from hashlib import sha256

import numpy as np

from oddsmith.core.decision import Decision, State
from oddsmith.core.errors import InvalidInput
from oddsmith.core.experts import Experts
from oddsmith.core.policy import Policy
from oddsmith.experts.stack import StackedExperts
from oddsmith.experts.wrapper import Wrapper

__all__ = ["match_advisers", "signed_names"]

_LONG = 40  # versions with at most this many characters are shown in full


def signed_names(bank: Experts | None) -> tuple[str, ...] | None:
    """Return the experts' names, with the version of their bank if it has one.

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
    if len(version) > _LONG:
        version = sha256(version.encode()).hexdigest()[:16]
    return tuple(f"{name}, version {version}" for name in bank.names)


def match_advisers(
    decision: Decision, experts: Sequence[str] | None, policy: Policy, state: State
) -> Decision:
    """Return the decision with one column of advice per expert: NaN for an expert that
    did not advise it.

    An expert without a prediction gets the average loss of the others. The average uses
    the weights that the decision recorded or, if it recorded none, those of the state.

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
    >>> match_advisers(made, ("kept", "new"), gts, gts.init()).advice
    array([0.6, nan])
    """
    if not isinstance(decision, Decision):
        raise InvalidInput(
            f"decision must be the result of decide; got {type(decision).__name__}"
        )
    advisers = decision.advisers
    if advisers is None or experts is None or decision.advice is None:
        return decision
    if advisers == tuple(experts):
        return decision
    place_of = {name: place for place, name in enumerate(advisers)}
    places = np.array([place_of.get(name, -1) for name in experts])
    n_advisers = policy.adviser_count(decision)
    if n_advisers != len(place_of):
        raise InvalidInput(
            f"decision must name its {n_advisers} experts; got {len(place_of)} names"
        )
    if (places < 0).all():
        raise InvalidInput(
            f"decision must have advice from at least one of {_few(experts)}; got "
            f"advice from {_few(advisers)}"
        )
    matched = policy.with_advisers(state, decision, places)
    return matched._replace(advisers=tuple(experts))


def _few(names: Sequence[str]) -> str:
    dots = " …" if len(names) > 4 else ""
    return f"{list(names[:4])}{dots}"
