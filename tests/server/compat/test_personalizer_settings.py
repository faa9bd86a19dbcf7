"""Configuration and modes of Personalizer's API: what may change does, in the log, with
effect, and after restarts."""

import json
import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from oddsmith.cli.main import main
from oddsmith.server.audit.chart import chart_of
from oddsmith.server.compat.personalizer.entrance import Personalizer
from oddsmith.server.store.place import open_reader
from server.compat.personalizer_table import V22, action, rank
from server.compat.test_personalizer import address, file
from server.served import Hands, Here, here, wait
from server.store.postgres_server import Server

PATH = "/configurations/service"
DAY = 86_400.0


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Here]:
    path = file(tmp_path_factory.mktemp("door"), service="window_s = 600\n")
    with here(path, doors=[Personalizer()]) as one:
        yield one


def get(served: Here, version: str = "v1.1-preview.3") -> Any:
    answer = served.ask("GET", address(version, PATH))
    assert answer.status_code == 200, answer.text
    return answer.json()


def put(
    served: Here, status: int = 200, version: str = "v1.1-preview.3", **changes: Any
) -> Any:
    answer = served.ask(
        "PUT", address(version, PATH), json=get(served, version) | changes
    )
    assert answer.status_code == status, answer.text
    return answer.json() if status == 200 else answer.json()["error"]


def ranked(served: Here, *actions: dict[str, Any], **more: Any) -> Any:
    answer = served.ask("POST", address("v1.0", "/rank"), json=rank(*actions, **more))
    assert answer.status_code == 201, answer.text
    return answer.json()


def kinds(served: Here, id: str) -> list[tuple[str, float | None]]:
    return [
        (line.kind, line.value)
        for line in served.experiment().store.history([id], 2**62)
    ]


def test_what_is_told_may_be_put_back_and_changes_nothing(tmp_path: Path) -> None:
    waits = (
        "PT0.0000001S",
        "PT10M0.1234567S",
        "00:10:00.1234567",
        "P36499DT23H59M59.9999999S",
    )
    with here(file(tmp_path), doors=[Personalizer()]) as served:
        for wait in waits:
            told = put(served, rewardWaitTime=wait)
            for version in ("v1.1-preview.3", "v1.0"):
                put(served, version=version)
                assert get(served) == told
        assert (
            "must be more than 0"
            in put(served, 400, rewardWaitTime="PT0.00000001S")["message"]
        )


def test_the_configuration_in_each_version(tmp_path: Path) -> None:
    with here(
        file(tmp_path, service="window_s = 600\nerase_after_days = 90\n"),
        doors=[Personalizer()],
    ) as served:
        first, preview = get(served, "v1.0"), get(served)
        assert first == {
            "rewardWaitTime": "00:10:00",
            "defaultReward": -1.0,
            "rewardAggregation": "earliest",
            "explorationPercentage": 0.005,
            "modelExportFrequency": "00:05:00",
            "logRetentionDays": 90,
            "logMirrorEnabled": False,
            "logMirrorSasUri": "",
        }
        assert preview == first | {
            "rewardWaitTime": "PT10M",
            "modelExportFrequency": "PT5M",
            "learningMode": "Online",
            "isAutoOptimizationEnabled": False,
            "autoOptimizationFrequency": "P28D",
            "isInferenceExplainabilityEnabled": False,
        }
        assert get(served, V22) == preview
        assert put(served) == preview
        # nothing has changed
        assert served.experiment().store.of_setting("personalizer") == []


