"""Each bank against what it stands for."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy.special import expit, ndtr
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression

import oddsmith as od

RNG = np.random.default_rng(0)


class TestLinear:
    @pytest.mark.parametrize(
        ("link", "function"),
        [("logistic", expit), ("identity", lambda s: s), ("probit", ndtr)],
    )
    def test_links(self, link: Any, function: Any, any_kernels: str) -> None:
        theta, x = RNG.normal(size=(7, 4)), RNG.normal(size=(2, 5, 4))
        got = od.LinearExperts(theta, link=link).predict((), x)
        np.testing.assert_allclose(
            got, function(np.einsum("nd,bkd->bnk", theta, x)), atol=1e-14
        )

    def test_weights_per_arm(self, any_kernels: str) -> None:
        theta, x = RNG.normal(size=(7, 3, 4)), RNG.normal(size=(2, 4))
        got = od.LinearExperts(theta).predict((), x)
        np.testing.assert_allclose(
            got, expit(np.einsum("nkd,bd->bnk", theta, x)), atol=1e-14
        )

    def test_nan_features_are_sleep_on_that_arm(self, any_kernels: str) -> None:
        x = RNG.normal(size=(3, 4))
        x[1, 2] = np.nan
        bank = od.LinearExperts(RNG.normal(size=(5, 4)))
        predictions = bank.predict((), x)
        assert np.isnan(predictions[:, 1]).all()
        assert not np.isnan(predictions[:, [0, 2]]).any()
        policy = od.GeneralizedThompsonSampling(bank, gamma=0.0)
        odds = policy.odds(policy.init(), x)
        assert odds.propensities[1] == 0
        assert odds.log_weights is not None

    def test_float32_weights_give_float32_predictions(self, any_kernels: str) -> None:
        theta, x = RNG.normal(size=(6, 4)), RNG.normal(size=(3, 4))
        single, double = (
            od.LinearExperts(theta.astype(np.float32)),
            od.LinearExperts(theta),
        )
        assert single.predict((), x).dtype == np.float32
        np.testing.assert_allclose(
            single.predict((), x), double.predict((), x), atol=1e-6
        )
        agent = od.Agent(od.GeneralizedThompsonSampling(single, gamma=0.1), seed=1)
        decision = agent.decide(x)
        agent.learn(decision, 1)
        assert decision.advice is not None
        assert decision.advice.dtype == np.float64

    def test_extreme_scores_are_finite_probabilities(self, any_kernels: str) -> None:
        got = od.LinearExperts(np.array([[1e6], [-1e6]])).predict(
            (), np.array([[1.0], [-1.0]])
        )
        assert (got > 0).all()
        assert (got <= 1).all()


class TestCovers:
    @pytest.mark.parametrize(
        ("dim", "bound", "radius"),
        [(1, 1.0, 0.3), (2, 1.0, 0.2), (3, 2.0, 0.5), (5, 1.0, 0.6)],
    )
    def test_every_point_of_the_ball_is_near(
        self, dim: int, bound: float, radius: float
    ) -> None:
        cover = od.experts.ball_cover(dim, bound, radius=radius)
        points = RNG.normal(size=(3000, dim))
        points *= (
            bound
            * RNG.random((3000, 1)) ** (1 / dim)
            / np.linalg.norm(points, axis=1, keepdims=True)
        )
        # half of them on the surface
        points[::2] *= bound / np.linalg.norm(points[::2], axis=1, keepdims=True)
        nearest = np.linalg.norm(points[:, None] - cover.points, axis=-1).min(axis=1)
        assert nearest.max() <= cover.radius + 1e-12
        assert np.linalg.norm(cover.points, axis=1).max() <= bound + 1e-12
        assert isinstance(cover, od.experts.Cover)
        assert cover.n == len(cover.points)

    def test_every_point_of_the_box_is_near(self) -> None:
        low, high = np.array([-1.0, 0.0, 2.0]), np.array([1.0, 0.5, 5.0])
        cover = od.experts.grid_cover(low, high, radius=0.4)
        points = RNG.uniform(low, high, (3000, 3))
        assert (
            np.linalg.norm(points[:, None] - cover.points, axis=-1).min(axis=1).max()
            <= cover.radius
            <= 0.4
        )

    def test_what_does_not_fit_is_refused_with_what_would(self) -> None:
        with pytest.raises(
            od.errors.TooLarge,
            match=r"needs 2\.45e\+15 points, .* radius 0\.84 would fit",
        ) as caught:
            od.experts.ball_cover(12, 1.0, radius=0.1)
        assert isinstance(caught.value, MemoryError)
        with pytest.raises(od.errors.TooLarge) as caught:
            od.experts.ball_cover(4, 1.0, radius=0.05, memory=100_000)
        words = str(caught.value).split()
        fitting = float(words[words.index("would") - 1])
        assert (
            od.experts.ball_cover(4, 1.0, radius=fitting * 1.01).points.nbytes
            <= 100_000
        )
        with pytest.raises(od.errors.TooLarge, match=r"radius .* would fit"):
            od.experts.grid_cover(np.zeros(20), np.ones(20), radius=0.01)

    def test_a_cover_is_a_bank(self) -> None:
        cover = od.experts.ball_cover(2, 3.0, radius=1.0)
        bank = od.LinearExperts(cover.points)
        assert len(bank.names) == cover.n


class TestModels:
    X = RNG.normal(size=(400, 3))
    ARMS = ("red", "green", "blue")

    def test_a_classifier_of_the_best_arm_by_name(self) -> None:
        best = np.array(self.ARMS)[np.abs(self.X).argmax(axis=1)]
        # its classes are sorted: blue, green, red
        model = LogisticRegression().fit(self.X, best)
        bank = od.ModelExperts({"logistic": model}, self.ARMS, clip=(0, 1))
        expected = pd.DataFrame(
            model.predict_proba(self.X[:5]), columns=model.classes_
        )[list(self.ARMS)].to_numpy()
        np.testing.assert_allclose(bank.predict((), self.X[:5])[:, 0, :], expected)

    def test_one_model_per_arm(self) -> None:
        rewards = (RNG.random((400, 3)) < expit(self.X)).astype(int)
        models = {
            arm: LogisticRegression().fit(self.X, rewards[:, a])
            for a, arm in enumerate(self.ARMS)
        }
        shuffled = {arm: models[arm] for arm in ("blue", "red", "green")}
        bank = od.ModelExperts(
            {"per arm": shuffled, "listed": list(models.values())},
            self.ARMS,
            clip=(0, 1),
        )
        said = bank.predict((), self.X[:7])
        assert said.shape == (7, 2, 3)
        for a, arm in enumerate(self.ARMS):
            np.testing.assert_allclose(
                said[:, 0, a], models[arm].predict_proba(self.X[:7])[:, 1]
            )
        np.testing.assert_array_equal(said[:, 0], said[:, 1])

    def test_context_plus_arm_features(self) -> None:
        arms = np.eye(3)
        rows = np.concatenate(
            [np.repeat(self.X, 3, axis=0), np.tile(arms, (400, 1))], axis=1
        )
        rewards = RNG.random(1200)
        regression = LinearRegression().fit(rows, rewards)
        forest = RandomForestClassifier(5, random_state=0).fit(rows, rewards < 0.5)
        bank = od.ModelExperts(
            {"line": regression, "forest": forest},
            self.ARMS,
            arm_features=arms,
            clip=(0, 1),
        )
        said = bank.predict((), self.X[:4])
        np.testing.assert_allclose(
            said[:, 0].ravel(), np.clip(regression.predict(rows[:12]), 0, 1)
        )
        np.testing.assert_allclose(
            said[:, 1].ravel(), forest.predict_proba(rows[:12])[:, 1]
        )
        given_rows = od.ModelExperts(
            {"line": regression}, self.ARMS, arm_features="context", clip=(0, 1)
        )
        np.testing.assert_allclose(
            given_rows.predict((), rows[:12].reshape(4, 3, 6))[:, 0], said[:, 0]
        )

    def test_one_call_per_model_per_batch(self) -> None:
        calls = []

        class Counting:
            def predict(self, rows: Any) -> Any:
                calls.append(len(rows))
                return np.tile([0.1, 0.5, 0.4], (len(rows), 1))

        od.ModelExperts({"one": Counting(), "two": Counting()}, self.ARMS).predict(
            (), self.X[:50]
        )
        assert calls == [50, 50]

    def test_votes_are_taken_before_clipping(self) -> None:
        class Bold:
            def predict(self, rows: Any) -> Any:
                return np.tile([0.995, 0.999, 0.2], (len(rows), 1))

        bank = od.ModelExperts({"bold": Bold()}, self.ARMS, clip=(0.01, 0.99))
        predictions, ballots = bank.advise((), self.X[0])
        np.testing.assert_array_equal(predictions, [[0.99, 0.99, 0.2]])
        np.testing.assert_array_equal(ballots, [[0, 1, 0]])

    def test_data_frames_reach_the_model_as_they_are(self) -> None:
        frame = pd.DataFrame(self.X, columns=["x", "y", "z"])
        model = RandomForestRegressor(3, random_state=0).fit(
            frame, RNG.random((400, 3))
        )
        agent = od.Agent(
            od.GeneralizedThompsonSampling(
                od.ModelExperts({"f": model}, self.ARMS), gamma=0.1
            ),
            seed=2,
        )
        # a nameless array would make scikit-learn warn
        decisions = agent.decide_batch(frame.iloc[:9])
        assert decisions.arm.tolist() == [self.ARMS[i] for i in decisions.index]
        agent.learn(decisions, np.ones(9))
        assert agent.state.learnt == 9


@pytest.fixture(scope="module")
def model() -> Any:
    x = np.random.default_rng(1).normal(size=(300, 4))
    return LogisticRegression().fit(x, np.random.default_rng(2).integers(0, 3, 300))


@pytest.fixture(scope="module")
def path(model: Any, tmp_path_factory: Any) -> Path:
    skl2onnx = pytest.importorskip("skl2onnx")
    file = Path(tmp_path_factory.mktemp("onnx")) / "model.onnx"
    exported = skl2onnx.to_onnx(
        model, np.zeros((1, 4), np.float32), options={"zipmap": False}
    )
    file.write_bytes(exported.SerializeToString())
    return file


class TestOnnx:
    def test_the_same_as_scikit_learn(self, model: Any, path: Path) -> None:
        x = np.random.default_rng(3).normal(size=(20, 4))
        arms = ("0", "1", "2")
        onnx = od.OnnxExperts({"m": path}, arms).predict((), x)
        np.testing.assert_allclose(
            onnx, od.ModelExperts({"m": model}, arms).predict((), x), atol=1e-6
        )
        single = od.OnnxExperts({"m": path.read_bytes()}, arms).predict((), x[0])
        np.testing.assert_allclose(single, onnx[0], atol=1e-6)

    def test_tables_of_numbers_and_nothing_else(self, path: Path) -> None:
        x = np.random.default_rng(3).normal(size=(5, 4))
        bank = od.OnnxExperts({"m": path}, ("0", "1", "2"))
        table = pd.DataFrame(x, columns=list("abcd"))
        for context in (table, pl.from_pandas(table), pa.Table.from_pandas(table)):
            np.testing.assert_array_equal(
                bank.predict((), context), bank.predict((), x)
            )
        np.testing.assert_array_equal(
            bank.predict((), table.iloc[1]), bank.predict((), x[1])
        )
        with pytest.raises(
            od.InvalidInput, match=r"^context column 'b' must be a number; got 'Rome'"
        ):
            bank.predict((), table.astype(object).assign(b="Rome"))
        with pytest.raises(
            od.InvalidInput,
            match=r"got a dict: use Encoded\(experts, schema\)",
        ):
            # whose order means nothing
            bank.predict((), {"b": 1.0, "a": 2.0, "c": 3.0, "d": 4.0})

    def test_a_changed_file_is_another_policy(self, path: Path, tmp_path: Path) -> None:
        arms = ("0", "1", "2")
        bank = od.OnnxExperts({"m": path}, arms)
        again = od.OnnxExperts({"m": path}, arms)
        assert od.fingerprint(bank) == od.fingerprint(again)
        changed = path.read_bytes().replace(b"skl2onnx", b"skl2onnX")
        assert od.fingerprint(od.OnnxExperts({"m": changed}, arms)) != od.fingerprint(
            bank
        )


def test_table_experts_take_indices_of_any_shape(any_kernels: str) -> None:
    table = RNG.random((6, 2, 3))
    bank = od.TableExperts(table)
    np.testing.assert_array_equal(bank.predict((), 4), table[4])
    index = RNG.integers(0, 6, (5, 7))
    np.testing.assert_array_equal(bank.predict((), index), table[index])


def test_linear_experts_know_their_arms(any_kernels: str) -> None:
    bank = od.LinearExperts(RNG.normal(size=(5, 4)), arms=("a", "b"))
    assert bank.arms == ("a", "b")
    assert bank.predict((), np.zeros((2, 4))).shape == (5, 2)
    with pytest.raises(
        od.InvalidInput, match="context must have a row for each of the 2 arms; got"
    ):
        bank.predict((), np.zeros((3, 4)))
    with pytest.raises(
        od.InvalidInput, match="weights must be for the 2 arms; got shape"
    ):
        od.LinearExperts(RNG.normal(size=(5, 3, 4)), arms=("a", "b"))
    # the guard knows how many arms there are
    all_asleep = od.Guarded(bank).predict((), "no numbers")
    assert all_asleep.shape == (5, 2)
    assert np.isnan(all_asleep).all()


def test_encoded_experts_read_the_numbers_of_the_schema() -> None:
    schema = od.Schema(numbers=("age",), categories=("city",), buckets=3)
    inner = od.LinearExperts(RNG.normal(size=(2, 3, 4)))
    rows = [{"age": 0.3, "city": "Rome"}, {"age": -1, "city": "Oslo", "more": 2}]
    bank = od.experts.Encoded(inner, schema)
    np.testing.assert_array_equal(
        bank.predict((), rows), inner.predict((), schema.encode(rows))
    )
    learner = od.experts.Encoded(od.LearningExperts(("a", "b")), schema)
    policy, plain = (
        od.GeneralizedThompsonSampling(b, gamma=0.5) for b in (learner, learner.experts)
    )
    raw, state = policy.init(), plain.init()
    for row in rows:
        decision = od.decide(policy, raw, row, 0.3)
        raw = policy.update(raw, decision, 1.0)
        state = plain.update(state, decision._replace(context=schema.encode(row)), 1.0)
    np.testing.assert_array_equal(
        policy.odds(raw, rows[0]).advice,
        plain.odds(state, schema.encode(rows[0])).advice,
    )
    with pytest.raises(od.InvalidInput, match="schema must be a Schema; got dict"):
        od.experts.Encoded(inner, {})  # type: ignore[arg-type]


def test_wrappers_pass_on_what_tells_two_trainings_apart() -> None:
    class Trained(od.GivenExperts):
        version = "2026-11"

    for wrapper in (od.experts.Clipped(Trained(["a"])), od.Guarded(Trained(["a"]))):
        assert wrapper.version == "2026-11"
        assert (
            wrapper.experts.version,
            od.experts.Clipped(od.GivenExperts(["a"])).version,
        ) == ("2026-11", None)
