"""The experts of a policy file: ONNX models, linear weights, results of a factory, and
learners."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np

from oddsmith.core.arrays import finite
from oddsmith.core.errors import BadFile, ExpertFailed, InvalidInput, OddsmithError
from oddsmith.core.experts import Experts, check_bank
from oddsmith.core.names import check_names
from oddsmith.core.offer import Offer
from oddsmith.experts.clip import Clipped
from oddsmith.experts.encoder import Encoded
from oddsmith.experts.guard.process import Isolated
from oddsmith.experts.linear import LinearExperts
from oddsmith.experts.onnx import OnnxExperts
from oddsmith.experts.prediction_clip import CLIP
from oddsmith.files.build import Bank, BuildContext, bank_of
from oddsmith.files.factories import from_factory
from oddsmith.files.keys import Keys
from oddsmith.files.npz import NOT_NPZ, read_arrays
from oddsmith.policies.auto import SIZES, auto

__all__ = ["read_bank"]

_LINKS = ("logistic", "identity", "probit")
_LINEAR_FIXED = (
    "has weights (N, d) for arms that are passed in the call, one row for all arms; "
    "got (N, K, d)"
)
_FIXED = "made experts that do not support arms that are passed in the call"


def read_bank(name: str, keys: Keys, build: BuildContext) -> Bank:
    """Return the experts that a table of a policy file describes."""
    kind = keys.text("kind", choices=_KINDS)
    try:
        if keys.flag("isolate"):
            return _isolated(name, keys, build)
        bank = _KINDS[kind](name, keys, build)
        if build.arms is None and not bank.experts.takes_offers:
            reason = _LINEAR_FIXED if kind == "linear" else _FIXED
            raise InvalidInput(
                f"kind {kind} {reason}; give the file its arms, or leave these "
                "experts out"
            )
    except OddsmithError as error:
        raise keys.blame(error) from error
    keys.close()
    return bank


def _onnx(name: str, keys: Keys, build: BuildContext) -> Bank:
    model = _content(keys, build.folder)
    rows = keys.get("arm_features", None)
    bank: Experts = OnnxExperts({name: model}, build.arms, rows, _clip(keys))
    if build.schema is not None or build.arm_schema is not None:
        bank = _with_schema(bank, build, rows_per_arm=rows == "context")
    return bank_of(bank)


def _linear(name: str, keys: Keys, build: BuildContext) -> Bank:
    arrays = _arrays(keys, build.folder)
    weights = arrays["weights"]
    n = len(weights) if weights.ndim else 0
    names: Any = [name]
    if "names" in arrays:
        names = arrays["names"].tolist()
    elif n != 1:
        names = [f"{name} {i}" for i in range(n)]
    names = check_names("names", names, n=n)
    link: Any = keys.text("link", "logistic", choices=_LINKS)
    bank = LinearExperts(weights, link, names, build.arms)
    clipped: Experts = Clipped(bank, *_clip(keys))
    if build.schema is not None or build.arm_schema is not None:
        rows_per_arm = bank.weights.ndim == 2
        clipped = _with_schema(clipped, build, rows_per_arm=rows_per_arm)
    return bank_of(clipped)


def _python(_: str, keys: Keys, build: BuildContext) -> Bank:
    bank = from_factory(build, keys.text("factory"), keys.get("args", None))
    check_bank("factory", bank)
    check_names("names", bank.names)
    return bank_of(bank)


def _auto(_: str, keys: Keys, build: BuildContext) -> Bank:
    policy = auto(
        build.arms,
        schema=build.schema,
        arm_schema=build.arm_schema,
        size=cast(Any, keys.text("size", "normal", choices=SIZES)),
        rows_per_arm=keys.flag("rows_per_arm"),
        share=1e-4 * build.drifts,
    )
    return Bank(policy.experts, policy.prior)


def _isolated(name: str, keys: Keys, build: BuildContext) -> Bank:
    """Return a bank that runs in a separate process. This process reads the table
    itself."""
    kind = keys.values["kind"]
    if kind not in ("python", "onnx"):
        raise InvalidInput(
            f"isolate must be in a table of kind python or onnx; got kind {kind}, "
            "which runs only code of oddsmith"
        )
    table = keys.values | {"isolate": False}
    bank = Isolated(
        name,
        table,
        build.arms,
        build.schema,
        build.folder,
        build.timeout_ms,
        build.arm_schema,
    )
    return bank_of(bank)


_KINDS: dict[str, Callable[[str, Keys, BuildContext], Bank]] = {
    "onnx": _onnx,
    "linear": _linear,
    "python": _python,
    "auto": _auto,
}


def _with_schema(bank: Experts, build: BuildContext, *, rows_per_arm: bool) -> Experts:
    """Return the bank with the schema of contexts, of features, or both in front of it.
    The bank makes one prediction, so that an unsuitable model fails while the file is
    read."""
    schemas = [
        schema for schema in (build.schema, build.arm_schema) if schema is not None
    ]
    if build.arms is None and not bank.takes_offers:
        return bank
    question: Any = None
    width = sum(schema.width for schema in schemas)
    if build.arms is not None:
        question = np.zeros((len(build.arms), width) if rows_per_arm else (width,))
    elif len(schemas) == 2:
        # With only one schema, the number of columns is not known, because numbers
        # without a schema may follow.
        question = Offer(None, ("any",), {"any": np.zeros(width)})
    try:
        if question is not None:
            bank.predict((), question)
    except Exception as error:  # onnxruntime has its own exception types
        reason = str(error).splitlines()[0]
        whose = "schema's" if len(schemas) == 1 else "schemas'"
        raise ExpertFailed(
            f"file must be a model of {width} numbers (the {whose}); {reason:.200}"
        ) from error
    return Encoded(bank, build.schema, build.arm_schema)


def _clip(keys: Keys) -> tuple[float, float]:
    clip = keys.get("clip", list(CLIP))
    name = keys.named("clip")
    ends = finite(name, clip)
    if ends.shape == (2,):
        low, high = ends.tolist()
        if 0 <= low < high <= 1:
            return low, high
    raise InvalidInput(
        f"{name} must be [low, high] with 0 <= low < high <= 1; got {clip!r:.60}"
    )


def _content(keys: Keys, folder: Path) -> bytes:
    """Return the bytes of the file that the key `file` names."""
    path = folder / keys.text("file")
    try:
        return path.read_bytes()
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise BadFile(
            f"{keys.named('file')} must be a readable file; got {str(path)!r}, {why}"
        ) from error


def _arrays(keys: Keys, folder: Path) -> dict[str, Any]:
    """Return the arrays `weights` and optionally `names` of an .npz file."""
    content = _content(keys, folder)
    what = keys.named("file")
    try:
        arrays = read_arrays(content)
    except NOT_NPZ as error:
        raise BadFile(
            f"{what} must be an .npz file of numbers and names; {error!s:.120}"
        ) from error
    if "weights" not in arrays or not set(arrays) <= {"weights", "names"}:
        raise BadFile(
            f"{what} must contain the arrays weights and, optionally, names; got "
            f"{', '.join(arrays) or 'none'}"
        )
    return arrays
