"""The probability that each of several independent arms is the best, by quadrature; Thompson's rule as odds.

Pr(a) = ∫ p_a(x) Π_{b≠a} F_b(x) dx. The line is cut at places belonging to each arm (its centre, and some standard
deviations to both sides), so that in no cell any arm's density changes much, whatever the scales: arms may differ
1,000-fold. In every cell five Gauss-Legendre nodes; the distribution functions are the running integrals of the
densities at the same nodes. Odds are normalised, and what is drawn from is exactly what is returned; against Thompson's
rule they err by less than 1e-6.
"""

from typing import Any

import numpy as np

from oddsmith import kernels
from oddsmith.arrays import Array, Bools

__all__ = ["BETA", "NODES", "NORMAL", "OPTIMIST", "PARTIAL", "WEIGHTS", "beta_best", "cuts_of", "normal_best"]

NORMAL, OPTIMIST, BETA = 0, 1, 2
_CUTS = {
    NORMAL: np.array([-8.5, -7.0, -6.0, -5.0, -4.0, -3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.5]),
    BETA: np.array(
        [-28, -18, -12, -9, -7, -5.5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5.5, 7, 9, 12, 18, 28], dtype=np.float64
    ),
}
_CUTS[OPTIMIST] = _CUTS[NORMAL]
NODES, WEIGHTS = np.polynomial.legendre.leggauss(5)
_CLOSE = 0.6  # cuts nearer than this many standard deviations of the narrowest arm are one
_CHUNK = 2_000_000  # numbers in one array of the numpy path, at most


def _partial() -> Array:
    """∫ from -1 to node i of the polynomial that is 1 at node j and 0 at the others (5, 5)."""
    found = np.empty((5, 5))
    for j in range(5):
        others = np.delete(NODES, j)
        polynomial = np.polynomial.Polynomial.fromroots(others) / np.prod(NODES[j] - others)
        integral = polynomial.integ(lbnd=-1)
        found[:, j] = integral(NODES)
    return found


PARTIAL = _partial()


def normal_best(means: Array, sds: Array, eligible: Bools | None = None, *, optimist: bool = False) -> Array:
    """Odds (…, K) that each of independent normals is the largest; with `optimist`, of max(draw, mean).

    A standard deviation of 0 is a sure value. Ties share.

    >>> normal_best(np.array([0.0, 0.0, -9.0]), np.array([1.0, 1.0, 1e-3])).round(6)
    array([0.5, 0.5, 0. ])
    """
    scale = np.maximum(sds, 1e-12 * np.maximum(np.abs(means), 1e-200))
    kind = OPTIMIST if optimist else NORMAL
    return _best(kind, means, scale, (means, scale), eligible)


def beta_best(a: Array, b: Array, eligible: Bools | None = None) -> Array:
    """Odds (…, K) that each of independent Beta(a, b) is the largest, computed on the log-odds scale.

    >>> beta_best(np.array([1.0, 2.0]), np.array([1.0, 1.0])).round(6)
    array([0.333333, 0.666667])
    """
    from scipy.special import psi, zeta

    centre, scale = psi(a) - psi(b), np.sqrt(zeta(2.0, a) + zeta(2.0, b))  # zeta(2, ·) is the trigamma function
    return _best(BETA, centre, scale, (a, b), eligible)


def cuts_of(kind: int) -> Array:
    """Where an arm cuts the line, in its standard deviations."""
    return _CUTS[kind]


def _best(kind: int, centre: Array, scale: Array, parameters: tuple[Array, Array], eligible: Bools | None) -> Array:
    """Rows of arms, each with its mask, through the compiled or the numpy path."""
    shape = np.broadcast_shapes(centre.shape, () if eligible is None else eligible.shape)
    n_arms = shape[-1]
    rows = [np.broadcast_to(values, shape).reshape(-1, n_arms) for values in (centre, scale, *parameters)]
    odds = np.zeros((len(rows[0]), n_arms))
    if eligible is None:
        _fill(kind, rows, odds)
    else:
        masks = np.broadcast_to(eligible, shape).reshape(-1, n_arms)
        for pattern in np.unique(masks, axis=0):
            mine = (masks == pattern).all(axis=1)
            part = np.zeros((int(mine.sum()), int(pattern.sum())))
            _fill(kind, [values[mine][:, pattern] for values in rows], part)
            odds[np.ix_(mine, pattern)] = part
    return odds.reshape(shape)


