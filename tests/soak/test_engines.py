"""The same sweep and fit on Ray and Spark; skipped by name where they, or a Java
runtime, are absent."""

import importlib.util
import shutil
import warnings
from pathlib import Path

import numpy as np
import pytest

import oddsmith as od
from lab.sweeping import cells
from logs.fit_logs import files, policy
from oddsmith.lab import sweep

NEEDS = {"ray": ("ray",), "spark": ("pyspark", "joblibspark")}


def skip_absent(engine: str) -> None:
    if absent := [
        name for name in NEEDS[engine] if importlib.util.find_spec(name) is None
    ]:
        pytest.skip(f"engine {engine}: {absent[0]} is not installed")
    if engine == "spark" and shutil.which("java") is None:
        pytest.skip("engine spark: no Java runtime (java) on this machine")


@pytest.mark.soak
@pytest.mark.parametrize("engine", ["ray", "spark"])
def test_tables_are_equal(tmp_path: Path, engine: str) -> None:
    skip_absent(engine)
    alone = sweep(cells(), tmp_path / "serial", engine="serial")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # those of the engines themselves
        assert sweep(cells(), tmp_path / engine, engine=engine, workers=2).equals(alone)


@pytest.mark.soak
@pytest.mark.parametrize("engine", ["ray", "spark"])
def test_posteriors_are_equal(tmp_path: Path, engine: str) -> None:
    skip_absent(engine)
    paths, _ = files(tmp_path)
    alone = od.fit_log(policy(), paths)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        there = od.fit_log(policy(), paths, engine=engine, workers=2)
    np.testing.assert_allclose(
        there.state.log_weights, alone.state.log_weights, atol=1e-9
    )
    assert str(there) == str(alone)
