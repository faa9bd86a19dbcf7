"""`oddsmith bound --compare`: who has which bound, and what has to hold for it."""

import argparse
from itertools import groupby

from oddsmith import theory
from oddsmith.cli.costs import rewards
from oddsmith.cli.words import as_json
from oddsmith.errors import InvalidInput
from oddsmith.theory import Promise

__all__ = ["add_comparison", "comparison"]


def add_comparison(parser: argparse.ArgumentParser) -> None:
    """Add the options of the comparison to the parser of `bound`."""
    parser.add_argument("--compare", action="store_true", help="all algorithms, what has to hold, and the lower bounds")
    parser.add_argument("--entropy", type=float, help="of the prior, in nats, with --compare (default: equal priors)")


def comparison(asked: argparse.Namespace, assumed: str) -> str:
    """The bounds of all algorithms, as text or JSON; what was assumed is said at the end."""
    if asked.plot is not None or asked.gamma is not None or asked.loss != "log" or asked.constants != "tight":
        raise InvalidInput(
            "compare has each algorithm with the settings of its own bound; "
            "leave out --loss, --gamma, --constants and --plot"
        )
    if len(asked.prior) > 1:
        raise InvalidInput(f"prior must be one number with compare; got {len(asked.prior)}")
    steps, prior = asked.steps, asked.prior[0]
    size = {"n_arms": asked.arms, "steps": steps, "prior": prior}
    rows = theory.compare(**size, entropy=asked.entropy)
    if asked.json:
        return as_json([{**row._asdict(), "says_nothing": row.says_nothing(steps)} for row in rows])
    parts = [_answer(rows, **size), _table(rows, steps), _notes(asked.entropy)]
    return "\n\n".join([*parts, *([assumed] if assumed else [])])


def _answer(rows: list[Promise], *, n_arms: int, steps: float, prior: float) -> str:
    first, of = rows[0], f"of {steps:,.0f} rewards"
    if first.bound is None or first.says_nothing(steps):
        return f"Nobody promises anything over {steps:,.0f} decisions for a truth whose prior is {prior:g}."
    gts = theory.better_bound(n_arms=n_arms, steps=steps, prior=prior)
    gamma = "without exploration" if gts.gamma == 0 else "with tuned gamma"
    promised = f"{rewards(gts.bound)} {gamma}" if gts.bound < steps else "nothing"
    sentence = f"{first.algorithm} promises to lose at most {rewards(first.bound)} {of}, GTS {promised}"
    if gts.bound <= first.bound:
        sentence = f"GTS {gamma} promises to lose at most {rewards(gts.bound)} {of}, and nobody less"
    floor = theory.sampling_floor(steps=steps, prior=prior) if n_arms > 1 else 0.0
    if floor:
        sentence += f", and no gamma brings GTS below {rewards(floor)} in its worst world"
    return sentence + "."


def _table(rows: list[Promise], steps: float) -> str:
    """A block for each condition, in the order of the rows."""
    name, wide = max(len(row.algorithm) for row in rows), max(len(row.formula) for row in rows)
    blocks = []
    for applies, group in groupby(rows, key=lambda row: row.applies):
        lines = [f"{applies[0].upper()}{applies[1:]}:"]
        lines += [
            f"  {row.algorithm:{name}}{_number(row, steps):>15}   {row.formula:{wide}}  {row.status}" for row in group
        ]
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks)


def _number(row: Promise, steps: float) -> str:
    if row.bound is None:
        return "no constant"
    return "says nothing" if row.says_nothing(steps) else f"{row.bound:,.1f}"


def _notes(entropy: float | None) -> str:
    known = "that of 1/p equally likely experts" if entropy is None else f"{entropy:g} nats"
    return (
        "K arms, T decisions, p the truth's prior, L = ln(1/p), N = 1/p, H the entropy of the prior, "
        f"here {known}; L* is what the best arm costs in all. Formulas of GTS with tuned gamma are to leading order, "
        "its numbers are exact. A bound of T or more says nothing, nor does a lower bound whose condition fails. "
        "docs/math, section 9."
    )
