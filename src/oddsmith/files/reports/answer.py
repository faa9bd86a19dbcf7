"""The answer before the tables: a sentence about a difference, and a picture of
intervals for a terminal."""

from collections.abc import Sequence
from math import floor, inf, isnan, log10
from typing import NamedTuple

__all__ = ["Span", "chart", "compared", "digits", "interval"]

_WIDTH = 48  # characters between the ends of the axis
_FAR = 5  # times as far as the near end: half of the interval


class Span(NamedTuple):
    """A number with the ends of its interval."""

    value: float
    low: float
    high: float


def digits(span: Span) -> int:
    """How many decimals show an interval: two digits of its half width, and an end that
    is not 0 never as 0.

    Where one end is far away, the near one says more: two digits of how near it is.

    >>> (
    ...     digits(Span(0.028, 0.018, 0.038)),
    ...     digits(Span(4.1, 3.0, 5.2)),
    ...     digits(Span(0.02, 0.0002, 0.04)),
    ... )
    (3, 1, 4)
    >>> digits(Span(0.42, 0.24, 3.4))
    2
    """
    reach = (span.high - span.low) / 2
    near = min(span.value - span.low, span.high - span.value)
    # and not rounding's
    reach = near if reach / _FAR**3 < near < reach / _FAR else reach
    places = max(0, 1 - floor(log10(reach))) if reach > 0 else 4
    while places < 8 and any(
        end != 0 and float(f"{end:.{places}f}") == 0 for end in (span.low, span.high)
    ):
        places += 1
    return places


def interval(span: Span) -> str:
    """The ends of an interval, as a reader needs them.

    >>> interval(Span(0.028, 0.0181, 0.0379))
    '[0.0181, 0.0379]'
    """
    places = digits(span)
    return f"[{span.low:z.{places}f}, {span.high:z.{places}f}]"


def compared(
    name: str, other: str, span: Span, how: str, *, unit: str = "per decision"
) -> str:
    """A sentence, without its full stop, about what `name` earns more than `other`;
    `how` says where it comes from.

    Whole interval above 0: more; below 0: less, with the ends turned round; else no
    difference is shown.

    >>> compared(
    ...     "new.toml",
    ...     "the logger",
    ...     Span(0.028, 0.018, 0.038),
    ...     "95 % normal interval, dr",
    ... )
    'new.toml earns 0.028 more per decision than the logger, [0.018, 0.038] (95 % normal
    interval, dr)'
    """
    size = f"{abs(span.value):.{digits(span)}f}"
    word = "less" if span.value < 0 else "more"
    if span.low <= 0 <= span.high:
        return (
            f"No difference is shown between {name} and {other}: {size} {word} {unit}, "
            f"{interval(span)} ({how})"
        )
    ends = Span(-span.value, -span.high, -span.low) if span.high < 0 else span
    return f"{name} earns {size} {word} {unit} than {other}, {interval(ends)} ({how})"


def chart(
    bars: Sequence[tuple[str, Span]], *, zero: str = "", most: float = inf
) -> str:
    """Intervals under each other, a line each, for a terminal; a value that is NaN is
    refused.

    With `zero`, the axis reaches 0, which is marked in every line and called so. The
    axis ends at `most`: a value beyond it is written after an arrow.

    >>> print(
    ...     chart(
    ...         [("new", Span(0.3, 0.2, 0.4)), ("old", Span(0.0, -0.1, 0.1))],
    ...         zero="the logger",
    ...     )
    ... )
         -0.100                                      0.400
    new            :                  |--------o---------|
    old  |---------o--------|
                   0 is the logger
    """
    ends = [
        min(end, most) for _, span in bars for end in span[1:] if not isnan(end)
    ] + ([0.0] if zero else [])
    if not ends:
        return ""
    low, high = min(ends), max(ends)
    margin, places = (
        max(len(name) for name, _ in bars) + 2,
        digits(Span(low, low, high)) + 1,
    )
    left, right = (f"{end:z.{places}f}" for end in (low, high))
    axis = _Axis(low, high)
    lines = [" " * margin + left + right.rjust(_WIDTH + 1 - len(left))]
    for name, span in bars:
        drawn = "refused" if isnan(span.value) else axis.line(span, zero=bool(zero))
        beyond = f" {span.value:.{places}f}" if span.value > most else ""
        lines.append(f"{name:{margin}}{drawn}{beyond}".rstrip())
    return "\n".join(
        [*lines, *([" " * (margin + axis.at(0.0)) + f"0 is {zero}"] if zero else [])]
    )


class _Axis(NamedTuple):
    """The numbers at the two ends of a line of characters."""

    low: float
    high: float

    def at(self, number: float) -> int:
        """The place of a number."""
        share = (
            (number - self.low) / (self.high - self.low)
            if self.high > self.low
            else 0.5
        )
        return round(min(max(share, 0.0), 1.0) * _WIDTH)

    def line(self, span: Span, *, zero: bool) -> str:
        """An interval |--o--|, with an arrow at the end where the value is beyond
        it."""
        cells, (value, first, last) = [" "] * (_WIDTH + 1), map(self.at, span)
        if zero:
            cells[self.at(0.0)] = ":"
        cells[first : last + 1] = ["|", *"-" * (last - first - 1), "|"][
            : last - first + 1
        ]
        cells[min(max(value, first), last)] = ">" if span.value > self.high else "o"
        return "".join(cells)
