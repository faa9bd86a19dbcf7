"""Worst-case bounds and simulated costs of algorithms, as a table and as text."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from oddsmith import theory
from oddsmith.core.gts import GeneralizedThompsonSampling, PowerSchedule
from oddsmith.core.losses import Loss
from oddsmith.core.policy import Policy
from oddsmith.policies.exp4 import EXP4
from oddsmith.policies.hedge import Hedged
from oddsmith.policies.squarecb import SquareCB
from oddsmith.theory import Bound
from oddsmith.theory.coefficients import AnyLoss
from oddsmith.theory.conditions import Certificate
from oddsmith.theory.constants import loss_function

__all__ = [
    "Algorithm",
    "AlgorithmCost",
    "DEFAULT_GAMMA",
    "cost_record",
    "gts",
    "play",
    "rewards",
    "rivals",
    "table",
    "usual",
    "why",
]

if TYPE_CHECKING:
    from oddsmith.lab.ordinary import Cost, OrdinaryWorld


DEFAULT_GAMMA = 0.02  # same default as in policy files


class Algorithm(NamedTuple):
    """An algorithm: its bound as a function of n_arms, steps and prior, and its policy
    as a function of a bound."""

    name: str
    bound: Callable[..., Bound]
    policy: Callable[[Bound, "OrdinaryWorld"], Policy]


class AlgorithmCost(NamedTuple):
    """One row of the table: the bound for the problem, the bound for the simulated
    world, and the simulated cost."""

    name: str
    bound: Bound
    here: Bound | None = None
    cost: "Cost | None" = None


def gts(
    name: str, loss: AnyLoss, bound: Callable[..., Bound], *, power: float = 0.0
) -> Algorithm:
    """Return GTS with the eta and gamma of a bound. With `power`, gamma decreases with
    the step."""
    function = _function(loss)

    def policy(found: Bound, world: "OrdinaryWorld") -> Policy:
        share = float(found.gamma or 0.0)
        gamma = PowerSchedule(share, power) if power and share else share
        eta = float(found.eta or 0.0)
        return GeneralizedThompsonSampling(
            world.experts, function, eta=eta, gamma=gamma, prior=world.priors
        )

    return Algorithm(name, bound, policy)


def usual(loss: AnyLoss, but: float | None = None) -> list[Algorithm]:
    """Return GTS with the default exploration and without exploration, except with the
    exploration `but`, which already has a row."""
    algorithms = []
    for share in (DEFAULT_GAMMA, 0.0):
        if share != but:
            bound = partial(theory.regret_bound, loss, gamma=share)
            algorithms.append(gts(f"GTS, gamma {share:g}", loss, bound))
    return algorithms


def rivals(loss: AnyLoss) -> list[Algorithm]:
    """Return SquareCB, Feel-Good, EXP4 and Hedged, each with the settings of its
    bound."""
    function = _function(loss)

    def squarecb(found: Bound, world: "OrdinaryWorld") -> Policy:
        sharpness = float(found.gamma or 0.0)
        return SquareCB(world.experts, sharpness=sharpness, prior=world.priors)

    def feel_good(found: Bound, world: "OrdinaryWorld") -> Policy:
        return GeneralizedThompsonSampling(
            world.experts,
            function,
            eta=float(found.eta or 0.0),
            prior=world.priors,
            optimism=float(found.gamma or 0.0),
            gamma=0.0,
        )

    def exp4(found: Bound, world: "OrdinaryWorld") -> Policy:
        eta = max(float(found.eta or 0.0), 1e-12)
        return EXP4(world.experts, eta=eta, prior=world.priors)

    def hedged(_: Bound, world: "OrdinaryWorld") -> Policy:
        eta = theory.tight_coefficient(loss).eta
        inside = GeneralizedThompsonSampling(
            world.experts, function, eta=eta, gamma=0.0, prior=world.priors
        )
        return Hedged(inside)

    return [
        Algorithm("SquareCB", theory.squarecb_bound, squarecb),
        Algorithm("Feel-Good", partial(theory.feelgood_bound, loss), feel_good),
        Algorithm("EXP4", theory.exp4_bound, exp4),
        Algorithm("Hedged", theory.hedged_bound, hedged),
    ]


def play(
    rows: Sequence[Algorithm],
    world: "OrdinaryWorld | None",
    problem: Mapping[str, float],
) -> list[AlgorithmCost]:
    """Return each algorithm's bound for the problem and, if a world is given, its
    simulated cost there."""
    costs = []
    for row in rows:
        cost = AlgorithmCost(row.name, row.bound(**problem))
        if world is not None:
            here = row.bound(n_arms=world.n_arms, steps=world.steps, prior=world.prior)
            simulated = world.cost(row.policy(here, world))
            cost = cost._replace(here=here, cost=simulated)
        costs.append(cost)
    return costs


def table(
    played: Sequence[AlgorithmCost], steps: float, world: "OrdinaryWorld | None"
) -> str:
    """Format bounds and costs as a table. If the simulated world is smaller than the
    problem, include the bounds for its size."""
    width = max(len(one.name) for one in played)
    is_smaller = world is not None and world.steps < steps
    head = f"{'':{width}}{f'at most, of {steps:,.0f}':>24}"
    if world is not None:
        head += f"{f'at most, of {world.steps:,}':>20}" if is_smaller else ""
        head += f"{f'simulated, of {world.steps:,}':>24}"
    lines = [head + f"{'eta':>10}{'gamma':>10}"]
    for one in played:
        line = f"{one.name:{width}}{one.bound.bound:24,.1f}"
        if is_smaller:
            here = "" if one.here is None else f"{one.here.bound:,.1f}"
            line += f"{here:>20}"
        if world is not None:
            cost = ""
            if one.cost is not None:
                cost = f"{one.cost.mean:,.1f} ± {one.cost.error:.1f}"
            line += f"{cost:>24}"
        for value in (one.bound.eta, one.bound.gamma):
            text = "" if value is None else f"{value:.4g}"
            line += f"{text:>10}"
        lines.append(line)
    lines.append(
        "Rows of SquareCB and Feel-Good have their sharpness and optimism in the last "
        "column."
    )
    return "\n".join(lines)


def cost_record(
    played: Sequence[AlgorithmCost], world: "OrdinaryWorld | None"
) -> dict[str, object] | None:
    """Return the simulation as a JSON record, or None without a world."""
    if world is None:
        return None
    rows = []
    for one in played:
        if one.here is not None and one.cost is not None:
            row = {"policy": one.name, "bound": one.here.bound}
            rows.append(row | {"regret": one.cost.mean, "error": one.cost.error})
    return {
        "steps": world.steps,
        "n_arms": world.n_arms,
        "n_experts": world.n_experts,
        "prior": world.prior,
        "runs": world.runs,
        "seed": world.seed,
        "world": str(world),
        "rows": rows,
    }


def rewards(value: float) -> str:
    """Format a number of rewards with its significant digits.

    >>> rewards(17295.6), rewards(26.53)
    ('17,296', '26.5')
    """
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def why(played: Sequence[AlgorithmCost], world: "OrdinaryWorld") -> str:
    """Explain the simulated world, why it costs less than the worst case, and why GTS
    is the default."""
    costs = {one.name: one.cost.mean for one in played if one.cost is not None}
    rival = costs.get("SquareCB")
    default = costs.get(f"GTS, gamma {DEFAULT_GAMMA:g}")
    comparison = ""
    if rival is not None and default is not None:
        comparison = (
            f" Here SquareCB cost {rewards(rival)} and GTS with gamma "
            f"{DEFAULT_GAMMA:g} {rewards(default)}."
        )
    return (
        f"Simulated: {world}.\n\nWhy the two differ. A bound holds in every world in "
        "which one expert is right. This includes worlds where the leading experts "
        "agree on an arm that is not the best: only exploration shows the mistake, "
        "gamma has its full cost, and GTS can lose of the order of T^(2/3). In the "
        "simulated world experts disagree everywhere, so every reward distinguishes "
        "some of them and the weights settle soon. After that, only the exploration "
        "gamma costs rewards.\n\nWhy GTS is the default although SquareCB's bound is "
        "smaller. Bounds rank algorithms by their worst world, and there SquareCB "
        f"and Feel-Good are safer: sqrt(T).{comparison} They explore for the worst "
        "world in every world, and for a horizon that must be known. GTS with a "
        "small gamma needs no horizon, and its weights do not depend on the order or "
        "the delay of rewards. The weights show which expert to trust, and gamma "
        "keeps propensities above 0, so that the log can be evaluated. If the right "
        "expert may have a tiny prior, or no leading expert proposes the best arm, "
        "use squarecb(...) or a larger gamma."
    )


def _function(loss: AnyLoss) -> Loss:
    if isinstance(loss, Certificate):
        return loss.loss
    return loss_function(loss)
