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
from oddsmith.core.decision import Decision

F = np.array([[0.3, 0.6, 0.2], [0.5, 0.1, 0.4]])
POLICY = od.GeneralizedThompsonSampling(od.GivenExperts(("a", "b")), gamma=0.1)


def test_decide_is_for_one_and_decide_batch_for_many() -> None:
    agent = od.Agent(POLICY, seed=1)
    with pytest.raises(od.InvalidInput, match="decide_batch"):
        agent.decide(np.stack([F] * 6))
    linear = od.Agent(
        od.GeneralizedThompsonSampling(od.LinearExperts(np.eye(3)), gamma=0.1), seed=1
    )
    with pytest.raises(od.InvalidInput, match="one row of propensities for each of 7"):
        linear.decide_batch(np.ones((7, 3)))


@pytest.mark.parametrize("arms", [None, ["x", "y", "z"], ["x", "y"]])
def test_a_refused_decision_uses_up_no_step(arms: list[str] | None) -> None:
    agent, twin = (
        od.Agent(POLICY, seed=1, arms=arms),
        od.Agent(POLICY, seed=1, arms=arms),
    )
    wrong = "no numbers", np.ones((5, 3)), np.stack([F] * 6)
    for context in wrong if arms != ["x", "y"] else (*wrong, F):
        with pytest.raises(od.OddsmithError):
            agent.decide(context)
    for batch in (np.ones((4, 5, 3)), np.ones((4, 3))):
        with pytest.raises(od.OddsmithError):
            agent.decide_batch(batch)
    assert agent.steps == 0
    if arms != ["x", "y"]:
        assert [agent.decide(F) for _ in range(5)] == [twin.decide(F) for _ in range(5)]


def test_a_step_is_given_back_only_while_it_is_the_last() -> None:
    agent = od.Agent(POLICY, seed=1)
    inside, later = threading.Event(), threading.Event()

    class Slow(od.GivenExperts):
        def predict(self, state: Any, context: Any) -> Any:
            if isinstance(context, str):
                inside.set()
                later.wait(20)
                raise od.InvalidInput("no numbers")
            return super().predict(state, context)

    agent.policy = POLICY.with_bank(Slow(("a", "b")))
    refused: list[Exception] = []

    def ask() -> None:
        try:
            agent.decide("slow")
        except od.InvalidInput as error:
            refused.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    assert inside.wait(20)
    assert agent.decide(F).step == 2
    later.set()
    thread.join()
    assert (len(refused), agent.steps, agent.decide(F).step) == (1, 2, 3)


def test_models_that_want_named_columns_get_them() -> None:
    frame = pd.DataFrame(
        {"age": [20, 60, 35, 41] * 10, "city": ["Ulm", "Bern", "Graz", "Ulm"] * 10}
    )
    model = make_pipeline(
        make_column_transformer(
            (OneHotEncoder(handle_unknown="ignore"), ["city"]), remainder="passthrough"
        ),
        LogisticRegression(max_iter=1000),
    ).fit(frame, ["tea", "tea", "ice", "ice"] * 10)
    agent = od.Agent(
        od.GeneralizedThompsonSampling(
            od.ModelExperts({"m": model}, ["tea", "ice"]), gamma=0.1
        ),
        seed=1,
    )
    batch = agent.decide_batch(frame.iloc[:3])
    for row in (0, 1, 2):
        for one in (frame.iloc[row], frame.iloc[row].to_dict()):
            np.testing.assert_allclose(
                agent.decide(one).propensities, batch.propensities[row], atol=1e-12
            )
    agent.learn(Decision.from_json(batch.to_json()), [1, 0, 1])
    assert agent.state.learnt == 3


def test_a_guard_sees_through_a_clip() -> None:
    def fails(context: Any) -> Any:
        raise RuntimeError("no")

    bank = od.Guarded(
        od.experts.Clipped(
            od.FunctionExperts(
                {"fine": lambda c: [0.2, 0.8], "fails": fails}, ["x", "y"]
            )
        )
    )
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


def test_a_decision_about_other_arms_is_refused() -> None:
    one, two = (
        od.Agent(POLICY, seed=1, arms=["a", "b", "c"]),
        od.Agent(POLICY, seed=1, arms=["x", "y", "z"]),
    )
    for decision in (one.decide(F), od.Agent(POLICY, seed=1).decide(F)):
        with pytest.raises(od.InvalidInput, match="must have arms among"):
            two.learn(decision, 1)
    batch = one.decide_batch(np.stack([F, F]))
    with pytest.raises(od.InvalidInput, match="must have arms among"):
        two.learn(batch, [1, 0])
    one.learn(batch.rows(), [1, 0])
    assert one.state.learnt == 2


