"""Test by betting whether arms follow the logged propensities. The wealth of the bets
is expected to grow only if they do not."""

from collections.abc import Sequence
from math import exp, log
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from oddsmith.core.arrays import Array, number
from oddsmith.core.errors import InvalidInput
from oddsmith.evaluation.draws.draws import Draws
from oddsmith.evaluation.draws.fixed_bets import bets_on_all_odds, bets_on_drawn_odds
from oddsmith.evaluation.draws.history_bets import learned_bets
from oddsmith.logs.table import Log

__all__ = ["EvidenceGrade", "ServedReport", "served_as_logged"]

EvidenceGrade: TypeAlias = Literal["none", "some", "strong", "decisive"]

_STRENGTHS = np.array([0.03, 0.1, 0.3, 0.9])
_SHARES = np.array([0.15, 0.35, 0.2, 0.3])  # initial share of the money per strength
_LOOK = 16  # rows between two checks of the money
_BLOCK = 256  # rows between two starts of new bets
_PIECE = 4096  # rows per block in memory
_FIRST = 0.75  # share of the money for bets that start at the first row
_LARGEST = log(np.finfo(np.float64).max)
# Report a learned mixture as the cause only if its log wealth exceeds that of every
# other bet by this much.
_AHEAD = log(1000)
# Largest p-value for each grade of evidence.
_GRADES: dict[EvidenceGrade, float] = {"decisive": 0.0001, "strong": 0.01, "some": 1.0}
_CLAIMS: dict[EvidenceGrade, str] = {
    "decisive": "Arms do not follow the logged odds",
    "strong": "Strong evidence that arms do not follow the logged odds",
    "some": "Some evidence that arms do not follow the logged odds",
    "none": "No evidence in {n:,} rows against the logged odds",
}
_CAUTIONS: dict[EvidenceGrade, str] = {
    "decisive": "Caution, weights cannot be trusted. ",
    "strong": "Caution, weights may be wrong. ",
    "some": "Weights may be wrong. ",
    "none": "",
}


class _Winner(NamedTuple):
    """The cause whose bets have the most wealth, and the share of rows that it
    affects."""

    cause: str
    strength: float


class ServedReport(NamedTuple):
    """Result of the test after `n` rows.

    `e_value` is the wealth of the bets after the last row (at most 1.8e308). `p_value`
    is min(1, 1 / the largest wealth so far), checked every 16 rows. `caught` is true if
    the p-value is at most alpha; `row` is the first row after which this was so.
    `evidence` is "none" if not caught, otherwise "some", "strong" (p ≤ 0.01) or
    "decisive" (p ≤ 0.0001). `suspect` is the cause whose bets have the most wealth, and
    `strength` is the share of rows that this cause affects.
    """

    n: int
    caught: bool
    alpha: float
    e_value: float
    p_value: float
    row: int | None
    suspect: str
    strength: float
    sentence: str
    evidence: EvidenceGrade

    @property
    def caution(self) -> str:
        """Return a warning about importance weights, worded according to the strength
        of the evidence, or "" without evidence."""
        return _CAUTIONS[self.evidence]


def served_as_logged(
    logged: Log, *, alpha: float = 0.05, floor: float = 0.0
) -> ServedReport:
    """Test by betting whether a share ε of the arms was not drawn from the logged
    propensities.

    The hypothesis is that the arm a is drawn from the logged propensities p. Each bet
    is about one cause, that is, other propensities q from which a share ε of the arms
    could be drawn. In every row the money on the bet is multiplied by the likelihood
    ratio

        1 - ε + ε q(a) / p(a),

    which has a mean of at most 1 under the hypothesis, for every q that is known before
    the draw. If all propensities are logged, the causes are: an arm is forced or left
    out; the k-th likeliest arm is forced; the previous arm, or an earlier random
    number, is used again; small propensities or uniform exploration are not served; the
    propensities used are sharper or flatter than the logged ones, older, or those of
    other arms; and mixtures that are learned from earlier rows. If only the drawn arm's
    propensity is logged, the test uses only the causes that it can detect from this
    propensity (docs/math, 6.4). In this case `floor`, a lower bound of the propensity
    of every eligible arm, allows bets that an arm or the exploration is left out.

    The values of ε are 0.03, 0.1, 0.3 and 0.9. Most of the money is on bets that start
    at the first row, the rest on bets that start 256, 512, … rows later. The total
    money is a test supermartingale: a correct log raises an alarm with probability at
    most alpha, whenever and however often one looks.

    >>> rng = np.random.default_rng(0)
    >>> arm, odds = rng.integers(4, size=1000), np.full(1000, 0.25)
    >>> print(
    ...     served_as_logged(
    ...         Log(arm=arm, reward=np.zeros(1000), propensity=odds)
    ...     ).sentence
    ... )
    No evidence in 1,000 rows against the logged odds (p = 1).
    >>> arm[rng.random(1000) < 0.2] = 2
    >>> print(
    ...     served_as_logged(
    ...         Log(arm=arm, reward=np.zeros(1000), propensity=odds)
    ...     ).sentence
    ... )
    Arms do not follow the logged odds (p < 0.000001, first below 0.05 at row 95): it
    looks as if arm 2 were forced
    in about 30% of rows.
    """
    number("alpha", alpha, low=0, high=1, open_low=True, open_high=True)
    number("floor", floor, low=0, high=1)
    if not isinstance(logged, Log) or logged.propensity is None:
        raise InvalidInput(
            "the test needs a log with the logged odds of the drawn arm; got none"
        )
    if not len(logged):
        raise InvalidInput("the test needs at least one row; got none")
    n = len(logged)
    draws = Draws(logged, logged.propensity, floor)
    log_wealth, winner = _wealth(draws)
    peak = float(log_wealth.max())
    needed = -log(alpha)
    caught = peak >= needed
    p_value = min(1.0, exp(-peak))
    row = None
    evidence: EvidenceGrade = "none"
    tail = ")."
    if caught:
        look = int(np.argmax(log_wealth >= needed)) + 1
        row = min(n, _LOOK * look) - 1
        evidence = next(grade for grade, most in _GRADES.items() if p_value <= most)
        cause = winner.cause
        if winner.strength < 0.9:
            cause = f"{cause} in about {winner.strength:.0%} of rows"
        tail = f", first below {alpha:g} at row {row}): it looks as if {cause}."
    p_text = "p < 0.000001"
    if p_value >= 1e-6:
        p_text = f"p = {p_value:.2g}"
    claim = _CLAIMS[evidence].format(n=n)
    e_value = exp(min(float(log_wealth[-1]), _LARGEST))
    return ServedReport(
        n=n,
        caught=caught,
        alpha=alpha,
        e_value=e_value,
        p_value=p_value,
        row=row,
        suspect=winner.cause,
        strength=winner.strength,
        sentence=f"{claim} ({p_text}{tail}",
        evidence=evidence,
    )


