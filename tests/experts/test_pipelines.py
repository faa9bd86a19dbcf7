"""Models that were fitted on data frames of contexts and items, asked about arms that
come with the call."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
)
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import oddsmith as od

TEXTS, NUMBERS = ["device", "topic"], ["hour", "age_h"]
CONTEXT = {"hour": 9, "device": "phone"}
ARMS: dict[str, Any] = {
    "known": {"topic": "sports", "age_h": 2.0},
    "a missing number": {"topic": "tech", "age_h": None},
    "a new category": {"topic": "never seen", "age_h": 1.0},
    "a missing column": {"age_h": 3.0},
    "a column too many": {"topic": "news", "age_h": 1.0, "editor": "Ada"},
    "nothing known": None,
}


def training() -> tuple[Any, Any]:
    rng, n = np.random.default_rng(0), 300
    frame = pd.DataFrame(
        {
            "hour": rng.integers(0, 24, n).astype(float),
            "device": rng.choice(["phone", "desktop"], n),
            "topic": rng.choice(["sports", "tech", "news"], n),
            "age_h": rng.exponential(5.0, n),
        }
    )
    clicks = rng.random(n) < np.where(frame["topic"] == "sports", 0.7, 0.3) * np.where(
        frame["hour"] < 12, 1.0, 0.6
    )
    return frame.mask(rng.random((n, 4)) < [0, 0.1, 0, 0.1]), clicks.astype(int)


FRAME, CLICKS = training()
CATEGORIES = {
    name: pd.CategoricalDtype(sorted(FRAME[name].dropna().unique())) for name in TEXTS
}


def columns() -> Any:
    numbers = make_pipeline(SimpleImputer(), StandardScaler())
    return make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), TEXTS), (numbers, NUMBERS)
    )


def lightgbm(kind: str) -> Any:
    library: Any = pytest.importorskip(
        "lightgbm", reason="lightgbm is not installed (make bench installs it)"
    )
    if kind == "Booster":
        data = library.Dataset(FRAME.astype(CATEGORIES), CLICKS)
        trained = library.train(
            {"objective": "binary", "verbose": -1, "num_threads": 1}, data, 10
        )
        # as it comes from a file
        return library.Booster(model_str=trained.model_to_string())
    return getattr(library, kind)(n_estimators=10, verbose=-1, n_jobs=1).fit(
        FRAME.astype(CATEGORIES), CLICKS
    )


MODELS: dict[str, Callable[[], Any]] = {
    "pipeline": lambda: make_pipeline(columns(), LogisticRegression()).fit(
        FRAME, CLICKS
    ),
    "boosted classifier": lambda: HistGradientBoostingClassifier(
        max_iter=10, categorical_features="from_dtype"
    ).fit(FRAME.astype(CATEGORIES), CLICKS),
    "boosted regressor": lambda: HistGradientBoostingRegressor(
        max_iter=10, categorical_features="from_dtype"
    ).fit(FRAME.astype(CATEGORIES), CLICKS),
    "LGBMClassifier": lambda: lightgbm("LGBMClassifier"),
    "LGBMRegressor": lambda: lightgbm("LGBMRegressor"),
    "Booster": lambda: lightgbm("Booster"),
}


def directly(model: Any, arms: dict[str, Any], categories: bool) -> Any:
    """What the model says of a frame that is made by hand, in the columns of its
    training."""
    rows = [{**CONTEXT, **(features or {})} for features in arms.values()]
    frame = pd.DataFrame(rows, columns=FRAME.columns, dtype=object).astype(
        dict.fromkeys(NUMBERS, float)
    )
    if categories:
        frame = frame.assign(
            **{
                name: frame[name].where(frame[name].isin(CATEGORIES[name].categories))
                for name in TEXTS
            }
        )
    frame = (
        frame.astype(CATEGORIES) if categories else frame.where(frame.notna(), np.nan)
    )
    mean = (
        model.predict_proba(frame)[:, 1]
        if hasattr(model, "predict_proba")
        else model.predict(frame)
    )
    return np.clip(mean, 1e-4, 1 - 1e-4)


@pytest.mark.parametrize("kind", MODELS)
def test_models_are_asked_as_their_owners_would(kind: str) -> None:
    model = MODELS[kind]()
    bank = od.ModelExperts({"model": model}, version="1")
    frame = pd.DataFrame(
        [features or {} for features in ARMS.values()], index=list(ARMS)
    )
    said = directly(model, ARMS, kind != "pipeline")
    np.testing.assert_allclose(
        bank.predict((), od.make_offer(CONTEXT, ARMS))[0], said, atol=1e-12
    )
    np.testing.assert_allclose(
        bank.predict((), od.make_offer(CONTEXT, frame))[0], said, atol=1e-12
    )
    # alone, with whole columns missing
    for place, (name, features) in enumerate(ARMS.items()):
        alone = bank.predict((), od.make_offer(CONTEXT, {name: features}))
        np.testing.assert_allclose(alone, [[said[place]]], atol=1e-12)


class Counting:
    """A model that counts how often it is asked, and about how many rows."""

    def __init__(self, model: Any) -> None:
        self.model, self.sizes = model, list[int]()
        self.feature_names_in_ = model.feature_names_in_

    def predict_proba(self, rows: Any) -> Any:
        self.sizes.append(len(rows))
        return self.model.predict_proba(rows)


def test_one_call_for_each_model_and_batch() -> None:
    models = {
        "one": Counting(MODELS["pipeline"]()),
        "other": Counting(MODELS["boosted classifier"]()),
    }
    agent = od.Agent(
        od.GeneralizedThompsonSampling(
            od.ModelExperts(models), od.square_loss, gamma=0.1
        ),
        seed=1,
    )
    agent.decide(CONTEXT, arms=ARMS)
    many = agent.decide_batch([CONTEXT] * 4, arms=ARMS)
    assert [model.sizes for model in models.values()] == [[6, 24]] * 2
    agent.learn(many, [0, 1, 0, 1])
    few = {name: ARMS[name] for name in list(ARMS)[:2]}
    mixed = agent.decide_batch([CONTEXT] * 4, arms=[ARMS, few, ARMS, few])
    # a call for each number of arms
    assert [model.sizes for model in models.values()] == [[6, 24, 4, 12]] * 2
    odds = agent.policy.odds(
        agent.state, od.make_offer(CONTEXT, few), step=7
    ).propensities
    np.testing.assert_allclose(mixed.propensities[1, :2], odds, atol=1e-12)


def test_a_batch_whose_first_context_is_not_known() -> None:
    agent = od.Agent(
        od.GeneralizedThompsonSampling(
            od.ModelExperts({"one": MODELS["pipeline"]()}), gamma=0.1
        ),
        seed=1,
    )
    names = ["a", "b"]
    many = agent.decide_batch(
        [None, CONTEXT], arms=[names, {"a": ARMS["known"], "b": None}]
    )
    one = agent.policy.odds(
        agent.state, od.make_offer(CONTEXT, {"a": ARMS["known"], "b": None})
    ).propensities
    np.testing.assert_allclose(many.propensities[1], one, atol=1e-12)


def test_a_booster_of_an_array_has_no_names() -> None:
    library: Any = pytest.importorskip(
        "lightgbm", reason="lightgbm is not installed (make bench installs it)"
    )
    rows = FRAME[NUMBERS].to_numpy()
    bank = od.ModelExperts(
        {
            "model": library.LGBMRegressor(n_estimators=5, verbose=-1, n_jobs=1).fit(
                rows, CLICKS
            )
        }
    )
    with pytest.raises(od.InvalidInput, match="got a dict, whose order is undefined"):
        bank.predict((), od.make_offer({"hour": 9.0}, {"a": {"age_h": 2.0}}))
    assert bank.predict((), od.make_offer([9.0], {"a": [2.0]})).shape == (1, 1)