def test_what_is_safe_changes_in_the_log_and_after_a_restart(tmp_path: Path) -> None:
    path = file(tmp_path, service="window_s = 600\n")
    changes: dict[str, Any] = {
        "rewardWaitTime": "04:00:00",  # in the spelling of v1.0
        "defaultReward": 0.1,
        "logRetentionDays": 30,
        "logMirrorEnabled": True,
        "isAutoOptimizationEnabled": True,
        "autoOptimizationStartDate": "2022-01-01T00:00:00Z",
    }
    with here(path, doors=[Personalizer()]) as served:
        changed = put(
            served, **changes, logMirrorSasUri="https://x.example/logs?sig=secret"
        )
        assert changed.pop("lastConfigurationEditDate").endswith("Z")
        assert changes | {
            "rewardWaitTime": "PT4H",
            "logMirrorSasUri": "https://x.example/logs",
        } == {name: changed[name] for name in (*changes, "logMirrorSasUri")}
        (line,) = served.experiment().store.of_setting("personalizer")
        assert json.loads(line.body or "")["value"]["window_s"] == 4 * 3600.0
        assert "secret" not in (line.body or "")
    with here(path, doors=[Personalizer()]) as served:
        again = get(served)
        del again["lastConfigurationEditDate"]
        assert again == changed
        settings = served.experiment().settings
        assert (settings.window, settings.default, settings.erase_after_days) == (
            4 * 3600.0,
            0.55,
            30.0,
        )
        (facts,) = served.get("/v1/experiments")["experiments"]
        assert facts["window_s"] == 4 * 3600.0


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        (
            {"rewardAggregation": "sum"},
            "rewardAggregation must stay 'earliest', because it is the store's",
        ),
        ({"explorationPercentage": 0.2}, "explorationPercentage must stay 0.005"),
        ({"explorationPercentage": 1.2}, "explorationPercentage must be a number <= 1"),
        ({"defaultReward": 1.5}, "defaultReward must be a number <= 1"),
        (
            {"rewardWaitTime": "ten minutes"},
            "rewardWaitTime must be a duration such as PT10M or 00:10:00",
        ),
        ({"rewardWaitTime": "PT0S"}, "rewardWaitTime must be more than 0"),
        ({"rewardWaitTime": "-PT5M"}, "rewardWaitTime must be more than 0"),
        ({"rewardWaitTime": None}, "rewardWaitTime must be a string"),
        ({"modelExportFrequency": "P"}, "modelExportFrequency must be a duration"),
        (
            {"logRetentionDays": 0},
            "logRetentionDays must be -1, or at least a day more",
        ),
        (
            {"logRetentionDays": 3, "rewardWaitTime": "P2DT1H"},
            "logRetentionDays must be -1, or at least",
        ),
        ({"logRetentionDays": -2}, "logRetentionDays must be a number >= -1"),
        (
            {"learningMode": "Offline"},
            "learningMode must be Online or Apprentice or LoggingOnly",
        ),
        (
            {"learningMode": "Apprentice", "rewardWaitTime": "PT4H"},
            "learningMode must not change together",
        ),
        (
            {"learningMode": "Apprentice", "defaultReward": 0.5},
            "learningMode must not change together",
        ),
    ],
)
def test_what_is_not_safe_is_refused(
    served: Here, changes: dict[str, Any], why: str
) -> None:
    error = put(served, 400, **changes)
    mode = "learningMode" in changes and len(changes) > 1
    assert error["code"] == f"Invalid{'LearningMode' * mode}ServiceConfiguration"
    assert re.search(re.escape(why), error["message"]), error["message"]
    assert served.experiment().store.of_setting("personalizer") == []


def test_what_is_needed_must_be_there(tmp_path: Path) -> None:
    with here(file(tmp_path), doors=[Personalizer()]) as served:
        answer = served.ask(
            "PUT", address("v1.0", PATH), json={"rewardWaitTime": "PT1M"}
        )
        assert answer.status_code == 400
        assert answer.json()["error"]["message"].startswith(
            "defaultReward must be given"
        )
        # without a window rewards are waited for for ever
        assert get(served)["rewardWaitTime"] == "P36500D"
        assert put(served, logRetentionDays=-1)["rewardWaitTime"] == "P36500D"


def test_a_wait_that_changes_holds_for_events_that_are_open(tmp_path: Path) -> None:
    hands = Hands()
    path = file(tmp_path)
    with here(path, doors=[Personalizer()], clock=hands.clock()) as served:
        early = ranked(served)["eventId"]
        put(served, rewardWaitTime="PT1H", defaultReward=0.5)
        hands.pass_by(3601)
        wait(lambda: kinds(served, early)[1:] == [("default", 0.75)])
        late = ranked(served)["eventId"]
        put(served, rewardWaitTime="PT20S", defaultReward=-0.5)
        hands.pass_by(21)
        wait(lambda: kinds(served, late)[1:] == [("default", 0.25)])
    with closing(open_reader(str(path.with_suffix(".sqlite")), "news")) as reading:
        chart = chart_of(reading, "here", hands.wall + 300)
    assert (chart.opened, chart.overdue) == (2, 0)


