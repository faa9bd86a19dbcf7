"""Changes of a bank's experts: append an expert, or deactivate and reactivate one."""

from collections.abc import Mapping
from dataclasses import replace

from oddsmith.core.decision import State
from oddsmith.core.errors import InvalidInput
from oddsmith.core.experts import Experts
from oddsmith.experts.answers import RecordedExperts
from oddsmith.experts.functions import FunctionExperts
from oddsmith.experts.guard.guard import Guarded
from oddsmith.experts.models import ModelExperts
from oddsmith.experts.stack import StackedExperts, stack
from oddsmith.experts.wrapper import Wrapper

__all__ = ["bank_of_one", "bank_with_expert", "bank_with_sleeper"]


def bank_of_one(experts: Experts, name: str, expert: object) -> Experts:
    """Return a bank with one expert, to add to `experts`. `expert` may be a bank, which
    is returned unchanged, a model (or one model per arm), which gets the settings of
    the models in `experts`, or a function.

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
    # A model, or one model per arm.
    if is_model or isinstance(expert, (Mapping, list, tuple)):
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
    """Return the bank with one more expert at its end, and its state."""
    if isinstance(experts, Guarded):
        inner, own = bank_with_expert(experts.experts, state, name, bank)
        return experts.with_roster(inner, experts.retired), own
    if isinstance(experts, RecordedExperts):
        return replace(experts, names=(*experts.names, name)), state
    if bank is None or tuple(bank.names) != (name,):
        raise InvalidInput(
            f"expert {name!r} must be passed as a bank that contains only it; got "
            f"{bank and bank.names!r}"
        )
    arms = experts.arms
    own = bank.init()
    # The bank lacks arms that were added later.
    if arms is not None and bank.arms is not None and len(bank.arms) < len(arms):
        bank, own = bank.with_arms(own, arms)
    return stack(experts, bank), (state, own)


def bank_with_sleeper(experts: Experts, name: str, *, sleeps: bool) -> Experts:
    """Return the bank with an expert deactivated, or active again. Without a guard the
    expert is still called, but has no weight."""
    if not isinstance(experts, Guarded):
        return experts
    retired = experts.retired - {name}
    if sleeps:
        retired |= {name}
    return experts.with_roster(experts.experts, retired)


def _models(experts: Experts) -> ModelExperts | None:
    """Return the models inside a bank, whose settings a further model gets."""
    if isinstance(experts, ModelExperts):
        return experts
    if isinstance(experts, Wrapper):
        return _models(experts.experts)
    if isinstance(experts, StackedExperts):
        for bank in experts.banks:
            models = _models(bank)
            if models is not None:
                return models
    return None
