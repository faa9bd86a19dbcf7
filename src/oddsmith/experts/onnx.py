"""OnnxExperts: models as ONNX files, run by onnxruntime."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

import numpy as np
import numpy.typing as npt

from oddsmith.contexts.numbers import numbers
from oddsmith.core.arrays import Array, Bools
from oddsmith.core.decision import Context, State
from oddsmith.core.errors import BadFile, ExpertFailed, InvalidInput, MissingExtra
from oddsmith.core.experts import Experts
from oddsmith.core.names import check_names
from oddsmith.experts.models import ModelExperts
from oddsmith.experts.prediction_clip import CLIP

__all__ = ["OnnxExperts"]


@dataclass(frozen=True, eq=False)
class OnnxExperts(Experts):
    """`ModelExperts` over ONNX files: name: path (or bytes), one input of shape (rows,
    features).

    The last float output of a model is used: probabilities of a classifier (without
    ZipMap), or a regression. `version` is a digest of the models' content, so a saved
    agent rejects a file that has changed.
    """

    files: Mapping[str, str | Path | bytes]
    arms: Sequence[str] | None = None
    arm_features: npt.ArrayLike | None = None
    clip: tuple[float, float] = CLIP
    version: str = field(init=False)
    _bank: ModelExperts = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.files, Mapping):
            raise InvalidInput(
                f"files must be a dict of name: path; got {type(self.files).__name__}"
            )
        check_names("names", self.files)
        models = dict[str, _OnnxModel]()
        digest = sha256()
        for name, file in self.files.items():
            content = _content(name, file)
            digest.update(content)
            models[name] = _OnnxModel(name, content)
        version = digest.hexdigest()[:16]
        bank = ModelExperts(models, self.arms, self.arm_features, self.clip, version)
        object.__setattr__(self, "version", version)
        object.__setattr__(self, "arms", bank.arms)
        object.__setattr__(self, "_bank", bank)

    @property
    def names(self) -> Sequence[str]:
        return self._bank.names

    @property
    def takes_offers(self) -> bool:
        return self._bank.takes_offers

    def split(self) -> tuple[ModelExperts, ...]:
        return self._bank.split()

    def prediction_bounds(self, state: State) -> Array:
        return self._bank.prediction_bounds(state)

    def predict(self, state: State, context: Context) -> Array:
        return self._bank.predict(state, context)

    def advise(
        self, state: State, context: Context, eligible: Bools | None = None
    ) -> tuple[Array, Array]:
        return self._bank.advise(state, context, eligible)


class _OnnxModel:
    """An ONNX session with a `predict` like that of a scikit-learn model, for plain
    numbers."""

    bare = True

    def __init__(self, name: str, content: bytes) -> None:
        try:
            import onnxruntime
        except ImportError as error:
            raise MissingExtra(
                f"OnnxExperts needs the extra oddsmith[models]; {error}"
            ) from error
        options = onnxruntime.SessionOptions()
        # Use one thread, so that sums are the same on every machine. A single decision
        # is too small to be faster with several.
        options.intra_op_num_threads = 1
        try:
            self._session = onnxruntime.InferenceSession(
                content, options, providers=["CPUExecutionProvider"]
            )
        # onnxruntime has its own exception types for broken files.
        except Exception as error:
            first_line = str(error).splitlines()[0]
            raise BadFile(
                f"expert {name!r} must be an ONNX model; {first_line:.200}"
            ) from error
        inputs = self._session.get_inputs()
        outputs = [one for one in self._session.get_outputs() if one.type in _FLOATS]
        if len(inputs) != 1 or not outputs:
            raise BadFile(
                f"expert {name!r} must have one input and a float output (export "
                "classifiers without ZipMap)"
            )
        self._name = name
        self._input = inputs[0]
        self._output = outputs[-1]

    def predict(self, rows: object) -> Array:
        dtype = _FLOATS.get(self._input.type)
        if dtype is None:
            raise ExpertFailed(
                f"expert {self._name!r} must take floats; it takes {self._input.type}"
            )
        inputs = {self._input.name: numbers(rows).astype(dtype)}
        answers = self._session.run([self._output.name], inputs)
        return np.asarray(answers[0], dtype=np.float64)


_FLOATS = {"tensor(float)": np.float32, "tensor(double)": np.float64}


def _content(name: str, file: str | Path | bytes) -> bytes:
    if isinstance(file, bytes):
        return file
    try:
        return Path(file).read_bytes()
    except (OSError, TypeError) as error:
        raise BadFile(
            f"expert {name!r} must be a readable ONNX file; got {file!r:.80}: {error}"
        ) from error
