"""A model that reads the arm as a column: refusals say how it is asked, and a row of a
frame is a context."""

import re
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import oddsmith as od

ARMS = ["gift", "discount"]
BY_NAME = re.escape("decide(context, arms={'gift': {'offer': 'gift'}, …})")


class Clicks:
    """A classifier of clicks that reads age and offer."""

    classes_: tuple[Any, ...] = (0, 1)
    feature_names_in_ = ("age", "offer")

    def predict_proba(self, rows: Any) -> Any:
        mean = np.where((rows["offer"] == "gift") == (rows["age"] > 40), 0.9, 0.2)
        return np.stack([1 - mean, mean], axis=-1)


def test_refusals_say_how_such_a_model_is_asked() -> None:
    policy = od.GeneralizedThompsonSampling(
        od.ModelExperts({"trees": Clicks()}, arms=["gift", "discount", "none"])
    )
    with pytest.raises(
        od.errors.ExpertFailed,
        match=r"^model 'trees' must have classes .* if it predicts .*" + BY_NAME,
    ):
        od.Agent(policy, seed=7).decide({"age": 50, "offer": "gift"})
    with pytest.raises(
        od.InvalidInput,
        match=r"^arm_features must be numbers; got DataFrame .*; if models .*"
        + BY_NAME,
    ):
        od.ModelExperts(
            {"trees": Clicks()}, arms=ARMS, arm_features=pd.DataFrame({"offer": ARMS})
        )
    mixed = od.stack(
        od.ModelExperts({"trees": Clicks()}),
        od.ModelExperts({"other": Clicks()}, arms=ARMS),
    )
    with pytest.raises(
        od.InvalidInput,
        match="in a stack, give either all or none of the experts fixed arms",
    ):
        od.Agent(od.GeneralizedThompsonSampling(mixed), seed=7).decide(
            {"age": 50}, arms=ARMS
        )


def test_a_row_of_a_frame_beside_features_that_are_dicts() -> None:
    frame = pd.DataFrame({"age": [50.0, 20.0], "city": ["Rome", None]})
    arms = {arm: {"offer": arm} for arm in ARMS}
    agent = od.Agent(
        od.GeneralizedThompsonSampling(od.ModelExperts({"trees": Clicks()}), gamma=0.1),
        seed=7,
    )
    assert [agent.best(frame.iloc[row], arms=arms) for row in range(2)] == ARMS
    decision = agent.decide(frame.iloc[0], arms=arms)
    as_dict = od.Agent(agent.policy, seed=7).decide(frame.iloc[0].to_dict(), arms=arms)
    np.testing.assert_array_equal(decision.propensities, as_dict.propensities)
    agent.learn(od.Decision.from_json(decision.to_json()), 1)


@pytest.mark.parametrize(
    ("arms", "got"),
    [
        (ARMS, "names alone"),
        ({arm: {"name": arm} for arm in ARMS}, r"columns \['name'\]"),
        ({arm: {} for arm in ARMS}, "names alone"),
    ],
)
@pytest.mark.parametrize("context", [{"age": 50}, {}])
def test_arms_that_the_model_cannot_tell_apart_are_refused(
    arms: Any, got: str, context: dict[str, Any]
) -> None:
    agent = od.Agent(
        od.GeneralizedThompsonSampling(od.ModelExperts({"trees": Clicks()}), gamma=0.1),
        seed=7,
    )
    if isinstance(arms, list) and not context:
        context = {"city": "Rome"}
    with pytest.raises(
        od.InvalidInput,
        match=rf"^arms must have a column that model 'trees' reads.* got {got}",
    ):
        agent.decide(context, arms=arms)


def test_what_arms_do_not_bring_may_still_be_missing() -> None:
    """A column that the context lacks is missing where arms differ in another, and a
    value may be None everywhere."""
    agent = od.Agent(
        od.GeneralizedThompsonSampling(od.ModelExperts({"trees": Clicks()}), gamma=0.1),
        seed=7,
    )
    assert agent.best({}, arms={arm: {"offer": arm} for arm in ARMS}) == "discount"
    np.testing.assert_allclose(
        agent.decide(
            {"age": 50}, arms={arm: {"offer": None} for arm in ARMS}
        ).propensities,
        0.5,
    )
    assert (
        agent.best({"age": 50}, arms={"gift": {"offer": "gift"}, "discount": None})
        == "gift"
    )
    # nothing is absent: the model does not look at arms
    agent.decide({"age": 50, "offer": "gift"}, arms=ARMS)


@pytest.mark.parametrize("classes", [(0, 1), (False, True), (0.0, 1.0)])
def test_a_model_of_clicks_is_no_model_of_two_arms(classes: tuple[Any, ...]) -> None:
    """Classes 0 and 1 were read as the two arms: the chance of no click was the reward
    of the first."""
    model = Clicks()
    model.classes_ = classes
    context = {"age": 50, "offer": "gift"}
    with pytest.raises(
        od.errors.ExpertFailed,
        match=(
            r"^model 'm' must have classes among the arms \['gift', 'discount'\]; got"
        ),
    ):
        od.ModelExperts({"m": model}, arms=ARMS).predict((), context)


def test_two_arms_by_names_and_three_by_numbers_are_read() -> None:
    context = {"age": 50, "offer": "gift"}
    backwards = od.ModelExperts({"m": Clicks()}, arms=["1", "0"]).predict((), context)
    np.testing.assert_allclose(backwards, [[0.9, 0.1]])
    model = LogisticRegression().fit(np.eye(3), [0, 1, 2])
    said = od.ModelExperts({"m": model}, arms=["a", "b", "c"]).predict((), np.eye(3)[2])
    np.testing.assert_allclose(said, model.predict_proba(np.eye(3)[2:]))
