"""The tables [[rules]] of a policy file: conditions under which arms are not
eligible."""

from collections.abc import Sequence

from oddsmith.contexts.rules import Rule, check_rules
from oddsmith.core.errors import InvalidInput
from oddsmith.files.keys import Keys

__all__ = ["read_rules"]

_MOST = 100


def read_rules(keys: Keys, arms: Sequence[str] | None) -> tuple[Rule, ...]:
    """Return the rules of a file; `arms` are its arms, None if calls pass their arms.

    >>> table = {"never": ["beer"], "when": "age < 18"}
    >>> read_rules(Keys({"rules": [table]}), ["tea", "beer"])
    (Rule(never=('beer',), when='age < 18'),)
    """
    given = keys.get("rules", [])
    if not isinstance(given, list) or not all(isinstance(one, dict) for one in given):
        raise InvalidInput(f"rules must be tables [[rules]]; got {given!r:.60}")
    if len(given) > _MOST:
        raise InvalidInput(f"rules must be at most {_MOST}; got {len(given)}")
    rules = []
    for place, one in enumerate(given, 1):
        table = Keys(one, f"rules {place}")
        never = table.get("never", [])
        when = table.text("when", "")
        table.close()
        is_list = isinstance(never, list) and all(isinstance(arm, str) for arm in never)
        if not is_list:
            raise InvalidInput(
                f"{table.named('never')} must be a list of arms; got {never!r:.60}"
            )
        try:
            rules.append(Rule(never, when))
        except InvalidInput as error:
            raise table.blame(error) from error
    check_rules(rules, arms)
    return tuple(rules)
