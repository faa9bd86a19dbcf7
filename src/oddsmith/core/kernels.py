"""Selection of the compiled kernels: numba if it is installed, else numpy.

The compiled functions (`twins`, `best_arm`, `finite`) select the same arms from the
same uniform numbers as the numpy functions that they replace. numba is imported on
first use, never by `import oddsmith`. `ODDSMITH_KERNELS=numpy` (or `use("numpy")`)
disables the compiled functions; `numba` requires them; `auto`, the default, uses numba
if it is installed.
"""

import importlib
import os
from types import ModuleType

from oddsmith.core.errors import MissingExtra
from oddsmith.core.names import check_choice

__all__ = ["LOG", "SQUARE", "choice", "compiled", "name", "use"]

LOG = 0
"""Number of the log loss in compiled kernels."""
SQUARE = 1
"""Number of the square loss in compiled kernels."""

_CHOICES = ("auto", "numba", "numpy")
_chosen: str | None = None
_twins: ModuleType | None = None


def compiled() -> ModuleType | None:
    """Return the module of compiled kernels, or None if numpy is in use.

    >>> use("numpy"); compiled() is None
    True
    >>> use("auto")
    """
    if _chosen is None:
        use(os.environ.get("ODDSMITH_KERNELS", "auto"))
    return _twins


def choice() -> str:
    """Return the current choice: "auto", "numba" or "numpy"."""
    compiled()
    return _chosen or "auto"


def name() -> str:
    """Return the kernels in use: "numba" or "numpy"."""
    if compiled() is None:
        return "numpy"
    return "numba"


def use(choice: str) -> None:
    """Choose "numpy", "numba", or "auto" (numba if it is installed)."""
    global _chosen, _twins
    check_choice("kernels", choice, _CHOICES)
    twins = None
    if choice != "numpy":
        try:
            twins = importlib.import_module("oddsmith.experts.kernels.twins")
        # numba is not installed, or cannot write to its cache folder.
        except (ImportError, RuntimeError) as error:
            if choice == "numba":
                raise MissingExtra(
                    f"numba kernels need the extra oddsmith[fast]; {error}"
                ) from error
    _twins, _chosen = twins, choice
