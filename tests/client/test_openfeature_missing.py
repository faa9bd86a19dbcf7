"""The provider for OpenFeature where its SDK is not installed."""

import importlib
import sys

import pytest

import oddsmith as od
from oddsmith.client import openfeature


def test_without_the_sdk_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (
        "openfeature",
        "openfeature.provider",
        "openfeature.exception",
        "openfeature.flag_evaluation",
    ):
        monkeypatch.setitem(sys.modules, module, None)
    alone = importlib.reload(openfeature)
    try:
        with pytest.raises(
            od.errors.MissingExtra,
            match=r"OddsmithProvider needs the extra oddsmith\[openfeature\]",
        ):
            alone.OddsmithProvider("http://127.0.0.1:8000")
    finally:
        monkeypatch.undo()
        importlib.reload(openfeature)
