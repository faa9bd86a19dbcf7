"""Figure of regret bounds against the horizon, for several priors and algorithms."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from oddsmith.core.errors import InvalidInput
from oddsmith.files.reports.style import (
    COLOURS,
    DASHES,
    EDGE,
    LOOK,
    SHEET,
    pyplot,
    save,
)
from oddsmith.theory import (
    Bound,
    exp4_bound,
    feelgood_bound,
    hedged_bound,
    regret_bound,
    squarecb_bound,
)
from oddsmith.theory.coefficients import AnyLoss

__all__ = ["plot_bounds"]


def plot_bounds(
    path: Path,
    loss: AnyLoss,
    *,
    n_arms: int,
    steps: float,
    priors: list[float],
    settings: Mapping[str, Any],
) -> None:
    """Write a figure: on the left, GTS's bound for each prior; on the right, all
    algorithms at the first prior.

    `settings` are further arguments of `regret_bound` (gamma, constants, beta).
    """
    if not path.suffix:
        raise InvalidInput(
            f"plot must be a path with a suffix (.png, .svg, .pdf); got {str(path)!r}"
        )
    plt = pyplot()
    horizons = np.unique(
        np.geomspace(max(1.0, min(10.0, steps / 10)), max(steps, 2.0), 60).round()
    )
    with plt.rc_context(LOOK):
        figure, (left, right) = plt.subplots(
            1, 2, figsize=(11, 4.4), layout="constrained", sharex=True, sharey=True
        )
    for i, prior in enumerate(priors):
        bounds = [
            regret_bound(loss, n_arms=n_arms, steps=t, prior=prior, **settings).bound
            for t in horizons
        ]
        left.plot(
            horizons, bounds, label=f"prior of the right expert {prior:g}", **_line(i)
        )
    constants = settings.get("constants", "tight")
    algorithms: dict[str, Callable[..., Bound]] = {
        f"GTS, {constants} constants": partial(regret_bound, loss, **settings),
        "EXP4": exp4_bound,
        "Hedged": hedged_bound,
        "Feel-Good": partial(feelgood_bound, loss),
        "SquareCB": squarecb_bound,
    }
    for i, (name, bound) in enumerate(algorithms.items()):
        bounds = [
            bound(n_arms=n_arms, steps=t, prior=priors[0]).bound for t in horizons
        ]
        right.plot(horizons, bounds, label=name, **_line(i))
    left.set(title="Effect of the prior", ylabel=f"regret with {n_arms} arms, at most")
    right.set(title=f"Algorithms over the same experts, prior {priors[0]:g}")
    for axes in (left, right):
        axes.plot(horizons, horizons, color=EDGE, ls=":", label="T: nothing is learnt")
        axes.set(xscale="log", yscale="log", xlabel="steps T")
        axes.legend(frameon=False)
    _write(figure, path)


def _line(i: int) -> dict[str, Any]:
    return {"color": COLOURS[i % len(COLOURS)], "ls": DASHES[i % len(DASHES)]}


def _write(figure: Any, path: Path) -> None:
    """Write the figure in the format of the path's suffix; SVG follows the reader's
    theme."""
    try:
        if path.suffix == ".svg":
            save([figure], path)
        else:
            figure.savefig(path, dpi=130, facecolor=SHEET)
    except (OSError, ValueError) as error:
        raise InvalidInput(
            f"plot must be a writable path (.png, .svg, .pdf); {error}"
        ) from error
    finally:
        pyplot().close(figure)
