"""A model that reads the arm as a column: refusals say how it is asked, and a row of a frame is a context."""

import re
from typing import Any

import numpy as np
import pandas as pd
import pytest

import oddsmith as od

ARMS = ["gift", "discount"]
BY_NAME = re.escape("decide(context, arms={'gift': {'offer': 'gift'}, …})")


class Clicks:
    """A classifier of clicks that reads age and offer."""

    classes_ = (0, 1)
    feature_names_in_ = ("age", "offer")

    def predict_proba(self, rows: Any) -> Any:
        mean = np.where((rows["offer"] == "gift") == (rows["age"] > 40), 0.9, 0.2)
        return np.stack([1 - mean, mean], axis=-1)


def test_refusals_say_how_such_a_model_is_asked() -> None:
    policy = od.GeneralizedThompsonSampling(od.ModelExperts({"trees": Clicks()}, arms=["gift", "discount", "none"]))
    with pytest.raises(od.ExpertFailed, match=r"^model 'trees' must have classes .* if it predicts .*" + BY_NAME):
        od.Agent(policy, seed=7).decide({"age": 50, "offer": "gift"})
    with pytest.raises(
        od.InvalidInput, match=r"^arm_features must be numbers; got DataFrame .*; where models .*" + BY_NAME
    ):
        od.ModelExperts({"trees": Clicks()}, arms=ARMS, arm_features=pd.DataFrame({"offer": ARMS}))
    mixed = od.stack(od.ModelExperts({"trees": Clicks()}), od.ModelExperts({"other": Clicks()}, arms=ARMS))
    with pytest.raises(od.InvalidInput, match="in a stack give these the fixed arms of the others"):
        od.Agent(od.GeneralizedThompsonSampling(mixed), seed=7).decide({"age": 50}, arms=ARMS)


def test_a_row_of_a_frame_beside_features_that_are_dicts() -> None:
    frame = pd.DataFrame({"age": [50.0, 20.0], "city": ["Rome", None]})
    arms = {arm: {"offer": arm} for arm in ARMS}
    agent = od.Agent(od.GeneralizedThompsonSampling(od.ModelExperts({"trees": Clicks()}), gamma=0.1), seed=7)
    assert [agent.best(frame.iloc[row], arms=arms) for row in range(2)] == ARMS
    decision = agent.decide(frame.iloc[0], arms=arms)
    as_dict = od.Agent(agent.policy, seed=7).decide(frame.iloc[0].to_dict(), arms=arms)
    np.testing.assert_array_equal(decision.propensities, as_dict.propensities)
    agent.learn(od.Decision.from_json(decision.to_json()), 1)
