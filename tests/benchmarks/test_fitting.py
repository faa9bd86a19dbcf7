"""The two loops of the benchmark of fitting do the same arithmetic."""

from pathlib import Path

import numpy as np

from benchmarks import fitting


def test_fit_log_and_the_bare_loop_agree(tmp_path: Path) -> None:
    fitting.generate(tmp_path / "log.parquet", 3_000)
    found = [loop(tmp_path / "log.parquet") for loop in fitting.LOOPS.values()]
    np.testing.assert_allclose(found[0], found[1], atol=1e-9, rtol=0)
    assert found[0].min() < -10  # so that the agreement says something
