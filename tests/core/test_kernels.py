"""The choice of kernels, and what happens without the extras."""

import subprocess
import sys
from typing import Any

import pytest

import oddsmith as od
from oddsmith.core import kernels


def test_choices() -> None:
    kernels.use("numpy")
    assert kernels.compiled() is None
    kernels.use("numba")
    assert kernels.compiled() is not None
    kernels.use("auto")


def test_without_numba_auto_is_numpy_and_numba_says_what_to_install(
    monkeypatch: Any,
) -> None:
    monkeypatch.setitem(sys.modules, "oddsmith.experts.kernels.twins", None)
    kernels.use("auto")
    assert kernels.compiled() is None
    with pytest.raises(od.errors.MissingExtra, match=r"oddsmith\[fast\]"):
        kernels.use("numba")
    monkeypatch.undo()
    kernels.use("auto")
    assert kernels.compiled() is not None


def test_without_onnxruntime_the_extra_is_named(monkeypatch: Any) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(od.errors.MissingExtra, match=r"oddsmith\[models\]"):
        od.OnnxExperts({"m": b"any"}, ("x",))


def test_the_environment_chooses() -> None:
    code = "from oddsmith.core import kernels; print(kernels.compiled())"
    run = subprocess.run(
        [sys.executable, "-c", code],
        env={"ODDSMITH_KERNELS": "numpy", "PATH": ""},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert run.stdout.strip() == "None"


def test_warnings_and_errors_have_one_root_each() -> None:
    assert issubclass(od.errors.NoExploration, od.errors.OddsmithWarning)
    assert issubclass(od.errors.MissingExtra, od.OddsmithError)
    assert issubclass(od.errors.OddsmithWarning, UserWarning)
