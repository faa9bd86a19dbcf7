"""Windows that are open: rewards that count at once are one-sided, rewards that count
at the close are not."""

from pathlib import Path
from typing import Any

import pytest

from server.served import Hands, Here, here, place, wait
from server.store.samples import bits

WINDOW = "window_s = 1000\ndefault_reward = 0.0\n"
AT_CLOSE = WINDOW + 'reward_rule = "first_at_close"\n'


def visits(served: Here, n: int, *, since: int = 0, clicks: int = 8) -> None:
    """So many decisions, one of `clicks` clicked at once."""
    for i in range(since, since + n):
        served.decide(f"d{i}")
        if i % clicks == 0:
            served.reward(f"d{i}", 1.0)
    served.state()


def told(served: Here) -> tuple[Any, str]:
    return served.get("/v1/checks")["open_windows"], served.get("/v1/values")[
        "sentence"
    ]


@pytest.mark.usefixtures("any_arms")
def test_a_click_counts_where_its_absence_does(tmp_path: Path) -> None:
    hands = Hands(wall=1e9)
    with here(place(tmp_path, service=AT_CLOSE), clock=hands.clock()) as served:
        visits(served, 40)
        assert served.get("/v1/posterior")["learnt"] == 0
        check, sentence = told(served)
        assert check == {
            "open": 40,
            "counted": 0,
            "word": "well",
            "sentence": "40 of 40 decisions count when their window closes.",
        }
        assert "count already" not in sentence
        assert not served.reward("d0", 1.0)["new"]
        assert served.reward("d0", 0.5, status=409)["code"] == "conflict"
        assert (
            "key must be left out"
            in served.reward("d1", 1.0, status=422, key="x")["error"]
        )
        hands.pass_by(2000)
        wait(lambda: served.get("/v1/posterior")["learnt"] == 40)
        assert [served.get(f"/v1/decisions/d{i}")["reward"] for i in range(9)] == [
            1.0,
            *[0.0] * 7,
            1.0,
        ]
        assert bits(served.state()) == bits(served.defined())
        served.reward("d1", 1.0)
        assert served.get("/v1/decisions/d1")["reward"] == 1.0
        assert bits(served.state()) == bits(served.defined())


def test_while_windows_are_open_the_checks_and_values_say_that_clicks_alone_were_learnt(
    tmp_path: Path,
) -> None:
    hands = Hands(wall=1e9)
    with here(place(tmp_path, service=WINDOW), clock=hands.clock()) as served:
        visits(served, 40)
        check, sentence = told(served)
        assert (check["open"], check["counted"], check["word"]) == (40, 5, "look")
        assert check["sentence"].startswith(
            "35 of 40 decisions wait for their window, and 5 rewards of such decisions "
            "count already: what is learnt and shown meanwhile is too high. "
        )
        assert 'reward_rule = "first_at_close"' in check["sentence"]
        assert sentence.endswith(check["sentence"])
        hands.pass_by(4000)
        wait(lambda: served.get("/v1/posterior")["learnt"] == 40)
        visits(served, 1, since=41)
        check, sentence = told(served)
        assert (check["word"], check["sentence"]) == (
            "well",
            "1 of 41 decisions wait for their window.",
        )
        assert not sentence.endswith(check["sentence"])


def test_rewards_that_nearly_always_come_only_take_time(tmp_path: Path) -> None:
    hands = Hands(wall=1e9)
    with here(place(tmp_path, service=WINDOW), clock=hands.clock()) as served:
        visits(served, 40, clicks=1)
        hands.pass_by(4000)
        visits(served, 40, since=40, clicks=8)
        check, _ = told(served)
        assert (check["open"], check["counted"], check["word"]) == (40, 5, "well")


def test_without_a_window_nothing_waits(tmp_path: Path) -> None:
    with here(place(tmp_path)) as served:
        visits(served, 40)
        assert told(served)[0]["word"] == "well"