def test_retention_erases(tmp_path: Path) -> None:
    hands = Hands()
    with here(file(tmp_path), doors=[Personalizer()], clock=hands.clock()) as served:
        put(served, rewardWaitTime="PT1H")
        id = ranked(served)["eventId"]
        hands.pass_by(3 * DAY)
        put(served, logRetentionDays=2)
        store = served.experiment().store
        wait(
            lambda: (
                type(
                    store.decisions([served.experiment().find(id)[0].position])[  # type: ignore[index]
                        0
                    ].context
                ).__name__
                == "Erased"
            )
        )


def test_apprentice_shows_the_first_action_and_keeps_its_own_draw(
    tmp_path: Path,
) -> None:
    path = file(tmp_path, service="window_s = 600\n")
    actions = [action(name, place=n) for n, name in enumerate("abcd")]
    with here(path, doors=[Personalizer()]) as served:
        assert put(served, learningMode="Apprentice")["learningMode"] == "Apprentice"
        assert "learningMode" not in get(served, "v1.0")
        for excluded, shown in (([], "a"), (["a", "c"], "b")):
            answer = ranked(
                served, *actions, excludedActions=excluded, eventId=f"of {shown}"
            )
            assert answer["rewardActionId"] == shown
            assert {
                one["id"]: one["probability"] for one in answer["ranking"]
            } == dict.fromkeys("abcd", 0.0) | {shown: 1.0}
            assert [one["id"] for one in answer["ranking"]] == list("abcd")
            again = ranked(
                served, *actions, excludedActions=excluded, eventId=f"of {shown}"
            )
            assert again == answer
        found = served.experiment().find("of b")
        assert found is not None
        (evidence,) = served.experiment().store.evidence([found[0].position])
        assert evidence.shadow
        assert evidence.own is not None
        assert evidence.own.odds[[0, 2]].tolist() == [0.0, 0.0]
        assert evidence.own.odds.sum() == pytest.approx(1)
        assert put(served, learningMode="LoggingOnly")["learningMode"] == "LoggingOnly"
        assert ranked(served, *actions)["rewardActionId"] == "a"
    with here(path, doors=[Personalizer()]) as served:
        assert get(served)["learningMode"] == "LoggingOnly"
        # v1.0 does not know the mode: it stays
        put(served, version="v1.0", modelExportFrequency="00:01:00")
        assert get(served)["learningMode"] == "LoggingOnly"
        put(served, learningMode="Online")
        drawn = {
            ranked(served, *actions, eventId=f"visit {n}")["rewardActionId"]
            for n in range(40)
        }
        assert len(drawn) > 1
    # the log says that an incumbent acted
    assert main(["verify", str(path.with_suffix(".sqlite")), "--strict"]) == 0


def test_a_file_with_shadow_is_an_apprentice(tmp_path: Path) -> None:
    with here(
        file(tmp_path, service="shadow = true\n"), doors=[Personalizer()]
    ) as served:
        assert get(served)["learningMode"] == "Apprentice"
        assert ranked(served)["rewardActionId"] == "a"


def test_a_change_that_is_sent_again_is_one_event(tmp_path: Path) -> None:
    with here(file(tmp_path), doors=[Personalizer()]) as served:
        body, headers = (
            get(served) | {"rewardWaitTime": "PT1H"},
            {"x-ms-client-request-id": "change 1"},
        )
        for _ in range(2):
            assert (
                served.ask(
                    "PUT", address("v1.0", PATH), json=body, headers=headers
                ).status_code
                == 200
            )
        assert len(served.experiment().store.of_setting("personalizer")) == 1


def test_replicas_follow(server: Server, tmp_path: Path) -> None:
    store = f"store = {json.dumps(server.url())}\nwindow_s = 600\n"
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    paths = [
        file(tmp_path / name, "followed", service=store) for name in ("one", "two")
    ]
    with (
        here(paths[0], doors=[Personalizer()]) as one,
        here(paths[1], doors=[Personalizer()]) as other,
    ):
        put(one, learningMode="Apprentice")
        wait(lambda: get(other)["learningMode"] == "Apprentice")
        assert ranked(other)["rewardActionId"] == "a"
        put(other, rewardWaitTime="PT4H", logRetentionDays=30)
        wait(lambda: one.experiment("followed").settings.window == 4 * 3600.0)
        assert get(one) == get(other)
        assert one.experiment("followed").settings.erase_after_days == 30.0
