"""Feature flags by OFREP: statuses and shapes as its OpenAPI document has them, units,
and what counts when."""

import json
import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from oddsmith.core.errors import InvalidInput
from oddsmith.files.policy import read_policy
from oddsmith.server.http.keys import create
from oddsmith.server.http.rates import Rate
from server.flag_files import STICKY, all_kinds, flag
from server.served import Here, here, process, wait
from server.store.postgres_server import Server

ALL = "/ofrep/v1/evaluate/flags"
VALUES: dict[str, dict[str, Any]] = {
    "banner": {"sports": "sports", "é/ tech": "é/ tech"},
    "checkout": {"on": True, "off": False},
    "look": {"on": {"colour": "red", "sizes": [1, 2]}, "off": {}},
    "size": {"on": 3, "off": 5},
    "speed": {"on": 1.0, "off": 2.5},
}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Here]:
    with here(*all_kinds(tmp_path_factory.mktemp("flags"))) as one:
        yield one


def ask(served: Any, unit: str, flag: str = "", **more: Any) -> Any:
    """The answer to a flag, or to all, of a unit."""
    path = f"{ALL}/{flag}" if flag else ALL
    return served.ask(
        "POST", path, json={"context": {"targetingKey": unit, "plan": "free"}}, **more
    )


def kinds(served: Here, flag: str, id: str) -> list[str]:
    """The kinds of events of a decision."""
    return [
        event["kind"]
        for event in served.get(f"/v1/decisions/{id}?experiment={flag}")["events"]
    ]


@pytest.mark.parametrize("flag", VALUES)
def test_a_flag_has_the_value_of_the_arm_that_the_unit_keeps(
    served: Here, flag: str
) -> None:
    seen = set()
    for number in range(30):
        answer = ask(served, f"unit {number}", flag)
        assert (answer.status_code, answer.headers["content-type"]) == (
            200,
            "application/json",
        )
        told = answer.json()
        assert set(told) == {"key", "value", "variant", "reason", "metadata"}
        assert (told["key"], told["reason"]) == (flag, "SPLIT")
        value, expected = told["value"], VALUES[flag][told["variant"]]
        assert (type(value), value) == (type(expected), expected)
        record = served.get(
            f"/v1/decisions/{told['metadata']['decision_id']}?experiment={flag}"
        )
        assert told["metadata"] == {
            "decision_id": record["id"],
            "experiment": flag,
            "propensity": record["odds"][told["variant"]],
        }
        assert (record["context"], record["arm"], record["deferred"]) == (
            {"plan": "free"},
            told["variant"],
            False,
        )
        assert ask(served, f"unit {number}", flag).json() == told
        seen.add(told["variant"])
    # all thirty alike: less than once in 10 million runs
    assert seen == set(VALUES[flag])


UNITS = (
    "anna",
    "é ü",
    "a/b?c=d&e#f%20",
    '\n\t"\\',
    "0",
    "x" * 256,
    "日本",
    "\U0001f600",
)


@pytest.mark.parametrize("unit", UNITS)
def test_a_unit_may_have_any_name(served: Here, unit: str) -> None:
    first = ask(served, unit, "checkout").json()
    assert ask(served, unit, "checkout").json() == first
    rows = served.get("/v1/decisions?experiment=checkout&limit=1")["decisions"]
    assert rows[0]["unit"] == unit


WRONG: list[tuple[str, bytes, int, str]] = [
    ("checkout", b"{}", 400, "TARGETING_KEY_MISSING"),
    ("checkout", b'{"context": null}', 400, "TARGETING_KEY_MISSING"),
    ("checkout", b'{"context": {"plan": "free"}}', 400, "TARGETING_KEY_MISSING"),
    ("checkout", b'{"context": {"targetingKey": ""}}', 400, "TARGETING_KEY_MISSING"),
    ("checkout", b'{"context": {"targetingKey": 7}}', 400, "INVALID_CONTEXT"),
    (
        "checkout",
        b'{"context": {"targetingKey": "%s"}}' % (b"x" * 257),
        400,
        "INVALID_CONTEXT",
    ),
    ("checkout", b'{"context": {"targetingKey": "a\\u0000b"}}', 400, "INVALID_CONTEXT"),
    (
        "checkout",
        b'{"context": {"targetingKey": "a", "n": 1e300}}',
        400,
        "INVALID_CONTEXT",
    ),
    ("checkout", b'{"context": [1]}', 400, "PARSE_ERROR"),
    ("checkout", b'{"context": {"targetingKey": "\\ud800"}}', 400, "PARSE_ERROR"),
    ("checkout", b"[]", 400, "PARSE_ERROR"),
    ("checkout", b"{", 400, "PARSE_ERROR"),
    ("checkout", b"", 400, "PARSE_ERROR"),
    (
        "checkout",
        b'{"context": {"targetingKey": "a", "n": "%s"}}' % (b"x" * 70_000),
        400,
        "GENERAL",
    ),
    ("chess", b'{"context": {"targetingKey": "a"}}', 404, "FLAG_NOT_FOUND"),
    ("each-time", b'{"context": {"targetingKey": "a"}}', 404, "FLAG_NOT_FOUND"),
    ("watched", b'{"context": {"targetingKey": "a"}}', 404, "FLAG_NOT_FOUND"),
    ("site", b'{"context": {"targetingKey": "a"}}', 404, "FLAG_NOT_FOUND"),
    ("a b", b'{"context": {"targetingKey": "a"}}', 404, "FLAG_NOT_FOUND"),
]


