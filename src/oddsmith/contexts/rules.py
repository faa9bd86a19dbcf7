"""Rules: conditions under which arms are not eligible, such as "never X for minors"."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from oddsmith.contexts.conditions import Condition, parse_condition
from oddsmith.core.errors import InvalidInput
from oddsmith.core.names import check_names, hint

__all__ = ["Rule", "barred_arms", "check_rules"]


@dataclass(frozen=True)
class Rule:
    """A rule: some arms are not eligible while a condition holds.

    `never` names these arms; without it, the rule applies to every arm. `when` is a
    condition as text (see `contexts.conditions`) about the context and, as `arm.NAME`,
    the features of the arm; without it, the rule always applies.

    >>> adults_only = Rule(never=["beer"], when="age < 18 or missing(age)")
    >>> barred_arms([adults_only], {"age": 17}, ["tea", "beer"])
    {1: 'rule 1'}
    """

    never: Sequence[str] = ()
    when: str = ""
    condition: Condition | None = field(
        init=False, default=None, repr=False, compare=False
    )
    """The parsed condition; None if the rule always holds."""

    def __post_init__(self) -> None:
        if not self.never and not self.when:
            raise InvalidInput("a rule must have never, when, or both; got neither")
        never: tuple[str, ...] = ()
        if len(self.never) or isinstance(self.never, str):
            never = check_names("never", self.never)
        condition = parse_condition(self.when) if self.when else None
        object.__setattr__(self, "never", never)
        object.__setattr__(self, "condition", condition)


def barred_arms(
    rules: Sequence[Rule],
    context: Any,
    names: Sequence[str],
    features: Mapping[str, Any] | None = None,
) -> dict[int, str]:
    """Return the numbers of the arms that rules exclude, each with the first rule that
    excludes it."""
    barred: dict[int, str] = {}
    for number, rule in enumerate(rules, 1):
        condition = rule.condition
        reads_arm = condition is not None and condition.reads_arm
        if condition is not None and not reads_arm and not condition.holds(context):
            continue
        for place, name in enumerate(names):
            if place in barred or (rule.never and name not in rule.never):
                continue
            if condition is not None and reads_arm:
                known = None if features is None else features.get(name)
                if not condition.holds(context, known):
                    continue
            barred[place] = f"rule {number}"
    return barred


def check_rules(rules: Sequence[Rule], arms: Sequence[str] | None) -> None:
    """Raise an error if a rule names an arm that does not exist, or if no arm is left.
    `arms` is None if calls pass their arms."""
    if arms is None:
        return
    for number, rule in enumerate(rules, 1):
        for arm in rule.never:
            if arm not in arms:
                raise InvalidInput(
                    f"rule {number}: never must name arms of {list(arms)[:8]}; got "
                    f"{arm!r:.60}{hint(arm, arms)}"
                )
    always = [rule for rule in rules if rule.condition is None]
    if len(barred_arms(always, None, arms)) == len(arms):
        raise InvalidInput("rules must leave at least one arm; got none")
