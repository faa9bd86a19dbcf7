"""Agents: naming, batches, saving, threads."""

import threading
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import oddsmith as od

RNG = np.random.default_rng(0)
WEIGHTS = RNG.normal(size=(16, 5))


def make(seed: int = 7, **settings: Any) -> od.Agent:
    return od.Agent(
        od.GeneralizedThompsonSampling(
            od.LinearExperts(WEIGHTS), **({"gamma": 0.05} | settings)
        ),
        seed=seed,
    )


def test_the_first_page_of_the_readme() -> None:
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import LogisticRegression

    x, y = RNG.normal(size=(300, 4)), RNG.choice(["politics", "sports", "tech"], 300)
    models = {
        "logistic": LogisticRegression().fit(x, y),
        "forest": RandomForestClassifier(10, random_state=0).fit(x, y),
    }
    experts = od.ModelExperts(models, arms=["sports", "politics", "tech"])
    agent = od.Agent(od.GeneralizedThompsonSampling(experts, gamma=0.02), seed=7)
    decision = agent.decide(x[0])
    agent.learn(decision, reward=1)
    assert decision.arm in ("sports", "politics", "tech")
    assert decision.propensity == decision.propensities[decision.index]
    assert f"arm={decision.arm!r}" in repr(decision)
    assert list(agent.posterior()) == ["logistic", "forest"]
    assert sum(agent.posterior().values()) == pytest.approx(1)


def test_a_batch_draws_what_single_decisions_draw(any_kernels: str) -> None:
    contexts = RNG.normal(size=(40, 3, 5))
    one, many = make(), make()
    singles = [one.decide(context) for context in contexts]
    batch = many.decide_batch(contexts)
    assert batch.arm.tolist() == [d.arm for d in singles]
    assert batch.step.tolist() == [d.step for d in singles]
    np.testing.assert_allclose(
        batch.propensity, [d.propensity for d in singles], atol=1e-14
    )
    rewards = RNG.random(40)
    for decision, reward in zip(singles, rewards, strict=True):
        one.learn(decision, reward)
    many.learn(batch, rewards)
    np.testing.assert_allclose(
        one.state.log_weights, many.state.log_weights, atol=1e-12
    )


def test_batches_from_frames_and_lists() -> None:
    frame = pd.DataFrame({"age": [20, 60, 35], "news": [1.0, 0.0, 1.0]})

    def by_age(row: Any, arm: str) -> float:
        return float(row["age"] / 100 if arm == "old" else row["news"])

    agent = od.Agent(
        od.GeneralizedThompsonSampling(
            od.FunctionExperts({"f": by_age}, ("old", "new")), gamma=0.1
        ),
        seed=1,
    )
    from_frame = agent.decide_batch(frame)
    from_list = agent.decide_batch(frame.to_dict("records"))
    np.testing.assert_array_equal(from_frame.propensities, from_list.propensities)
    assert from_frame.propensities.argmax(axis=1).tolist() == [1, 0, 1]
    assert od.Decision.from_json(from_frame.rows()[1].to_json()).context == {
        "age": 60.0,
        "news": 0.0,
    }


def test_names_of_arms_and_eligible_arms() -> None:
    agent = od.Agent(make().policy, seed=1, arms=["a", "b", "c"])
    for _ in range(20):
        decision = agent.decide(RNG.normal(size=(3, 5)), eligible=["c", "a"])
        assert decision.arm in ("a", "c")
        assert decision.propensities[1] == 0
        agent.learn(decision, 1)
    assert agent.best(RNG.normal(size=(3, 5)), eligible="b") == "b"
    mask = np.array([True, False, False])
    assert agent.decide(RNG.normal(size=(3, 5)), eligible=mask).arm == "a"
    rows = agent.decide_batch(
        RNG.normal(size=(2, 3, 5)),
        eligible=np.array([[True, False, False], [False, False, True]]),
    )
    assert rows.arm.tolist() == ["a", "c"]
    assert str(agent.explain(RNG.normal(size=(3, 5)))).split()[4:7] == ["a", "b", "c"]


