"""Edges of the agent: one or many, frames and dicts, guards, files, draws."""

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import oddsmith as od
from oddsmith.decision import Decision

F = np.array([[0.3, 0.6, 0.2], [0.5, 0.1, 0.4]])
POLICY = od.GeneralizedThompsonSampling(od.GivenExperts(("a", "b")), gamma=0.1)


def test_decide_is_for_one_and_decide_batch_for_many() -> None:
    agent = od.Agent(POLICY, seed=1)
    with pytest.raises(od.InvalidInput, match="decide_batch"):
        agent.decide(np.stack([F] * 6))
    linear = od.Agent(od.GeneralizedThompsonSampling(od.LinearExperts(np.eye(3)), gamma=0.1), seed=1)
    with pytest.raises(od.InvalidInput, match="one row of odds for each of 7"):
        linear.decide_batch(np.ones((7, 3)))


def test_models_that_want_named_columns_get_them() -> None:
    frame = pd.DataFrame({"age": [20, 60, 35, 41] * 10, "city": ["Ulm", "Bern", "Graz", "Ulm"] * 10})
    model = make_pipeline(
        make_column_transformer((OneHotEncoder(handle_unknown="ignore"), ["city"]), remainder="passthrough"),
        LogisticRegression(max_iter=1000),
    ).fit(frame, ["tea", "tea", "ice", "ice"] * 10)
    agent = od.Agent(od.GeneralizedThompsonSampling(od.ModelExperts({"m": model}, ["tea", "ice"]), gamma=0.1), seed=1)
    batch = agent.decide_batch(frame.iloc[:3])
    for row in (0, 1, 2):
        for one in (frame.iloc[row], frame.iloc[row].to_dict()):
            np.testing.assert_allclose(agent.decide(one).propensities, batch.propensities[row], atol=1e-12)
    agent.learn(Decision.from_json(batch.to_json()), [1, 0, 1])
    assert agent.state.learnt == 3


def test_a_guard_sees_through_a_clip() -> None:
    def fails(context: Any) -> Any:
        raise RuntimeError("no")

    bank = od.Guarded(od.Clipped(od.FunctionExperts({"fine": lambda c: [0.2, 0.8], "fails": fails}, ["x", "y"])))
    assert np.isnan(bank.predict(bank.init(), 0)).all(axis=1).tolist() == [False, True]


def test_two_agents_may_save_to_one_path_at_once(tmp_path: Path) -> None:
    errors: list[Exception] = []

    def save() -> None:
        try:
            for _ in range(20):
                od.Agent(POLICY, seed=1).save(tmp_path / "agent.npz")
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=save) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert [p.name for p in tmp_path.iterdir()] == ["agent.npz"]


def test_a_step_of_a_batch_re_derives_its_draw() -> None:
    agent = od.Agent(POLICY, seed=7)
    batch = agent.decide_batch(np.stack([F] * 4))
    for row in batch.rows():
        odds = od.Odds(row.propensities)
        assert od.draw(odds, None, od.Uniforms(7)(np.int64(row.step))).arm == row.arm  # type: ignore[arg-type]
