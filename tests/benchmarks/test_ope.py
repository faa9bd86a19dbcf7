"""The benchmark with real ground truth, on a bundled set: errors are exact, and DR is
not far from the best."""

from pathlib import Path

import numpy as np
from benchmarks.known_values import SETTINGS
from benchmarks.ope import ESTIMATORS, errors, report
from sklearn.datasets import load_digits


def test_errors_on_digits(tmp_path: Path) -> None:
    found = load_digits()
    np.savez(tmp_path / "digits.npz", X=found.data.astype(np.float32), y=found.target)
    records = errors(tmp_path / "digits.npz", draws=1)
    assert len(records) == 6  # loggers times targets
    means = {name: np.mean([r[name] for r in records]) for name in ESTIMATORS}
    assert means["dr"] < means["dm"]
    assert means["dr"] < 0.1
    assert all(r["ess"] > 50 for r in records)


def test_it_says_what_is_missing(tmp_path: Path) -> None:
    assert "Skipped: " in report(tmp_path, tmp_path)


def test_the_exact_deviation_is_that_of_many_draws() -> None:
    """200,000 rows: the variance's own error is about 0.5 %."""
    setting = SETTINGS[2]._replace(rows=200_000)
    log, contexts = setting.logs(1, 0)
    assert log.propensity is not None
    terms = setting.target[contexts, log.arm] / log.propensity * log.reward
    assert abs(terms.std() / setting.deviation(modelled=False) - 1) < 0.03