def test_models_without_a_version_are_saved_with_a_warning(tmp_path: Path) -> None:
    class Constant:
        def predict(self, rows: Any) -> Any:
            return np.full((len(rows), 2), 0.5)

    Constant.__qualname__ = "Constant"
    bank = od.ModelExperts({"m": Constant()}, ["x", "y"])
    agent = od.Agent(od.GeneralizedThompsonSampling(od.stack(bank), gamma=0.1), seed=1)
    with pytest.warns(od.errors.NoVersion, match="no version"):
        agent.save(tmp_path / "agent.npz")


def test_a_mismatch_is_named(tmp_path: Path) -> None:
    od.Agent(POLICY, seed=1).save(tmp_path / "agent.npz")
    other = od.GeneralizedThompsonSampling(od.GivenExperts(("a", "b")), gamma=0.2)
    with pytest.raises(od.BadFile, match=r"policy\.gamma was 0\.1, is 0\.2"):
        od.Agent.load(tmp_path / "agent.npz", other)


def test_rows_of_dicts_are_frames_for_models_whatever_the_order_of_keys() -> None:
    frame = pd.DataFrame({"a": [0.0, 1.0, 2.0] * 5, "b": [5.0, 1.0, 0.0] * 5})
    model = LogisticRegression().fit(frame, ["x", "y", "x"] * 5)
    bank = od.ModelExperts({"m": model}, ["x", "y", "never seen"])
    rows = [{"b": 5.0, "a": 0.0}, {"b": 1.0, "a": 1.0}]
    np.testing.assert_allclose(bank.predict((), rows), bank.predict((), frame.iloc[:2]))
    # an arm the model never saw: probability 0, clipped
    assert (bank.predict((), rows)[..., 2] == 1e-4).all()


def test_an_exception_of_a_model_says_whose_it_is() -> None:
    def broken(context: Any) -> Any:
        raise KeyError("nope")

    with pytest.raises(
        od.errors.ExpertFailed, match=r"^expert 'broken' raised KeyError: 'nope'$"
    ) as caught:
        od.FunctionExperts({"fine": lambda c: [0.1], "broken": broken}, ["x"]).predict(
            (), 0
        )
    assert isinstance(caught.value.__cause__, KeyError)
    with pytest.raises(
        od.errors.ExpertFailed, match=r"^model 'm' raised NotFittedError: .*not fitted"
    ):
        od.ModelExperts({"m": LogisticRegression()}, ["x", "y"]).predict((), [1.0])


def test_learners_that_forget_to_say_so() -> None:
    class Forgetful(od.Experts):
        names = ("a",)

        def predict(self, state: Any, context: Any) -> Any:
            return np.full((1, 2), 0.5)

        def update(self, state: Any, decision: Decision, reward: Any) -> Any:
            return None

    with pytest.raises(od.InvalidInput, match="learns = True"):
        od.GeneralizedThompsonSampling(Forgetful())

    class Silent(Forgetful):
        learns = True

    agent = od.Agent(od.GeneralizedThompsonSampling(Silent(), gamma=0.1), seed=1)
    with pytest.raises(od.InvalidInput, match="must return their state"):
        agent.learn(agent.decide(0), 1)


def test_times_and_missing_values_survive_json() -> None:
    frame = pd.DataFrame(
        {"when": pd.to_datetime(["2026-11-15 08:00", None]), "x": [1.0, 2.0]}
    )
    for row in frame.to_dict("records"):
        decision = od.decide(POLICY, POLICY.init(), F, 0.5)._replace(context=row)
        back = Decision.from_json(decision.to_json()).context
        assert back["x"] == row["x"]
        assert back["when"] == (
            None if row["when"] is pd.NaT else row["when"].to_pydatetime()
        )


def test_long_things_print_shortly() -> None:
    batch = od.Agent(POLICY, seed=1).decide_batch(np.stack([F] * 300))
    assert len(repr(od.Log.of(batch, np.ones(300)))) < 200
    assert repr(od.Agent(POLICY, seed=3)).startswith(
        "Agent(GeneralizedThompsonSampling, seed=3"
    )


def test_long_settings_are_shown_where_they_differ(tmp_path: Path) -> None:
    names = [f"a long name of an expert {i}" for i in range(40)]
    policy = od.GeneralizedThompsonSampling(od.GivenExperts(names), gamma=0.1)
    od.Agent(policy, seed=1).save(tmp_path / "agent.npz")
    more = od.GivenExperts([*names[:39], "a long name of another"])
    longer = od.GivenExperts([*names, "one more"])
    for bank, was, now in (
        (more, "an expert 39", "another"),
        (longer, "39'.", "39', 'one more'"),
    ):
        other = od.GeneralizedThompsonSampling(bank, gamma=0.1)
        with pytest.raises(od.errors.BadFile, match=f"was .*{was}.*, is .*{now}"):
            od.Agent.load(tmp_path / "agent.npz", other)
