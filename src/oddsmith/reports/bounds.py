"""The figure of bounds against the horizon, for several priors and algorithms."""

from pathlib import Path
from typing import Any

import numpy as np

from oddsmith.errors import InvalidInput
from oddsmith.reports.style import pyplot
from oddsmith.theory import exp4_bound, feelgood_bound, regret_bound, squarecb_bound
from oddsmith.theory.coefficients import AnyLoss

__all__ = ["plot_bounds"]


def plot_bounds(
    path: Path, loss: AnyLoss, *, n_arms: int, steps: float, priors: list[float], settings: Any = None
) -> None:
    """Write a figure: left, GTS's bound for each prior; right, all algorithms at the first prior.

    `settings` are further arguments of `regret_bound` (gamma, constants, beta).
    """
    if not path.suffix:
        raise InvalidInput(f"plot must be a path that says its kind (.png, .svg, .pdf); got {str(path)!r}")
    plt, given = pyplot(), dict(settings or {})
    horizons = np.unique(np.geomspace(max(1.0, min(10.0, steps / 10)), max(steps, 2.0), 60).round())
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.4), layout="constrained", sharex=True, sharey=True)
    for prior in priors:
        bounds = [regret_bound(loss, n_arms=n_arms, steps=t, prior=prior, **given).bound for t in horizons]
        left.plot(horizons, bounds, label=f"prior of the truth {prior:g}")
    problem: Any = {"n_arms": n_arms, "prior": priors[0]}
    rows: dict[str, Any] = {
        f"GTS, {given.get('constants', 'tight')} constants": lambda t: regret_bound(loss, steps=t, **problem, **given),
        "EXP4": lambda t: exp4_bound(steps=t, **problem),
        "Feel-Good": lambda t: feelgood_bound(loss, steps=t, **problem),
        "SquareCB": lambda t: squarecb_bound(steps=t, **problem),
    }
    for name, bound in rows.items():
        right.plot(horizons, [bound(t).bound for t in horizons], label=name)
    left.set(title="What a prior is worth", ylabel="regret, at most")
    right.set(title=f"Algorithms over the same experts, prior {priors[0]:g}")
    for axes in (left, right):
        axes.plot(horizons, horizons, ":", color="grey", label="T: nothing is learnt")
        axes.set(xscale="log", yscale="log", xlabel="steps T")
        axes.legend(frameon=False, fontsize=9)
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    figure.suptitle(f"Regret bounds, {n_arms} arms")
    try:
        figure.savefig(path, dpi=130)
    except (OSError, ValueError) as error:
        raise InvalidInput(
            f"plot must be a path of a picture that can be written (.png, .svg, .pdf); {error}"
        ) from error
    finally:
        plt.close(figure)
