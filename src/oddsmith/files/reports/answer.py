"""Summary before the tables: a sentence about a difference, and a text chart of
intervals."""

from collections.abc import Sequence
from math import floor, inf, isnan, log10
from typing import NamedTuple

__all__ = ["Span", "chart", "compared", "digits", "interval"]

_WIDTH = 48  # characters between both ends of the axis
_FAR = 5  # if the far end is beyond this multiple of the near end, shorten the axis


class Span(NamedTuple):
    """A number with the ends of its interval."""

    value: float
    low: float
    high: float


def digits(span: Span) -> int:
    """Return the number of decimals for an interval: two significant digits of its half
    width, but enough that no end other than 0 is printed as 0.

    If one end is far away, the distance of the near end is used as the half width.

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
    # A still smaller distance is a rounding error.
    if reach / _FAR**3 < near < reach / _FAR:
        reach = near
    places = max(0, 1 - floor(log10(reach))) if reach > 0 else 4
    for end in (span.low, span.high):
        while places < 8 and end != 0 and float(f"{end:.{places}f}") == 0:
            places += 1
    return places


def interval(span: Span) -> str:
    """Return the ends of an interval as text, with the number of decimals from
    `digits`.

    >>> interval(Span(0.028, 0.0181, 0.0379))
    '[0.0181, 0.0379]'
    """
    places = digits(span)
    return f"[{span.low:z.{places}f}, {span.high:z.{places}f}]"


def compared(
    name: str, other: str, span: Span, how: str, *, unit: str = "per decision"
) -> str:
    """Return a sentence, without its full stop, about the gain of `name` over `other`;
    `how` names the method.

    If the interval is above 0, the sentence says "more"; if it is below 0, it says
    "less" with the ends exchanged; otherwise it says that no difference is shown.

    >>> compared(
    ...     "new.toml",
    ...     "the logging policy",
    ...     Span(0.028, 0.018, 0.038),
    ...     "95 % normal interval, dr",
    ... )
    'new.toml earns 0.028 more per decision than the logging policy, [0.018, 0.038] (95
    % normal interval, dr)'
    """
    word = "less" if span.value < 0 else "more"
    size = f"{abs(span.value):.{digits(span)}f} {word} {unit}"
    if span.low <= 0 <= span.high:
        return (
            f"No difference is shown between {name} and {other}: {size}, "
            f"{interval(span)} ({how})"
        )
    if span.high < 0:
        span = Span(-span.value, -span.high, -span.low)
    return f"{name} earns {size} than {other}, {interval(span)} ({how})"


def chart(
    bars: Sequence[tuple[str, Span]], *, zero: str = "", most: float = inf
) -> str:
    """Draw intervals in a terminal, one per line. NaN is written as refused.

    With `zero`, the axis includes 0, which is marked in every line and labelled with
    this text. The axis ends at `most`; a value beyond it is written after an arrow.

    >>> print(
    ...     chart(
    ...         [("new", Span(0.3, 0.2, 0.4)), ("old", Span(0.0, -0.1, 0.1))],
    ...         zero="the logging policy",
    ...     )
    ... )
         -0.100                                      0.400
    new            :                  |--------o---------|
    old  |---------o--------|
                   0 is the logging policy
    """
    ends = [0.0] if zero else []
    for _, span in bars:
        ends += [min(end, most) for end in (span.low, span.high) if not isnan(end)]
    if not ends:
        return ""
    axis = _Axis(min(ends), max(ends))
    places = digits(Span(axis.low, axis.low, axis.high)) + 1
    left = f"{axis.low:z.{places}f}"
    right = f"{axis.high:z.{places}f}"
    margin = max(len(name) for name, _ in bars) + 2
    lines = [" " * margin + left + right.rjust(_WIDTH + 1 - len(left))]
    for name, span in bars:
        drawn = "refused" if isnan(span.value) else axis.line(span, zero=bool(zero))
        beyond = f" {span.value:.{places}f}" if span.value > most else ""
        lines.append(f"{name:{margin}}{drawn}{beyond}".rstrip())
    if zero:
        lines.append(" " * (margin + axis.at(0.0)) + f"0 is {zero}")
    return "\n".join(lines)


class _Axis(NamedTuple):
    """The range of numbers that a line of characters represents."""

    low: float
    high: float

    def at(self, number: float) -> int:
        """Return the position of a number."""
        share = 0.5
        if self.high > self.low:
            share = (number - self.low) / (self.high - self.low)
        return round(min(max(share, 0.0), 1.0) * _WIDTH)

    def line(self, span: Span, *, zero: bool) -> str:
        """Return an interval as |--o--|, with an arrow at the end if the value is
        beyond it."""
        cells = [" "] * (_WIDTH + 1)
        if zero:
            cells[self.at(0.0)] = ":"
        first = self.at(span.low)
        last = self.at(span.high)
        cells[first : last + 1] = "-" * (last - first + 1)
        cells[last] = "|"
        cells[first] = "|"
        value = min(max(self.at(span.value), first), last)
        cells[value] = ">" if span.value > self.high else "o"
        return "".join(cells)