@pytest.mark.parametrize(("flag", "body", "status", "code"), WRONG)
def test_what_is_wrong_has_a_status_a_code_and_a_sentence(
    served: Here, flag: str, body: bytes, status: int, code: str
) -> None:
    answer = served.ask("POST", f"{ALL}/{flag}", content=body)
    told = answer.json()
    assert (answer.status_code, told["errorCode"], set(told)) == (
        status,
        code,
        {"key", "errorCode", "errorDetails"},
    )
    assert told["key"] == flag
    assert len(told["errorDetails"]) > 10
    if status == 400 and code != "GENERAL":
        whole = served.ask("POST", ALL, content=body)
        # of the flags, not of the call
        if code == "INVALID_CONTEXT" and b'"n"' in body:
            assert {one["errorCode"] for one in whole.json()["flags"]} == {code}
        else:
            assert (whole.status_code, whole.json()["errorCode"]) == (400, code)
            assert set(whole.json()) == {"errorCode", "errorDetails"}


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", ALL, 405),
        ("PUT", f"{ALL}/checkout", 405),
        ("POST", "/ofrep/v2/evaluate/flags", 404),
        ("POST", f"{ALL}/", 404),
        ("POST", "/ofrep/", 404),
        ("GET", "/ofrep/v1/configuration", 404),
    ],
)
def test_other_paths_and_methods(
    served: Here, method: str, path: str, status: int
) -> None:
    answer = served.ask(method, path)
    assert (answer.status_code, answer.json()["errorCode"]) == (status, "GENERAL")


def test_all_flags_are_deferred_decisions_that_count_once_activated(
    served: Here,
) -> None:
    first = ask(served, "bulk")
    flags = {one["key"]: one for one in first.json()["flags"]}
    assert list(flags) == sorted(VALUES)
    assert all(
        VALUES[key][one["variant"]] == one["value"] for key, one in flags.items()
    )
    again = ask(served, "bulk")
    assert (again.json(), again.headers["etag"]) == (
        first.json(),
        first.headers["etag"],
    )
    ids = {key: one["metadata"]["decision_id"] for key, one in flags.items()}
    assert kinds(served, "size", ids["size"]) == ["decision"]
    assert ask(served, "bulk", "checkout").json() == flags["checkout"]  # an exposure
    assert ask(served, "bulk", "checkout").json() == flags["checkout"]
    assert kinds(served, "checkout", ids["checkout"]) == ["decision", "activation"]
    served.post("reward", {"id": ids["look"], "reward": 1, "experiment": "look"})
    assert (
        served.get(f"/v1/decisions/{ids['look']}?experiment=look")["counts_since"]
        is None
    )
    served.post("activate", {"id": ids["look"], "experiment": "look"})
    assert (
        served.get(f"/v1/decisions/{ids['look']}?experiment=look")["counts_since"]
        is not None
    )
    only = served.ask(
        "POST", f"{ALL}/size?deferred=true", json={"context": {"targetingKey": "bulk"}}
    )
    size = flags["size"]
    assert only.json() == size | {"metadata": size["metadata"] | {"counts": False}}
    assert kinds(served, "size", ids["size"]) == ["decision"]


def test_an_answer_that_is_known_is_not_sent_again(served: Here) -> None:
    tag = ask(served, "etag").headers["etag"]
    for sent, status in (
        (tag, 304),
        (f'"x", W/{tag}', 304),
        ("*", 304),
        ('"x"', 200),
        ("", 200),
    ):
        answer = ask(served, "etag", headers={"If-None-Match": sent})
        assert (answer.status_code, answer.headers["etag"]) == (status, tag)
        assert bool(answer.content) == (status == 200)
    assert ask(served, "another").headers["etag"] != tag


def test_a_unit_keeps_its_flag_when_its_context_is_erased(served: Here) -> None:
    flags = {one["key"]: one for one in ask(served, "erased").json()["flags"]}
    served.experiment("speed").store.erase(1e12)
    assert ask(served, "erased", "speed").json() == flags["speed"]
    assert kinds(served, "speed", flags["speed"]["metadata"]["decision_id"]) == [
        "decision"
    ]


