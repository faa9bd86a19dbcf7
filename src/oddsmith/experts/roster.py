"""The roster of a bank: an expert that joins at its end, or sleeps from now on."""

from collections.abc import Mapping
from dataclasses import replace

from oddsmith.core.decision import State
from oddsmith.core.errors import InvalidInput
from oddsmith.core.experts import Experts
from oddsmith.experts.answers import Answered
from oddsmith.experts.functions import FunctionExperts
from oddsmith.experts.guard.guard import Guarded
from oddsmith.experts.models import ModelExperts
from oddsmith.experts.stack import Stacked, stack
from oddsmith.experts.wrapper import Wrapper

__all__ = ["bank_of_one", "bank_with_expert", "bank_with_sleeper"]


def bank_of_one(experts: Experts, name: str, expert: object) -> Experts:
    """A bank with one expert, to join these: a bank as it is, a model (or a model per
    arm) with the settings of the models that are there, or a function.

    >>> there = FunctionExperts({"low": lambda x: [0.1, 0.2]}, ["a", "b"])
    >>> bank_of_one(there, "high", lambda x: [0.8, 0.9]).names
    ('high',)
    """
    if isinstance(expert, Experts):
        if tuple(expert.names) != (name,):
            raise InvalidInput(
                f"expert {name!r:.60} must be alone in its bank, by this name; got a "
                f"bank of {list(expert.names)[:8]}"
            )
        return expert
    is_model = hasattr(expert, "predict") or hasattr(expert, "predict_proba")
    if is_model or isinstance(expert, (Mapping, list, tuple)):  # or a model per arm
        like = _models(experts)
        if like is None:
            return ModelExperts({name: expert}, experts.arms)
        return replace(like, models={name: expert}, version=None)
    if callable(expert):
        return FunctionExperts({name: expert}, experts.arms)
    raise InvalidInput(
        "expert must be a bank of one expert, a model with predict or predict_proba, a "
        "dict or list of models, one per arm, or a function of the context; got "
        f"{type(expert).__name__}"
    )


def bank_with_expert(
    experts: Experts, state: State, name: str, bank: Experts | None
) -> tuple[Experts, State]:
    """The bank with one more expert at its end, and its state."""
    if isinstance(experts, Guarded):
        inner, own = bank_with_expert(experts.experts, state, name, bank)
        return experts.with_roster(inner, experts.retired), own
    if isinstance(experts, Answered):
        return replace(experts, names=(*experts.names, name)), state
    if bank is None or tuple(bank.names) != (name,):
        raise InvalidInput(
            f"expert {name!r} must be there to join, alone in its bank; got "
            f"{bank and bank.names!r}"
        )
    arms = experts.arms
    own = bank.init()
    # which came after the beginning
    if arms is not None and bank.arms is not None and len(bank.arms) < len(arms):
        bank, own = bank.with_arms(own, arms)
    return stack(experts, bank), (state, own)


def bank_with_sleeper(experts: Experts, name: str, *, sleeps: bool) -> Experts:
    """The bank with an expert that sleeps from now on, or is asked again; without a
    guard it is asked in any case, and has no weight."""
    if not isinstance(experts, Guarded):
        return experts
    retired = experts.retired | {name} if sleeps else experts.retired - {name}
    return experts.with_roster(experts.experts, retired)


def _models(experts: Experts) -> ModelExperts | None:
    """The models inside a bank whose settings a further model takes over."""
    if isinstance(experts, ModelExperts):
        return experts
    if isinstance(experts, Wrapper):
        return _models(experts.experts)
    if isinstance(experts, Stacked):
        found = [_models(bank) for bank in experts.banks]
        return next((one for one in found if one is not None), None)
    return None
