"""Evaluations as jobs: answered beside the service, by the log; kept in it, so that no
restart loses one."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from oddsmith.evaluation import estimate, first_target, logged, snips, uniform_target
from oddsmith.logs.table import Log
from oddsmith.server.audit.log_export import log_batches_of
from oddsmith.server.compat.personalizer import evaluation_process, evaluations
from oddsmith.server.compat.personalizer.entrance import Personalizer
from oddsmith.server.compat.personalizer.times import seconds_of
from oddsmith.server.http.keys import create
from oddsmith.server.store.place import open_reader
from server.compat.personalizer_rest_table import ask
from server.compat.personalizer_table import V22, action, rank
from server.compat.test_personalizer import file
from server.served import Hands, Here, here, wait
from server.store.postgres_server import Server

HOME = "/personalizer/v1.0/evaluations"
MEANS = {"art": 0.2, "news": 0.5, "tech": 0.8}  # of a reward of 1; else it is -1


def served(path: Path, **more: Any) -> Any:
    return here(path, doors=[Personalizer()], **more)


def lived(one: Here, n: int) -> None:
    """Ranks of three actions in random orders, and their rewards."""
    rng = np.random.default_rng(0)
    for i in range(n):
        order = [action(name, topic=name) for name in rng.permutation(list(MEANS))]
        excluded = [order[0]["id"]] if i % 4 == 0 else []
        answer = one.ask(
            "POST",
            "/personalizer/v1.0/rank",
            json=rank(*order, excludedActions=excluded),
        ).json()
        value = 1.0 if rng.random() < MEANS[answer["rewardActionId"]] else -1.0
        done = one.ask(
            "POST",
            f"/personalizer/v1.0/events/{answer['eventId']}/reward",
            json={"value": value},
        )
        assert done.status_code == 204


def lived_by_batch(one: Here, hands: Hands, hours: int) -> None:
    """Fifty decisions an hour in random orders, and their rewards, by our own
    routes."""
    rng = np.random.default_rng(1)
    for _ in range(hours):
        orders = [
            [str(name) for name in rng.permutation(list(MEANS))] for _ in range(50)
        ]
        entries: list[Any] = [
            {"context": {}, "arms": {name: {"topic": name} for name in order}}
            for order in orders
        ]
        for entry, order in zip(entries[::4], orders[::4], strict=True):
            entry["eligible"] = order[1:]
        made = one.post("decide/batch", {"decisions": entries})["results"]
        values = [
            1.0 if rng.random() < MEANS[decided["arm"]] else -1.0 for decided in made
        ]
        rewards = [
            {"id": decided["id"], "reward": value}
            for decided, value in zip(made, values, strict=True)
        ]
        one.post("reward/batch", {"rewards": rewards})
        hands.pass_by(3600)


def posted(one: Here, **more: Any) -> str:
    answer = one.ask("POST", HOME, json=ask(**more))
    assert (answer.status_code, answer.json()["status"]) == (201, "pending")
    id: str = answer.json()["id"]
    assert answer.headers["location"] == f"{HOME}/{id}"
    return id


def ended(one: Here, id: str) -> Any:
    """An evaluation once it is not pending."""
    wait(lambda: one.get(f"{HOME}/{id}")["status"] != "pending", 300)
    return one.get(f"{HOME}/{id}")


def test_it_is_answered_by_our_evaluation_of_the_log(tmp_path: Path) -> None:
    path, hands = file(tmp_path), Hands(wall=1.7e9)  # 2023-11-14T22:13:20Z
    path.write_text(f"floors = 0.3\n{path.read_text()}")
    with served(path, clock=hands.clock()) as one:
        lived_by_batch(one, hands, 10)
        policies = [
            {"name": "even", "arguments": "uniform"},
            {"name": "vw", "arguments": "--cb_type mtr"},
        ]
        found = ended(one, posted(one, policies=policies))
        assert (found["status"], found["events"], found["why"]) == (
            "completed",
            500,
            None,
        )
        (listed,) = one.get(HOME)
        assert listed == found | {"policyResults": []}
    with open_reader(str(tmp_path / "news.sqlite"), "news") as reading:
        log = Log.concatenated(
            [log for log, _ in log_batches_of(reading) if log is not None]
        )
        hours = (
            seconds_of("startTime", f"2023-11-{time}Z")
            for time in ("14T23:13:20", "15T03:13:19.9999999")
        )
        # of four hours, fifty each
        assert len(evaluation_process.log_between(reading, *hours)) == 200
    results = {result["name"]: result for result in found["policyResults"]}
    assert list(results) == ["Online", "Baseline", "Random", "even", "vw"]
    assert "Vowpal Wabbit cannot be run here" in results["vw"]["refused"]
    assert results["even"]["totalSummary"] == results["Random"]["totalSummary"]
    for name, terms in {
        "Online": logged(log),
        "Baseline": snips(log, first_target(log)),
        "Random": snips(log, uniform_target(log)),
    }.items():
        total, own = results[name]["totalSummary"], estimate(terms)
        assert [total["averageReward"], total["low"], total["high"]] == pytest.approx(
            [2 * own.value - 1, 2 * own.low - 1, 2 * own.high - 1], abs=1e-9
        )
        assert {one["aggregateTimeWindow"] for one in results[name]["summary"]} == {
            "PT1H"
        }


def test_a_restart_loses_none(tmp_path: Path) -> None:
    path = file(tmp_path)
    with served(path) as one:
        lived(one, 5)
        id, other = posted(one), posted(one, name="other")
        assert one.ask("DELETE", f"{HOME}/{other}").status_code == 204
    with served(path) as one:
        jobs = one.experiment().long_reads.jobs
        assert [(each["id"], each["status"]) for each in one.get(HOME)] == [
            (id, "pending")
        ]
        assert len(jobs) == 0
        found = ended(one, id)  # who asks for it begins it
        assert (found["status"], found["events"]) == ("completed", 5)
    with served(path) as one:
        assert one.get(f"{HOME}/{id}") == found
        assert len(one.experiment().long_reads.jobs) == 0
        # evaluations are in the log, and not in the state
        assert one.state().learnt == 5


def test_processes_end_with_their_evaluation_and_with_the_service(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In place of an evaluation a program that says its number, and never ends."""
    note = tmp_path / "pid"
    (tmp_path / "endless.py").write_text(
        f"import os, time\nopen({str(note)!r}, 'w').write(str(os.getpid()))\n"
        "time.sleep(600)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(evaluation_process, "__name__", "endless")

    def begun() -> int:
        wait(lambda: note.exists() and note.read_text() != "")
        pid = int(note.read_text())
        note.unlink()
        return pid

    def is_gone(pid: int) -> bool:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        return False

    with served(file(tmp_path)) as one:
        lived(one, 1)
        id = posted(one)
        pid = begun()
        second = posted(one)  # which waits for the first
        assert one.ask("DELETE", f"{HOME}/{id}").status_code == 204
        wait(lambda: is_gone(pid))
        pid = begun()
        assert one.get(f"{HOME}/{second}")["status"] == "pending"
        for _ in range(9):
            posted(one)
        refused = one.ask("POST", HOME, json=ask())
        assert (refused.status_code, refused.json()["error"]["code"]) == (
            429,
            "OperationNotAllowed",
        )
        assert len(one.get(HOME)) == 10  # what is refused is not kept
        assert (
            one.ask("POST", "/personalizer/v1.0/rank", json=rank()).status_code == 201
        )
    wait(lambda: is_gone(pid))


@pytest.mark.parametrize(
    ("program", "seconds", "status", "why"),
    [
        (
            "import time\ntime.sleep(600)\n",
            0.5,
            "timeout",
            "it took more than 0.5 seconds: choose a shorter time",
        ),
        ("raise SystemExit(7)\n", 60, "failed", "its process ended with 7"),
        ('print(\'{"why": "so it is"}\')\n', 60, "failed", "so it is"),
    ],
)
def test_what_does_not_end_well_is_told(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    program: str,
    seconds: float,
    status: str,
    why: str,
) -> None:
    (tmp_path / "odd_program.py").write_text(program)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(evaluation_process, "__name__", "odd_program")
    monkeypatch.setattr(evaluations, "_SECONDS", seconds)
    with served(file(tmp_path)) as one:
        lived(one, 1)
        found = ended(one, posted(one))
    assert found["status"] == status
    assert why in found["why"]


def test_an_order_that_is_too_large_or_of_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = file(tmp_path)
    with served(path) as one:
        lived(one, 5)
    with open_reader(str(tmp_path / "news.sqlite"), "news") as reading:
        with pytest.raises(ValueError, match="got none from 1970-01-01T00:00:01"):
            evaluation_process.log_between(reading, 1.0, 2.0)
        monkeypatch.setattr(evaluation_process, "CELLS", 14)
        with pytest.raises(ValueError, match="choose a shorter time"):
            evaluation_process.log_between(reading, 0.0, 1e10)


@pytest.mark.soak
def test_replicas_know_the_same_evaluations(
    tmp_path: Path, server: Server, experiment: str
) -> None:
    paths = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        paths.append(
            file(tmp_path / name, experiment, f"store = {json.dumps(server.url())}\n")
        )
    with served(paths[0]) as one, served(paths[1]) as other:
        lived(one, 5)
        id = posted(one)
        found = ended(one, id)
        assert (found["status"], found["events"]) == ("completed", 5)
        assert other.get(f"{HOME}/{id}") == found
        assert len(other.experiment(experiment).long_reads.jobs) == 0
        assert other.ask("DELETE", f"{HOME}/{id}").status_code == 204
        assert one.get(HOME) == []


def test_ids_of_the_caller(tmp_path: Path) -> None:
    def put(one: Here, id: str, **more: Any) -> Any:
        return one.ask(
            "PUT",
            f"/news/personalizer/evaluations/{id}?api-version={V22}",
            json=ask(**more),
        )

    with served(file(tmp_path)) as one:
        lived(one, 1)
        first = put(one, "a%2Fb%20%C3%A9")
        assert first.json()["id"] == "a/b é"
        where = first.headers["location"]
        assert (
            where == f"/news/personalizer/evaluations/a%2Fb%20%C3%A9?api-version={V22}"
        )
        assert one.get(where)["id"] == "a/b é"
        assert put(one, "a%2Fb%20%C3%A9").status_code == 201
        assert len(one.get(HOME)) == 1
        assert put(one, "a%2Fb%20%C3%A9", name="another").status_code == 400
        assert one.ask("DELETE", where).status_code == 204
        assert "or another id" in put(one, "a%2Fb%20%C3%A9").text
        assert one.get(HOME) == []


def test_the_ends_of_time_are_told_as_they_can_be_written(tmp_path: Path) -> None:
    """As programs have them for "always"; what could not be told would be in the log,
    and in the way of all others."""
    with served(file(tmp_path)) as one:
        lived(one, 3)
        for start, end in (
            ("0001-01-01", "9999-12-31T23:59:59.9999999Z"),
            ("0001-01-01T00:00+23:59", "9999-12-31T23-23:59"),
        ):
            id = posted(one, startTime=start, endTime=end)
        found = one.get(HOME)
        assert {told["startTime"] for told in found} == {"0001-01-01T00:00:00.000Z"}
        assert {told["endTime"] for told in found} == {"9999-12-31T23:59:59.000Z"}
        assert ended(one, id)["events"] == 3


def test_a_request_that_is_sent_again_is_no_second_evaluation(tmp_path: Path) -> None:
    with served(file(tmp_path)) as one:
        lived(one, 1)
        headers = {"x-ms-client-request-id": "8a1f"}
        first, again = (
            one.ask("POST", HOME, json=ask(), headers=headers) for _ in range(2)
        )
        assert (first.status_code, again.status_code, len(one.get(HOME))) == (
            201,
            201,
            1,
        )
        assert first.json()["id"] == again.json()["id"] == "8a1f"


def test_what_is_served_may_be_applied_and_nothing_else(tmp_path: Path) -> None:
    with served(file(tmp_path)) as one:
        lived(one, 1)
        id = posted(one, policies=[{"name": "mine", "arguments": "uniform"}])
        for name, status in [
            ("Online", 204),
            ("mine", 403),
            ("Baseline", 403),
            ("other", 400),
        ]:
            body = {"evaluationId": id, "policyName": name}
            path = "/personalizer/v1.1-preview.3/configurations/applyFromEvaluation"
            assert one.ask("POST", path, json=body).status_code == status


def test_keys_that_read_do_not_ask(tmp_path: Path) -> None:
    keys = tmp_path / "keys.json"
    boss, reader, site = (
        {"Ocp-Apim-Subscription-Key": create(keys, scope, [scope], [])}
        for scope in ("admin", "read", "decide")
    )
    with served(file(tmp_path), keys=keys) as one:
        assert (
            one.ask(
                "POST", "/personalizer/v1.0/rank", json=rank(), headers=site
            ).status_code
            == 201
        )
        for headers, method, status in [
            (site, "GET", 403),
            (reader, "GET", 200),
            (reader, "POST", 403),
            ({}, "POST", 401),
            (boss, "POST", 201),
        ]:
            answer = one.ask(
                method,
                HOME,
                headers=headers,
                **({"json": ask()} if method == "POST" else {}),
            )
            assert answer.status_code == status, answer.text
        for headers, path, status in [
            (site, "/status", 200),
            ({}, "/status", 401),
            (reader, "/model", 403),
            (reader, "/model/properties", 200),
            (boss, "/model", 200),
        ]:
            assert (
                one.ask("GET", f"/personalizer/v1.0{path}", headers=headers).status_code
                == status
            )