def _fill(kind: int, rows: list[Array], odds: Array) -> None:
    """Write the odds of all rows."""
    n_arms = odds.shape[1]
    if n_arms == 1:
        odds[:] = 1.0
        return
    centre, scale = rows[:2]
    cuts = (centre[:, :, None] + scale[:, :, None] * cuts_of(kind)).reshape(len(odds), -1)
    # below the second largest of the arms' lower ends nobody but one arm has any mass: nothing to integrate
    lowest = np.partition(centre + scale * cuts_of(kind)[0], -2, axis=1)[:, -2]
    cuts = np.sort(np.maximum(cuts, lowest[:, None]), axis=1)
    if kind != OPTIMIST:  # an optimist's distribution jumps at its mean, which must stay a cut
        cuts = _thinned(cuts, _CLOSE * scale.min(axis=1, keepdims=True))
    below = _below(kind, lowest[:, None], rows[2:])
    constants = _constants(kind, rows[2:])
    atoms = _atoms(rows[2:]) if kind == OPTIMIST else np.zeros_like(odds)
    compiled = kernels.compiled()
    if compiled is not None:
        from oddsmith.policies.best_arm_kernel import best

        best(kind, cuts, below, *(np.ascontiguousarray(p) for p in rows[2:]), (constants, atoms), odds)
        return
    size = max(1, _CHUNK // (n_arms * cuts.shape[1] * 5))
    for start in range(0, len(odds), size):
        part = slice(start, start + size)
        parameters = [p[part] for p in (*rows[2:], constants)]
        odds[part] = _numpy(kind, cuts[part], below[part], parameters, atoms[part])


def _thinned(cuts: Array, width: Array) -> Array:
    """The sorted cuts, those that share a bin of `width` with the one before moved onto it: cells of no width."""
    bins = np.floor((cuts - cuts[:, :1]) / width)
    new = np.ones(cuts.shape, np.bool_)
    new[:, 1:] = bins[:, 1:] > bins[:, :-1]
    new[:, -1] = True
    thinned: Array = np.maximum.accumulate(np.where(new, cuts, -np.inf), axis=1)
    return thinned


def _below(kind: int, lowest: Array, parameters: list[Array]) -> Array:
    """The arms' distribution functions (rows, K) where the integration starts."""
    from scipy.special import betainc, ndtr

    first, second = parameters
    if kind == BETA:
        return np.asarray(betainc(first, second, 1 / (1 + np.exp(-lowest))))
    found = np.asarray(ndtr((lowest - first) / second))
    return np.where(lowest < first, 0.0, found) if kind == OPTIMIST else found


def _constants(kind: int, parameters: list[Array]) -> Array:
    """The logarithms of the densities' constants (rows, K)."""
    first, second = parameters
    if kind == BETA:
        from scipy.special import betaln

        return np.asarray(-betaln(first, second))
    return np.asarray(-np.log(second) - 0.9189385332046727)


def _density(kind: int, x: Any, first: Any, second: Any, constant: Any) -> Any:
    if kind == BETA:  # of the log-odds: θ^a (1-θ)^b / B(a, b)
        softplus = np.logaddexp(0.0, x)
        return np.exp(constant + first * (x - softplus) - second * softplus)
    z = (x - first) / second
    dense = np.exp(constant - 0.5 * z * z)
    return np.where(x < first, 0.0, dense) if kind == OPTIMIST else dense


def _numpy(kind: int, cuts: Array, below: Array, parameters: list[Array], atoms: Array) -> Array:
    """The odds of some rows (rows, K)."""
    half = np.diff(cuts, axis=1) / 2
    x = (cuts[:, :-1] + half)[..., None] + half[..., None] * NODES  # (rows, cells, 5)
    first, second, constant = (p[:, :, None, None] for p in parameters)
    dense = _density(kind, x[:, None], first, second, constant) * half[:, None, :, None]  # (rows, K, cells, 5)
    mass = dense @ WEIGHTS
    start = np.concatenate([below[:, :, None], below[:, :, None] + np.cumsum(mass, axis=2)[..., :-1]], axis=2)
    if kind == OPTIMIST:
        start = start + 0.5 * ((cuts[:, None, :-1] >= parameters[0][..., None]) & (below == 0)[..., None])
    up_to = start[..., None] + dense @ PARTIAL.T
    ahead = np.cumprod(np.concatenate([np.ones_like(up_to[:, :1]), up_to[:, :-1]], axis=1), axis=1)
    behind = np.cumprod(np.concatenate([np.ones_like(up_to[:, :1]), up_to[:, :0:-1]], axis=1), axis=1)[:, ::-1]
    found = ((dense * ahead * behind) @ WEIGHTS).sum(axis=-1) + atoms
    found = np.maximum(found, 0.0)
    odds: Array = found / found.sum(axis=-1, keepdims=True)
    return odds


def _atoms(parameters: list[Array]) -> Array:
    """What an optimist's arm wins by standing at its mean: half a chance, if all others are below it; ties share."""
    from scipy.special import ndtr

    means, sds = parameters
    at = means[:, :, None]  # where arm a stands, against arm b (rows, a, b)
    others = ndtr((at - means[:, None, :]) / sds[:, None, :])
    others = np.where(at < means[:, None, :], 0.0, np.where(at == means[:, None, :], 0.25, others))
    others[:, np.arange(means.shape[1]), np.arange(means.shape[1])] = 1.0
    won: Array = 0.5 * others.prod(axis=2)
    return won
