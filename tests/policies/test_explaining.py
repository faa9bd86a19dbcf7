"""What policies without experts say of themselves: beliefs about arms in a context, and
posteriors by name."""

from typing import Any

import numpy as np
import pytest

import oddsmith as od

ARMS = ("stay", "go")
SCHEMA = od.Schema(("age",), ("city",), buckets=2)
CONTEXT = {"age": 0.5, "city": "Rome"}


def learnt(policy: Any, context: Any = CONTEXT, times: int = 12) -> od.Agent:
    agent = od.Agent(policy, seed=5, arms=ARMS)
    for t in range(times):
        decision = agent.decide(context)
        agent.learn(decision, float(decision.arm == "go" or t % 4 == 0))
    return agent


def test_linear_thompson_explains_itself_as_the_regression_it_is() -> None:
    """Mean and sd of every arm equal those of a ridge regression by hand; the odds are
    those decided with."""
    rng = np.random.default_rng(1)
    agent = od.Agent(
        od.LinearThompsonSampling(n_arms=2, schema=SCHEMA, gamma=0.1), seed=5, arms=ARMS
    )
    rows: dict[str, list[tuple[Any, float]]] = {arm: [] for arm in ARMS}
    for _ in range(30):
        context = {"age": rng.normal(), "city": rng.choice(["Rome", "Oslo"])}
        decision, reward = agent.decide(context), float(rng.random())
        agent.learn(decision, reward)
        rows[decision.arm].append((np.append(SCHEMA.encode(context), 1.0), reward))
    parts = agent.explain(CONTEXT)
    assert isinstance(parts, od.policies.ArmExplanation)
    posterior, phi = agent.posterior(), np.append(SCHEMA.encode(CONTEXT), 1.0)
    for k, arm in enumerate(ARMS):
        features, rewards = (
            np.array([x for x, _ in rows[arm]]),
            np.array([r for _, r in rows[arm]]),
        )
        covariance = np.linalg.inv(np.eye(4) + features.T @ features)
        theta = covariance @ features.T @ rewards
        assert parts.mean[k] == pytest.approx(theta @ phi, abs=1e-10)
        assert parts.sd is not None
        assert parts.sd[k] == pytest.approx(np.sqrt(phi @ covariance @ phi), abs=1e-10)
        assert list(posterior[arm]) == ["age", "city 0", "city 1", "constant"]
        np.testing.assert_allclose(
            list(posterior[arm].values()),
            np.stack([theta, np.sqrt(np.diag(covariance))], axis=1),
            atol=1e-10,
        )
    np.testing.assert_array_equal(
        parts.propensities, agent.decide(CONTEXT).propensities
    )
    assert [line.split()[0] for line in str(parts).splitlines()] == ["arm", *ARMS]


def test_a_missing_number_is_zero_and_a_missing_category_nowhere() -> None:
    policy = od.LinUCB(n_arms=2, schema=SCHEMA)
    np.testing.assert_array_equal(
        policy.features([{"age": None, "city": None}, {"age": 2.0}]),
        [[0, 0, 0, 1], [2, 0, 0, 1]],
    )


@pytest.mark.filterwarnings("ignore::oddsmith.core.errors.NoExploration")
@pytest.mark.parametrize(
    ("policy", "columns"),
    [
        (
            od.LinUCB(n_arms=2, schema=SCHEMA),
            ["mean linear score", "sd", "upper bound", "odds"],
        ),
        (
            od.policies.GLMUCB(n_arms=2, schema=SCHEMA),
            ["mean log-odds", "sd", "upper bound", "odds"],
        ),
        (
            od.policies.LogisticThompsonSampling(n_arms=2, schema=SCHEMA),
            ["mean log-odds", "sd", "odds"],
        ),
        (
            od.policies.ProbitThompsonSampling(n_arms=2, schema=SCHEMA),
            ["mean probit score", "sd", "odds"],
        ),
        (od.BetaThompsonSampling(2), ["mean reward", "sd", "odds"]),
        (od.policies.UCB1(2), ["mean reward", "upper bound", "odds"]),
        (od.policies.KLUCB(2), ["mean reward", "upper bound", "odds"]),
        (od.Bounded(od.policies.UCB1(2), 0.1), ["mean reward", "upper bound", "odds"]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_all_of_them_explain_themselves(policy: Any, columns: list[str]) -> None:
    agent = learnt(policy)
    parts = agent.explain(CONTEXT)
    assert isinstance(parts, od.policies.ArmExplanation)
    assert parts.arms == ARMS
    assert parts.mean[1] > parts.mean[0]  # going was always rewarded
    assert str(parts).splitlines()[0].split("  ")[1:] != []
    assert all(column in str(parts).splitlines()[0] for column in columns)
    np.testing.assert_array_equal(
        parts.propensities, agent.decide(CONTEXT).propensities
    )


def test_particles_explain_themselves_by_their_moments() -> None:
    context = np.array([[1.0, 0.0], [0.0, 1.0]])
    agent = learnt(
        od.policies.ParticleThompsonSampling(
            od.policies.LogisticFamily(), 2, n_particles=64
        ),
        context,
    )
    parts = agent.explain(context)
    assert isinstance(parts, od.policies.ArmExplanation)
    assert parts.mean[1] > parts.mean[0]
    assert list(agent.posterior()) == ["all arms"]
    assert list(agent.posterior()["all arms"]) == ["column 0", "column 1"]


def test_the_posterior_of_counts_is_the_probability_of_being_best() -> None:
    agent = learnt(od.BetaThompsonSampling(2, gamma=0.1))
    wins, losses = agent.state.sums + 1, agent.state.pulls - agent.state.sums + 1
    drawn = (
        np.random.default_rng(0).beta(wins, losses, size=(200_000, 2)).argmax(axis=1)
    )
    # four standard errors of the draws
    assert agent.posterior()["go"] == pytest.approx(drawn.mean(), abs=5e-3)


@pytest.mark.filterwarnings("ignore::oddsmith.core.errors.NoExploration")
def test_what_has_no_posterior_says_what_to_ask_instead() -> None:
    with pytest.raises(
        od.InvalidInput, match=r"UCB1 has none: explain\(context\) shows"
    ):
        learnt(od.policies.UCB1(2)).posterior()
    bank = od.FunctionExperts({"f": lambda x: [0.2, 0.3]}, ARMS)
    with pytest.raises(od.InvalidInput, match=r"SquareCB has none: agent.policy.odds"):
        learnt(od.policies.SquareCB(bank, 10.0)).explain(CONTEXT)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: od.LinUCB(n_arms=2),
            (
                "dim must be a whole number of at least 1, or left out if "
                "there is a schema; got 0"
            ),
        ),
        (
            lambda: od.LinUCB(3, 2, schema=SCHEMA),
            "dim must be left out if there is a schema, which has 3 numbers and a 1; got 3",
        ),
        (
            lambda: od.policies.GLMUCB(n_arms=2, schema="age"),  # type: ignore[arg-type]
            "schema must be a Schema; got str",
        ),
        (
            lambda: od.LinUCB(2, 2).odds(
                od.LinUCB(2, 2).init(), np.array([1.0, np.nan])
            ),
            (
                "finite numbers up to 1e.100; column 1 contains others: fill it in, or "
                "give a schema"
            ),
        ),
    ],
)
def test_one_sentence(make: Any, message: str) -> None:
    with pytest.raises(od.InvalidInput, match=message):
        make()