def test_a_flag_that_is_not_ready_does_not_keep_the_others(tmp_path: Path) -> None:
    with here(flag(tmp_path, "a"), flag(tmp_path, "b")) as served:
        follower = served.experiment("a").follower
        follower.now = follower.now._replace(state=None)
        answer = ask(served, "u", "a")
        assert (
            answer.status_code,
            answer.json()["errorCode"],
            answer.json()["key"],
        ) == (503, "GENERAL", "a")
        assert int(answer.headers["retry-after"]) > 0
        first, second = ask(served, "u").json()["flags"]
        assert (first["key"], first["errorCode"]) == ("a", "GENERAL")
        assert second["key"] == second["metadata"]["experiment"] == "b"


def test_keys_are_sent_in_either_header_and_are_for_their_flags(tmp_path: Path) -> None:
    keys, files = tmp_path / "keys.json", [flag(tmp_path, name) for name in ("a", "b")]
    mine, reads = (
        create(keys, "mine", ["decide"], ["a"]),
        create(keys, "reads", ["read"]),
    )
    with here(*files, keys=keys, rate=Rate(0.001, 12)) as served:
        for headers in ({"Authorization": f"Bearer {mine}"}, {"X-API-Key": mine}):
            assert ask(served, "u", "a", headers=headers).status_code == 200
            assert [
                one["key"] for one in ask(served, "u", headers=headers).json()["flags"]
            ] == ["a"]
            refused = ask(served, "u", "b", headers=headers)
            assert (
                refused.status_code,
                refused.json()["errorCode"],
                refused.json()["key"],
            ) == (403, "GENERAL", "b")
        for sent in ({}, {"X-API-Key": "od_wrong"}):
            nobody = ask(served, "u", "a", headers=sent)
            assert (nobody.status_code, nobody.headers["www-authenticate"]) == (
                401,
                "Bearer",
            )
        assert ask(served, "u", "a", headers={"X-API-Key": reads}).status_code == 403
        while (
            answer := ask(served, "u", "a", headers={"X-API-Key": mine})
        ).status_code == 200:
            pass
        assert (answer.status_code, answer.json()["errorCode"]) == (429, "GENERAL")
        assert int(answer.headers["retry-after"]) > 0


def test_killed_between_the_flags_and_their_reward(tmp_path: Path) -> None:
    file, body = (
        flag(tmp_path, "checkout"),
        {"context": {"targetingKey": "anna", "plan": "free"}},
    )
    with process(file) as one:
        told = one.client.post(ALL, json=body)
        os.kill(one.pid, signal.SIGKILL)
    (evaluated,) = told.json()["flags"]
    id = evaluated["metadata"]["decision_id"]
    with process(file) as two:
        assert two.client.post(ALL, json=body).headers["etag"] == told.headers["etag"]
        assert two.client.post("/v1/activate", json={"id": id}).json()["new"]
        assert (
            two.client.post("/v1/reward", json={"id": id, "reward": 1}).json()["parked"]
            is False
        )
        wait(lambda: two.client.get("/v1/posterior").json()["learnt"] == 1)


def test_replicas_give_a_unit_the_same_flags(
    server: Server, experiment: str, tmp_path: Path
) -> None:
    service, files = f"{STICKY}store = {json.dumps(server.url())}\n", []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        files.append(flag(tmp_path / name, experiment, service=service))
    with here(files[0]) as one, here(files[1]) as two, ThreadPoolExecutor(8) as threads:
        for unit in ("anna", "bert", "carl"):
            answers = list(
                threads.map(lambda served, unit=unit: ask(served, unit), (one, two) * 4)
            )
            assert {answer.status_code for answer in answers} == {200}
            assert len({answer.headers["etag"] for answer in answers}) == 1
        id = answers[0].json()["flags"][0]["metadata"]["decision_id"]
        assert ask(two, "carl", experiment).status_code == 200
        assert kinds(one, experiment, id) == ["decision", "activation"]


@pytest.mark.parametrize(
    ("values", "match"),
    [
        ("{on = true}", "value for each arm; got none for 'off'"),
        ("{on = true, off = false, of = true}", "one for 'of', which is not an arm"),
        ("{on = true, off = 0}", "the same type.*got booleans and whole numbers"),
        ("{on = nan, off = 1.0}", "flag.values.on must be JSON"),
        ("{on = [2026-01-01], off = []}", "flag.values.on.0 must be JSON"),
        ("3", "flag.values must be a table"),
    ],
)
def test_values_that_are_none(tmp_path: Path, values: str, match: str) -> None:
    with pytest.raises(InvalidInput, match=match):
        read_policy(flag(tmp_path, "checkout", more=f"[flag]\nvalues = {values}\n"))
    site = tmp_path / "site.toml"
    site.write_text(
        f'[policy]\nkind = "auto"\n[flag]\nvalues = {json.dumps("x")}\n'.replace(
            '"x"', "{}"
        )
    )
    with pytest.raises(InvalidInput, match="requires arms in the same file"):
        read_policy(site)
