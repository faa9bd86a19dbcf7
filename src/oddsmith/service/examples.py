"""Filled examples of what routes are asked, by the name of the route: for OpenAPI and for the API for people."""

__all__ = ["BODIES", "QUERIES"]

_KNOWN = {"article-17": {"topic": "sports", "age_h": 2.0}, "article-18": {"topic": "tech", "age_h": None}}
_SLOTS = [{"name": "top", "features": {"size": "large"}}, {"name": "side", "eligible": list(_KNOWN)}]
_VISIT = {"context": {"hour": 9, "device": "phone"}}

BODIES: dict[str, dict[str, object]] = {
    "decide": {
        "Arms of the policy file": _VISIT,
        "Arms of the call, with features": _VISIT | {"id": "visit-7", "arms": _KNOWN},
        "Arms of the call, names alone": _VISIT | {"id": "visit-8", "arms": list(_KNOWN)},
        "Two slots": _VISIT | {"id": "page-7", "arms": _KNOWN, "slots": 2},
        "Slots with names": _VISIT | {"id": "page-8", "arms": _KNOWN, "slots": _SLOTS},
    },
    "decide_batch": {"Arms for all, and for one": {"decisions": [_VISIT, _VISIT | {"arms": ["a"]}], "arms": _KNOWN}},
    "reward": {
        "The reward of a visit": {"id": "visit-7", "reward": 1},
        "The reward of a slot": {"slate": "page-8", "slot": "top", "reward": 1},
    },
    "reward_batch": {"Two rewards": {"rewards": [{"id": "visit-7", "reward": 1}, {"id": "visit-8", "reward": 0}]}},
    "activate": {"It was shown": {"id": "visit-7"}, "All slots were shown": {"slate": "page-7"}},
    "correct": {"It was sent back": {"id": "visit-7", "reward": 0, "key": "return-31"}},
    "experts": {"A new model joins": {"expert": "model-b", "change": "added", "share": 0.1, "key": "2026-11-16"}},
}
"""Bodies of a POST, each with what it shows."""

QUERIES: dict[str, dict[str, object]] = {
    "decision": {"id": "visit-7", "explain": "true"},
    "decisions": {"limit": 5, "reward": "some"},
    "stats": {"limit": 10},
    "changes": {"after": 0, "wait": 5},
    "series": {"range": "day"},
}
"""Path and query of a GET that takes more than the experiment."""
