"""The long version of tests/server/http/test_connections.py: 2,000 connections without
a key, opened again without pause."""

import pytest
from benchmarks.flood import FLOODS, flood

pytestmark = pytest.mark.soak


@pytest.mark.parametrize("kind", FLOODS)
def test_callers_with_a_key_are_answered_during_a_flood(kind: str) -> None:
    for caller, answers in flood(kind, 15.0).items():
        assert answers.sent >= 5, caller
        # connections that also send requests cost more than those that are idle
        limit = 1.0 if kind == "idle" else 4.0
        assert answers.within(limit) >= 0.99, (caller, answers)
