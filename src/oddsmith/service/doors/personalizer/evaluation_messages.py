"""The messages of evaluations as types; fields that are not known are passed over."""

from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta

__all__ = ["ApplyContract", "EvaluationContract", "MOST_POLICIES", "PolicyContract"]

MOST_POLICIES = 10
Name: TypeAlias = Annotated[str, Meta(min_length=1, max_length=256)]


class PolicyContract(msgspec.Struct):
    """A policy by its name, and the arguments that say what it does."""

    name: Name
    arguments: Annotated[str, Meta(max_length=1024)]


class EvaluationContract(msgspec.Struct, rename="camel"):
    """What is asked: which policies, over which time."""

    name: Name
    start_time: str
    end_time: str
    policies: Annotated[list[PolicyContract], Meta(max_length=MOST_POLICIES)] = []
    enable_offline_experimentation: bool | None = None


class ApplyContract(msgspec.Struct, rename="camel"):
    """A policy of an evaluation that is to be the one that decides."""

    evaluation_id: str
    policy_name: str
