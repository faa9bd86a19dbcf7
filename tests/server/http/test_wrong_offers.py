"""The bad offers that an agent refuses, over HTTP: each is a 4xx with one sentence,
alone and in batches."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agent.test_bad_offers import ARMS, CALLS, CONTEXT, GOOD, POLICIES
from oddsmith.core.errors import OddsmithError
from server.http.test_offers import news
from server.served import Here, here, place

WITHOUT_JSON = {
    "bytes",
    "a set, which has no order",
    "an offer",
    "a tuple as name",
    "a time in numbers",
}


def plain(value: Any) -> Any:
    """What JSON has for an array or a frame: lists, and a dict for each row."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    return value.to_dict("records") if hasattr(value, "iloc") else value.to_dicts()


def refused(
    served: Here, asked: dict[str, Any], path: str = "decide"
) -> dict[str, Any]:
    """The refusal, in one sentence; NaN is sent as Python writes it."""
    answer = served.ask(
        "POST", f"/v1/{path}", content=json.dumps(asked, default=plain).encode()
    )
    if path == "decide" or answer.status_code != 200:
        assert 400 <= answer.status_code < 500, answer.text
        said: dict[str, Any] = answer.json()
    else:
        (said,) = answer.json()["results"]
    assert said["code"] in ("invalid", "malformed", "infeasible"), said
    assert said["error"]
    assert "\n" not in said["error"]
    assert len(said["error"]) < 600
    return said


@pytest.fixture(scope="module")
def taught(tmp_path_factory: Any) -> Iterator[Here]:
    """A service that has learnt from one good offer."""
    with here(news(tmp_path_factory.mktemp("taught"))) as served:
        served.post("decide", {"context": CONTEXT, "arms": GOOD, "id": "first"})
        served.reward("first", 1)
        served.state()
        yield served


def check(served: Here, call: dict[str, Any]) -> list[str]:
    """A call is refused at every door, and nothing is written; what is said."""
    asked, before = {"context": CONTEXT} | call, served.experiment().store.head()
    said = [
        refused(served, asked),
        refused(served, {"decisions": [asked]}, "decide/batch"),
    ]
    if "arms" in call:
        entry = {name: value for name, value in asked.items() if name != "arms"}
        said.append(
            refused(
                served, {"decisions": [entry], "arms": call["arms"]}, "decide/batch"
            )
        )
    assert served.experiment().store.head() == before
    return [one["error"] for one in said]


@pytest.mark.parametrize("case", [case for case in ARMS if case not in WITHOUT_JSON])
def test_bad_arms_are_refused(taught: Here, case: str) -> None:
    check(taught, {"arms": ARMS[case][0]})


@pytest.mark.parametrize("case", CALLS)
def test_bad_calls_are_refused(taught: Here, case: str) -> None:
    check(taught, CALLS[case][0])


UNSERVED = ["tables", "ucb1", "linucb of each arm"]


def own(folder: Path, case: str) -> Path:
    """The policy file of a policy that does not take the offer."""
    module = f"offered_{folder.name}"
    code = (
        "from agent.test_bad_offers import POLICIES\n\n\ndef policy(arms):\n"
        f"    return POLICIES[{case!r}][0]\n"
    )
    (folder / f"{module}.py").write_text(code)
    return news(
        folder, policy=f'[policy]\nkind = "python"\nfactory = "{module}:policy"\n'
    )


@pytest.mark.parametrize("case", UNSERVED)
def test_policies_that_take_no_offers_are_not_served(tmp_path: Path, case: str) -> None:
    with pytest.raises(OddsmithError) as caught, here(own(tmp_path, case)):
        pass
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("case", [case for case in POLICIES if case not in UNSERVED])
def test_policies_refuse_offers_that_they_cannot_serve(
    tmp_path: Path, case: str
) -> None:
    if case == "an unknown arm of fixed ones":
        with here(place(tmp_path)) as served:
            check(served, {"context": [0.1, 0.2], "arms": ["sports", "x"]})
    else:
        with here(own(tmp_path, case)) as served:
            check(served, {"context": 0} | POLICIES[case][1])


@pytest.mark.parametrize(
    "arms", [["x", "x"], [], ["x", "\0"], ["x"] * 1001, {"x": "y"}, None], ids=range(6)
)
def test_a_unit_that_has_a_decision_is_no_door_for_bad_offers(
    tmp_path: Path, arms: Any
) -> None:
    with here(news(tmp_path, "sticky = true\n")) as served:
        first = served.post("decide", {"context": {}, "arms": ["x"], "unit": "ann"})
        check(served, {"unit": "ann", "arms": arms})
        assert served.post(
            "decide", {"context": {}, "arms": ["x"], "unit": "ann"}
        ) == first | {"new": False}


def test_numbers_are_refused_in_the_name_of_the_arms(taught: Here) -> None:
    assert check(taught, {"arms": {"a": {"age": 1e300}}})[0].startswith(
        "arms must hold numbers between"
    )


def test_after_all_of_it_good_offers_are_served(taught: Here) -> None:
    for case in ARMS:
        if case not in WITHOUT_JSON:
            refused(taught, {"context": CONTEXT, "arms": ARMS[case][0]})
    assert taught.post("decide", {"context": CONTEXT, "arms": GOOD})["new"]
    assert not re.findall(
        r'route="/v1/\S*",status="5', taught.ask("GET", "/metrics").text
    )
