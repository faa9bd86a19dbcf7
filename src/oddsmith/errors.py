"""The exceptions of oddsmith, each one clear sentence: what, got, allowed.

OddsmithError
├── InvalidInput (ValueError)       an argument has the wrong shape, range, sum, type or name
│   ├── NoEligibleArm               a decision was asked for with nothing to choose from
│   ├── Infeasible                  floors and caps that no distribution can meet
│   └── OutOfDomain                 a loss is not a number where an expert did predict
├── AllExpertsRefuted               a reward has probability zero under every awake expert
├── ExpertFailed                    an expert bank returned something that is not (…, N, K)
├── OrderMatters                    merging states whose posterior is defined by the order of events
├── TooLarge (MemoryError)          a cover that does not fit, with the one that would
├── NotPortable (TypeError)         a policy that cannot be named in a file (lambda, local function)
├── BadFile (ValueError)            a file that is not what it should be, or of another policy
└── MissingExtra (ImportError)      an optional package is needed; says which extra brings it

OddsmithWarning (UserWarning)
└── NoExploration                   gamma is 0: the log will not support off-policy evaluation
"""

__all__ = [
    "AllExpertsRefuted",
    "BadFile",
    "ExpertFailed",
    "Infeasible",
    "InvalidInput",
    "MissingExtra",
    "NoEligibleArm",
    "NoExploration",
    "NoVersion",
    "NotPortable",
    "OddsmithError",
    "OddsmithWarning",
    "OrderMatters",
    "OutOfDomain",
    "TooLarge",
]


class OddsmithError(Exception):
    """Base of everything oddsmith raises on purpose."""


class InvalidInput(OddsmithError, ValueError):
    """An argument has the wrong shape, range, sum, type or name."""


class NoEligibleArm(InvalidInput):
    """A decision was asked for with nothing to choose from."""


class Infeasible(InvalidInput):
    """Floors and caps that no distribution over the eligible arms can meet."""


class OutOfDomain(InvalidInput):
    """A loss is not a number where an expert did predict."""


class AllExpertsRefuted(OddsmithError):
    """A reward has probability zero under every awake expert that has weight."""


class ExpertFailed(OddsmithError):
    """An expert bank returned something that is not (…, N, K) numbers."""


class OrderMatters(OddsmithError):
    """States cannot be merged: their posterior is defined by the order of events."""


class TooLarge(OddsmithError, MemoryError):
    """A cover that does not fit into the memory it was given."""


class NotPortable(OddsmithError, TypeError):
    """Part of a policy has no name that means the same in another process."""


class BadFile(OddsmithError, ValueError):
    """A file is not what it should be, or belongs to another policy."""


class MissingExtra(OddsmithError, ImportError):
    """An optional package is needed."""


class OddsmithWarning(UserWarning):
    """Base of oddsmith's warnings."""


class NoExploration(OddsmithWarning):
    """The policy has no floor under its odds, so its log will not support off-policy evaluation."""


class NoVersion(OddsmithWarning):
    """Models without a version are saved by name and class only, so other models of that name would be accepted."""