def test_best_does_not_explore_or_count() -> None:
    agent = make(gamma=0.9)
    context = RNG.normal(size=(3, 5))
    before = agent.steps
    assert {agent.best(context) for _ in range(20)} == {
        int(agent.policy.odds(agent.state, context).propensities.argmax())
    }
    assert agent.steps == before
    assert agent.best(np.stack([context, context])).shape == (2,)


def test_after_save_and_load_the_next_1000_decisions_are_identical(
    tmp_path: Path, any_kernels: str
) -> None:
    contexts, path = RNG.normal(size=(1500, 4, 5)), tmp_path / "agent.npz"
    agent = od.Agent(make(share=0.001).policy, seed=21, arms=["a", "b", "c", "d"])
    for context in contexts[:500]:
        agent.learn(agent.decide(context), float(RNG.random()))
    agent.save(path)
    loaded = od.Agent.load(path, make(share=0.001).policy)
    for context in contexts[500:]:
        ours, theirs = agent.decide(context), loaded.decide(context)
        assert ours.to_json() == theirs.to_json()
        reward = float(RNG.random())
        agent.learn(ours, reward)
        loaded.learn(od.Decision.from_json(theirs.to_json()), reward)
    np.testing.assert_array_equal(agent.state.log_weights, loaded.state.log_weights)


def test_8_threads_for_3_seconds_lose_no_reward(any_kernels: str) -> None:
    agent = make(eta=1e-4)
    contexts = RNG.normal(size=(64, 4, 5))
    kept: list[list[tuple[od.Decision, float]]] = [[] for _ in range(8)]
    errors: list[BaseException] = []
    end = time.monotonic() + 3

    def work(mine: list[tuple[od.Decision, float]], offset: int) -> None:
        try:
            while time.monotonic() < end and len(mine) < 40_000:
                decision = agent.decide(contexts[(len(mine) + offset) % 64])
                reward = float((len(mine) * 7 + offset) % 5 < 2)
                mine.append((decision, reward))
                if len(mine) % 3 == 0:  # late, and not in order
                    for late in mine[-1], mine[-3], mine[-2]:
                        agent.learn(*late)
        except BaseException as error:
            errors.append(error)

    threads = [
        threading.Thread(target=work, args=(mine, i)) for i, mine in enumerate(kept)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    learnt = [event for mine in kept for event in mine[: len(mine) // 3 * 3]]
    assert agent.state.learnt == len(learnt)
    steps = [decision.step for mine in kept for decision, _ in mine]
    assert sorted(steps) == list(range(1, len(steps) + 1))
    serial = agent.policy.init()
    for decision, reward in learnt:
        serial = agent.policy.update(serial, decision, reward)
    np.testing.assert_allclose(
        agent.state.log_weights, serial.log_weights, rtol=1e-9, atol=1e-12
    )
    posterior = np.exp(serial.log_weights) / np.exp(serial.log_weights).sum()
    np.testing.assert_allclose(list(agent.posterior().values()), posterior, atol=1e-12)


def test_gamma_0_is_said_once_per_agent(tmp_path: Path) -> None:
    with pytest.warns(od.errors.NoExploration, match="off-policy evaluation") as caught:
        agent = make(gamma=0.0)
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(3):
            agent.learn(agent.decide(RNG.normal(size=(3, 5))), 1)
        agent.save(tmp_path / "a.npz")
        od.Agent.load(tmp_path / "a.npz", agent.policy)
        od.Agent(od.Bounded(agent.policy, floors=0.01), seed=1)


def test_save_replaces_all_or_nothing(tmp_path: Path, monkeypatch: Any) -> None:
    agent, path = make(), tmp_path / "agent.npz"
    agent.save(path)
    before = path.read_bytes()
    agent.learn(agent.decide(RNG.normal(size=(3, 5))), 1)

    def full_disk(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full_disk)
    with pytest.raises(od.BadFile, match="No space left"):
        agent.save(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_reward_that_is_refused_changes_nothing() -> None:
    agent = make()
    decisions = agent.decide_batch(RNG.normal(size=(5, 3, 5)))
    before = agent.state
    for wrong in ([1, 0, 1, 0, 2], [1, 0], [1, 0, 1, 0, np.nan]):
        with pytest.raises(od.InvalidInput):
            agent.learn(decisions, wrong)
        assert agent.state is before
