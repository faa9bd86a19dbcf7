"""Rules: which arms they bar, in contexts and offers, and which rules are refused."""

from typing import Any

import pytest

import oddsmith as od
from oddsmith.contexts.rules import Rule, barred_arms, check_rules

ARMS = ["tea", "beer", "wine"]
DRINKS = {"tea": {"proof": 0}, "beer": {"proof": 5}, "wine": None}


@pytest.mark.parametrize(
    ("rule", "context", "features", "barred"),
    [
        (Rule(["beer"]), {}, None, ["beer"]),
        (Rule(["beer"], "age < 18"), {"age": 17}, None, ["beer"]),
        (Rule(["beer"], "age < 18"), {"age": 18}, None, []),
        (Rule(["beer"], "age < 18"), None, None, []),
        (Rule(["beer", "gin"], "age < 18"), {"age": 3}, None, ["beer"]),
        (Rule(when="arm.proof > 0"), {}, DRINKS, ["beer"]),
        (Rule(when="arm.proof > 0"), {}, None, []),
        (Rule(["wine"], "missing(arm.proof)"), {}, DRINKS, ["wine"]),
        (Rule(when="age < 18 and arm.proof > 0"), {"age": 9}, DRINKS, ["beer"]),
        (Rule(when="age < 18"), {"age": 9}, None, ARMS),
    ],
)
def test_a_rule_bars_arms(
    rule: Rule, context: Any, features: Any, barred: list[str]
) -> None:
    found = barred_arms([rule], context, ARMS, features)
    assert [ARMS[place] for place in sorted(found)] == barred
    assert set(found.values()) <= {"rule 1"}


def test_the_first_rule_is_the_reason() -> None:
    rules = [Rule(["wine"]), Rule(["beer", "wine"])]
    assert barred_arms(rules, {}, ARMS) == {2: "rule 1", 1: "rule 2"}


def test_wrong_rules_are_refused() -> None:
    with pytest.raises(od.InvalidInput, match="never, when, or both"):
        Rule()
    with pytest.raises(od.InvalidInput, match="character 6"):
        Rule(["beer"], "age <> 18")
    with pytest.raises(od.InvalidInput, match="never must be a sequence"):
        Rule("beer")
    with pytest.raises(od.InvalidInput, match="did you mean beer"):
        check_rules([Rule(["bear"])], ARMS)
    with pytest.raises(od.InvalidInput, match="leave at least one arm"):
        check_rules([Rule(ARMS)], ARMS)
    check_rules([Rule(["anything"])], None)  # arms come with calls
