"""An incumbent that acts now and then, where the policy draws: such rows in values and
checks, and for units."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from server.monitor.test_figures import check_values, exported
from server.served import CONTEXT, Hands, Here, here, place


def live(served: Here, odds: dict[str, float]) -> None:
    """Every fourth decision is an incumbent's, drawn from these odds."""
    rng = np.random.default_rng(3)
    for i in range(120):
        arm = str(rng.choice(list(odds), p=list(odds.values())))
        acts: dict[str, Any] = (
            {"incumbent": arm, "incumbent_odds": odds} if i % 4 == 0 else {}
        )
        decided = served.decide(f"d{i}", **acts)
        served.reward(
            f"d{i}", float(rng.random() < (0.7 if decided["arm"] == arm else 0.4))
        )
    served.state()


def test_values_and_checks_where_the_incumbent_draws_every_arm(tmp_path: Path) -> None:
    with here(place(tmp_path), clock=Hands().clock()) as served:
        arms = list(served.experiment().arms or ())
        live(served, dict(zip(arms, (0.6, 0.2, 0.2), strict=True)))
        values, checks = served.get("/v1/values"), served.get("/v1/checks")
        check_values(values, exported(tmp_path))
        assert not any(one["refused"] for one in values["values"])
        assert (
            checks["served_as_logged"]["word"],
            checks["served_as_logged"]["n"],
        ) == ("well", 120)
        assert checks["switch"] is None  # the policy acts already


def test_where_the_incumbent_has_one_arm_nothing_is_said_about_others(
    tmp_path: Path,
) -> None:
    with here(place(tmp_path), clock=Hands().clock()) as served:
        arms = list(served.experiment().arms or ())
        live(served, {arms[1]: 1.0})
        values = served.get("/v1/values")
        check_values(values, exported(tmp_path))
        refused = {
            one["name"]: one["refused"] for one in values["values"] if one["refused"]
        }
        assert set(refused) == {"policy", "uniform", arms[0], arms[2]}
        assert (
            "25.00% of the target's mass is on arms the logging policy could not draw"
            in refused[arms[0]]
        )
        assert served.get("/v1/checks")["served_as_logged"]["word"] == "well"


@pytest.mark.parametrize("shadow", [False, True])
def test_an_incumbent_keeps_nothing_for_a_unit_unless_it_always_acts(
    tmp_path: Path, shadow: bool
) -> None:
    lines = "sticky = true\n" + ("shadow = true\n" if shadow else "")
    with here(place(tmp_path, service=lines)) as served:
        acts = {"context": CONTEXT, "incumbent": "tech"}
        if shadow:
            assert "unit must be given" in served.post("decide", acts, 422)["error"]
            return
        once = served.post("decide", acts | {"id": "once"})
        assert (once["id"], once["arm"]) == ("once", "tech")
        drawn = served.post("decide", {"context": CONTEXT, "unit": "anna"})
        assert (
            served.post("decide", {"context": CONTEXT, "unit": "anna"})["id"]
            == drawn["id"]
            != "once"
        )
        assert (
            "id must be left out"
            in served.post("decide", acts | {"unit": "anna", "id": "x"}, 422)["error"]
        )
        batch = served.post(
            "decide/batch",
            {"decisions": [acts | {"id": "batch"}, {"context": CONTEXT}]},
        )["results"]
        assert (batch[0]["id"], batch[1]["code"]) == ("batch", "invalid")