def _wealth(draws: Draws) -> tuple[Array, _Winner]:
    """Return the log wealth at each check, and the cause whose bets have won most."""
    if draws.odds is None:
        families = bets_on_drawn_odds(draws)
    else:
        families = bets_on_all_odds(draws, draws.odds)
    shares = np.concatenate([family.shares for family in families])
    learned = learned_bets(draws, shares / len(families))
    log_shares = np.log(np.outer(_SHARES, shares)).ravel()
    even = -log(len(families) + len(learned))
    learned_shares = np.zeros(len(learned))
    each = even + np.concatenate([log_shares, learned_shares])
    bets = np.full(len(each), -np.inf)
    total = []
    block = 0
    looks_of_block = _BLOCK // _LOOK
    for start in range(0, len(draws.arm), _PIECE):
        end = min(start + _PIECE, len(draws.arm))
        rows = slice(start, end)
        gains = np.hstack([family.gains(rows) for family in families])
        columns = [_growth(strength * gains + 1.0) for strength in _STRENGTHS]
        factors = [bet.factors(rows, gains) for bet in learned]
        columns.append(_growth(np.column_stack(factors)))
        growth = np.hstack(columns)
        ends = range(looks_of_block, len(growth), looks_of_block)
        for looks in np.split(growth, ends):
            # Block b ≥ 1 gets the share 1/(b (b + 1)) of the money that is not bet in
            # the first block. The shares of all blocks sum to 1.
            money = _FIRST
            if block != 0:
                money = (1 - _FIRST) / (block * (block + 1))
            start_money = np.logaddexp(bets, log(money) + each)
            path = np.cumsum(looks, axis=0) + start_money
            top = path.max(axis=1)
            shares = np.exp(path - top[:, None])
            won = np.log(shares.sum(axis=1)) + top
            unspent = (1 - _FIRST) / (block + 1)
            total.append(np.logaddexp(won, log(unspent)))
            bets = path[-1]
            block += 1
    names = [name for family in families for name in family.names]
    learned_names = [bet.name for bet in learned]
    winner = _winner(bets, names, learned=learned_names)
    return np.concatenate(total), winner


def _growth(factors: Array) -> Array:
    """Return the log growth (looks, B) of the B bets from one check to the next: the
    log of the product of their factors (rows, B)."""
    looks = -(-len(factors) // _LOOK)
    whole = np.ones((looks * _LOOK, factors.shape[1]))
    whole[: len(factors)] = factors
    products = whole.reshape(looks, _LOOK, -1).prod(axis=1)
    return np.asarray(np.log(products))


def _winner(bets: Array, names: Sequence[str], *, learned: Sequence[str]) -> _Winner:
    """Return the cause whose bets have the most wealth, and its strength. `bets`
    contains each strength of each name, followed by the learned bets.

    A learned mixture contains the other bets, so it is returned only if its wealth is a
    thousand times as large as theirs.
    """
    fixed = bets[: -len(learned)].reshape(len(_STRENGTHS), -1)
    mixtures = bets[-len(learned) :]
    if mixtures.max() > fixed.max() + _AHEAD:
        return _Winner(learned[int(mixtures.argmax())], 1.0)
    best = int(fixed.argmax())
    strength, cause = np.unravel_index(best, fixed.shape)
    return _Winner(names[int(cause)], float(_STRENGTHS[strength]))
