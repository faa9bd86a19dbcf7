"""Exceptions of oddsmith. Each message states what is wrong, what was given and what is
allowed.

OddsmithError
├── InvalidInput (ValueError)       an argument has the wrong shape, range, sum, type or name
│   ├── NoEligibleArm               no arm of a call is eligible
│   ├── Infeasible                  no distribution over the eligible arms satisfies floors and caps
│   ├── BrokenLog                   a row of a log breaks a rule; has the column and the row
│   ├── NoSuchRow (IndexError)      a log has no row of that number
│   ├── Conflict                    an event was stored before with another value
│   └── OutOfDomain                 the loss of a prediction is not a number
├── AllExpertsRefuted               a reward has probability 0 according to all experts that predicted
├── ExpertFailed                    an expert bank returned something that is not (…, N, K)
├── OrderMatters                    states cannot be merged, because the posterior depends on the order
├── TooLarge (MemoryError)          a cover is too large for memory; the message names one that is not
├── NotPortable (TypeError)         a policy uses code that a file cannot name (lambda, local function)
├── StoreFailed                     events could not be written or read
├── ServiceError                    a decision service refused a call, failed or did not answer; has the HTTP status
├── BadFile (ValueError)            a file has the wrong content, or belongs to another policy
└── MissingExtra (ImportError)      an optional package is needed; the message names the extra that installs it

OddsmithWarning (UserWarning)
└── NoExploration                   some propensities may be 0: the log will not support off-policy evaluation
"""

import traceback
from importlib import import_module
from pathlib import PurePath
from types import ModuleType

__all__ = [
    "AllExpertsRefuted",
    "BadFile",
    "BrokenLog",
    "Conflict",
    "ExpertFailed",
    "Infeasible",
    "InvalidInput",
    "MissingExtra",
    "NoEligibleArm",
    "NoExploration",
    "NoSuchRow",
    "NoVersion",
    "NotPortable",
    "OddsmithError",
    "OddsmithWarning",
    "OrderMatters",
    "OutOfDomain",
    "ServiceError",
    "StoreFailed",
    "TooLarge",
    "import_extra",
    "place_of",
]


class OddsmithError(Exception):
    """Base class of all exceptions that oddsmith raises on purpose."""


class InvalidInput(OddsmithError, ValueError):
    """An argument has the wrong shape, range, sum, type or name."""


class NoEligibleArm(InvalidInput):
    """A decision has no eligible arm."""


class Infeasible(InvalidInput):
    """No distribution over the eligible arms satisfies the floors and caps."""


class BrokenLog(InvalidInput):
    """A row of a log is invalid.

    >>> print(
    ...     BrokenLog("reward", 7, "must be in [0, 1]; got 3").shift(100, "march.csv")
    ... )
    march.csv: column reward, row 107: must be in [0, 1]; got 3
    """

    def __init__(self, column: str, row: int, rule: str, source: str = "") -> None:
        self.column = column
        self.row = row
        self.rule = rule
        self.source = source
        prefix = ""
        if source:
            prefix = f"{source}: "
        super().__init__(f"{prefix}column {column}, row {row}: {rule}")

    def __reduce__(self) -> "tuple[type[BrokenLog], tuple[str, int, str, str]]":
        # needed to pickle the error, so that it can return from a worker process
        return BrokenLog, (self.column, self.row, self.rule, self.source)

    def shift(self, by: int, source: str) -> "BrokenLog":
        """Return the same error with the row number in the whole file, after reading it
        in pieces."""
        return BrokenLog(self.column, self.row + by, self.rule, source)


class NoSuchRow(InvalidInput, IndexError):
    """The log has no row with this number."""


class Conflict(InvalidInput):
    """An event is already stored with another value. The stored value remains."""


class OutOfDomain(InvalidInput):
    """The loss of an expert's prediction is not a number."""


class AllExpertsRefuted(OddsmithError):
    """The reward has probability 0 under every expert that has weight and made a
    prediction."""


class ExpertFailed(OddsmithError):
    """An expert bank returned something other than numbers (…, N, K). A guard counts
    the failure by its `kind`.

    >>> ExpertFailed("expert 'net' must give 3 numbers; got 2", kind="shape").kind
    'shape'
    """

    def __init__(self, message: str, *, kind: str = "raised") -> None:
        self.kind = kind
        super().__init__(message)


class OrderMatters(OddsmithError):
    """States cannot be merged, because the posterior depends on the order of events."""


class TooLarge(OddsmithError, MemoryError):
    """A cover does not fit into the given memory."""


class NotPortable(OddsmithError, TypeError):
    """A part of the policy has no name that is valid in another process."""


class BadFile(OddsmithError, ValueError):
    """A file is invalid, or belongs to another policy."""


class StoreFailed(OddsmithError):
    """Events could not be read or written. Calls without an answer may be repeated."""


class ServiceError(OddsmithError):
    """A decision service returned an error or did not answer.

    `status` is the HTTP status, 0 if no answer came; `code` is the service's code for
    the error.
    """

    def __init__(self, sentence: str, status: int = 0, code: str = "") -> None:
        self.sentence = sentence
        self.status = status
        self.code = code
        super().__init__(sentence)

    def __reduce__(self) -> "tuple[type[ServiceError], tuple[str, int, str]]":
        # needed to pickle the error, so that it can return from a worker process
        return ServiceError, (self.sentence, self.status, self.code)


class MissingExtra(OddsmithError, ImportError):
    """An optional package is not installed."""


def import_extra(module: str, needed: str, extra: str) -> ModuleType:
    """Import a module of an optional package. If it is missing, raise MissingExtra with
    the message `needed` "the extra oddsmith[…]".

    >>> import_extra("json.decoder", "answers need", "client").__name__
    'json.decoder'
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise MissingExtra(f"{needed} the extra oddsmith[{extra}]; {error}") from error


class OddsmithWarning(UserWarning):
    """Base class of oddsmith's warnings."""


class NoExploration(OddsmithWarning):
    """The propensities have no positive lower bound, so the log will not support
    off-policy evaluation."""


class NoVersion(OddsmithWarning):
    """Models without a version are saved by name and class only, so a different model
    of the same name would be accepted."""


def place_of(error: BaseException, *, frames: int = 1) -> str:
    """Return the type of an exception and the innermost frames of its traceback,
    without its message.

    The message may contain the data that caused the exception, which must not appear in
    a log.

    >>> try:
    ...     {}["a context"]
    ... except KeyError as error:
    ...     print(place_of(error))
    KeyError at <doctest oddsmith.core.errors.place_of[0]>:2 in <module>
    """
    places = []
    for frame, line in traceback.walk_tb(error.__traceback__):
        code = frame.f_code
        places.append(f"{PurePath(code.co_filename).name}:{line} in {code.co_name}")
    places.reverse()
    kind = type(error).__name__
    if not places[:frames]:
        return kind
    return f"{kind} at {' < '.join(places[:frames])}"
