"""Experts for policy files of tests: functions that rate arms by name, and one that
knows two arms only."""

import oddsmith as od


def likes(context: object, arm: str) -> float:
    return 0.9 if arm == "c" else 0.2


def other(context: object, arm: str) -> float:
    return 0.8 if arm == "a" else 0.3


def whole(context: object) -> list[float]:
    return [0.2, 0.3]


def by_name(arms: list[str]) -> od.Experts:
    return od.FunctionExperts({"likes": likes, "other": other}, arms)


def late(arms: list[str]) -> od.Experts:
    return od.FunctionExperts({"late": likes}, arms)


def fixed(arms: list[str]) -> od.Experts:
    return od.FunctionExperts({"fixed": whole}, arms)


def any_arms(arms: list[str]) -> od.Policy:
    return od.GeneralizedThompsonSampling(by_name(arms), gamma=0.1)
