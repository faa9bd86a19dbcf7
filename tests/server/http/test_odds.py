"""Arms are served with the odds that are logged (C1 of the test plan): a chi-square
test, and one that must fail."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from oddsmith.core.draw import Uniforms
from server.offering import ARMS
from server.served import here, place

ERROR = 1e-6  # the chance of a false alarm per seed


def p_value(answers: list[Any]) -> float:
    """The chi-square test of all arms at once: X = Σ (served - odds) has covariance Σ
    (diag p - p pᵀ)."""
    odds = np.array([[answer["odds"][arm] for arm in ARMS] for answer in answers])
    served = np.array(
        [[arm == answer["arm"] for arm in ARMS] for answer in answers], dtype=float
    )
    excess = (served - odds).sum(axis=0)
    covariance = np.diag(odds.sum(axis=0)) - odds.T @ odds
    statistic = float(excess @ np.linalg.pinv(covariance) @ excess)
    return float(stats.chi2.sf(statistic, len(ARMS) - 1))


def served(folder: Path, seed: int, decisions: int) -> list[Any]:
    """Decisions in batches; rewards in between move the posterior."""
    folder.mkdir()
    path = place(folder)
    path.write_text(path.read_text().replace("seed = 5", f"seed = {seed}"))
    rng = np.random.default_rng(seed)
    answers: list[Any] = []
    with here(path) as service:
        while len(answers) < decisions:
            contexts = rng.normal(size=(500, 2)).round(3).tolist()
            batch = [{"context": context} for context in contexts]
            found = service.post("decide/batch", {"decisions": batch})["results"]
            rewards = [
                {"id": one["id"], "reward": int(one["arm"] == "tech")}
                for one in found[:20]
            ]
            service.post("reward/batch", {"rewards": rewards})
            answers += found
        assert len({answer["seen"] for answer in answers}) > 1
    return answers


@pytest.mark.usefixtures("arms")
def test_arms_are_served_with_their_odds(tmp_path: Path) -> None:
    assert p_value(served(tmp_path / "one", 11, 5_000)) > ERROR


@pytest.fixture
def crooked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Uniform numbers that are a little too small."""
    honest = Uniforms.__call__
    monkeypatch.setattr(Uniforms, "__call__", lambda self, id: honest(self, id) * 0.9)


def test_crooked_draws_are_found(tmp_path: Path, crooked: None) -> None:
    """The test has teeth."""
    assert p_value(served(tmp_path / "one", 11, 5_000)) < ERROR


@pytest.mark.usefixtures("arms")
@pytest.mark.soak
def test_a_million_arms_are_served_with_their_odds(tmp_path: Path) -> None:
    values = [p_value(served(tmp_path / str(seed), seed, 50_000)) for seed in range(20)]
    print("p-values", sorted(round(value, 4) for value in values))
    assert min(values) > ERROR
    assert stats.kstest(values, "uniform").pvalue > ERROR
