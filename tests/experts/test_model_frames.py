"""What models are given: the same of a row alone as in a batch, and nothing whose order
is an accident."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import oddsmith as od

ARMS = ["a", "b"]
RNG = np.random.default_rng(3)
TRAIN = pd.DataFrame(
    {"age": RNG.normal(size=200), "city": RNG.choice(["Rome", "Oslo"], 200)}
)
CLASSES = np.where(TRAIN["age"] + (TRAIN["city"] == "Rome") > 0.5, "b", "a")


class Places:
    """Reads columns by place, as models of one's own do."""

    def predict(self, X: Any) -> Any:
        rows = np.asarray(X, dtype=float)
        return np.c_[rows[:, 0] / 100, rows[:, 1] / 100]


def bank(model: Any) -> od.ModelExperts:
    return od.ModelExperts({"model": model}, ARMS, version="1")


def together_as_alone(model: Any, frame: Any) -> None:
    experts = bank(model)
    together = experts.predict((), frame)
    alone = np.stack([experts.predict((), frame.iloc[i]) for i in range(len(frame))])
    np.testing.assert_allclose(together, alone, atol=1e-12)


def test_the_order_of_a_dict_changes_nothing() -> None:
    experts = bank(Places())
    one, other = {"age": 50.0, "k": 1.0}, {"k": 1.0, "age": 50.0}
    np.testing.assert_array_equal(experts.predict((), one), experts.predict((), other))
    np.testing.assert_array_equal(
        experts.predict((), [one, other])[1], experts.predict((), other)
    )


def test_a_model_fitted_on_an_array_refuses_dicts() -> None:
    experts = bank(LogisticRegression().fit(TRAIN[["age"]].to_numpy(), CLASSES))
    with pytest.raises(od.InvalidInput, match="got a dict, whose order is undefined"):
        experts.predict((), {"age": 1.0})


def test_models_per_arm_get_the_columns_they_were_fitted_on() -> None:
    fitted = LogisticRegression().fit(
        TRAIN.assign(b=RNG.normal(size=200))[["age", "b"]], CLASSES
    )
    experts = od.ModelExperts({"model": [fitted, fitted]}, ARMS, version="1")
    np.testing.assert_array_equal(
        experts.predict((), {"b": 0.1, "age": 2.0}),
        experts.predict((), {"age": 2.0, "b": 0.1}),
    )


@pytest.mark.parametrize("kind", ["object", "Int64", "Float64"])
def test_missing_numbers_of_every_kind(kind: str) -> None:
    frame = pd.DataFrame(
        {"age": pd.Series([1, pd.NA, 3, 4], dtype=kind), "b": [0.5, 1.0, np.nan, 2.0]}
    )
    train = pd.DataFrame({"age": RNG.normal(size=200), "b": RNG.normal(size=200)})
    together_as_alone(
        HistGradientBoostingClassifier(max_iter=5).fit(train, CLASSES), frame
    )
    assert bank(Places()).predict((), frame).shape == (4, 1, 2)


def test_a_missing_category_alone_is_one_in_a_batch() -> None:
    columns = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), ["city"]), remainder="passthrough"
    )
    model = make_pipeline(columns, LogisticRegression()).fit(TRAIN, CLASSES)
    together_as_alone(
        model, pd.DataFrame({"age": [0.1, 0.2, 0.3], "city": ["Rome", None, "Bern"]})
    )


def test_what_a_masked_array_hides_is_missing() -> None:
    hidden = np.ma.masked_array(
        [[1.0, 99.0], [2.0, 3.0]], mask=[[False, True], [False, False]]
    )
    experts = od.LinearExperts(np.full((1, 2, 2), 0.01))
    known = np.array([[1.0, np.nan], [2.0, 3.0]])
    np.testing.assert_array_equal(
        experts.predict((), hidden), experts.predict((), known)
    )
    with pytest.raises(od.InvalidInput, match=r"missing|NaN|finite"):
        od.LinUCB(2, 2).odds(od.LinUCB(2, 2).init(), hidden)


def test_a_list_of_numbers_is_one_context_of_functions() -> None:
    experts = od.FunctionExperts({"f": lambda context: [0.2, 0.1 * len(context)]}, ARMS)
    agent = od.Agent(od.GeneralizedThompsonSampling(experts, gamma=0.1), seed=1)
    decision = agent.decide([1.0, 2.0, 3.0])
    assert decision.context == [1.0, 2.0, 3.0]
    assert agent.best((1, 2, 3)) == "b"
    agent.learn(decision, 1)
