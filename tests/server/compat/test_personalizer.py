"""Every route, status and shape of refusals of Personalizer's API, by a table; and the
paths its programs send."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from oddsmith.server.compat.personalizer.entrance import Personalizer
from server.compat.personalizer_rest_table import REST, ask
from server.compat.personalizer_slots import SLOTS, page
from server.compat.personalizer_table import ALL, ROWS, V22, Row, action, rank
from server.flag_files import flag
from server.served import Here, here

POLICY = """
seed = 5
[policy]
kind = "auto"
size = "small"
[reward]
low = -1.0
high = 1.0
[service]
"""


def file(folder: Path, name: str = "news", service: str = "") -> Path:
    """The policy file of an experiment whose actions come with ranks."""
    path = folder / f"{name}.toml"
    path.write_text(f'name = "{name}"\n{POLICY}{service}timeout_ms = 60000\n')
    return path


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Here]:
    with here(file(tmp_path_factory.mktemp("door")), doors=[Personalizer()]) as one:
        yield one


def address(version: str | None, path: str, prefix: str = "") -> str:
    if version == V22:
        return f"{prefix}/personalizer{path}?api-version={V22}"
    return f"{prefix}/personalizer/{version}{path}"


def send(served: Here, row: Row, version: str) -> httpx.Response:
    event, id, slots = "", "", ""
    if "{event}" in row.path or row in REST:  # there are decisions to evaluate
        made = served.ask(
            "POST", address(version, "/rank"), json=rank(deferActivation=True)
        )
        event = made.json()["eventId"]
    if "{slots}" in row.path and version in row.versions:
        made = served.ask(
            "POST", address(version, "/multislot/rank"), json=page(deferActivation=True)
        )
        slots = made.json()["eventId"]
    if "{id}" in row.path:
        id = served.ask("POST", address(version, "/evaluations"), json=ask()).json()[
            "id"
        ]
    more: dict[str, Any] = (
        {"content": row.content} if row.body is None else {"json": row.body}
    )
    path = address(
        version, row.path.format(event=event, id=id, slots=slots, version=version)
    )
    return served.ask(row.method, path, headers=row.headers, **more)


@pytest.mark.parametrize("version", ALL)
@pytest.mark.parametrize("row", [*ROWS, *SLOTS, *REST], ids=lambda row: row.name)
def test_every_route_and_refusal(served: Here, row: Row, version: str) -> None:
    expected, code = (
        (row.status, row.code) if version in row.versions else (404, "ResourceNotFound")
    )
    answer = send(served, row, version)
    assert answer.status_code == expected, answer.text
    if code is not None:
        error = answer.json()["error"]
        assert answer.json().keys() == {"error"}
        assert error["code"] == code == answer.headers["x-ms-error-code"]
        assert error["message"]
    elif expected == 204:
        assert answer.content == b""
        assert "content-type" not in answer.headers
    elif row.keys is not None:
        assert answer.json().keys() == row.keys
    # ends its process
    for one in (
        served.ask("GET", address(version, "/evaluations")).json()
        if row in REST
        else ()
    ):
        served.ask(
            "DELETE", address(version, f"/evaluations/{quote(one['id'], safe='')}")
        )


@pytest.mark.parametrize(
    "path",
    [
        "/personalizer/v1.0/rank",
        "http://localhost//personalizer/v1.0/rank",
        "/personalizer/v1.0/rank/",
        "/Personalizer/V1.0/Rank",
        "/news/personalizer/v1.0/rank",
        "/x/y/news/personalizer/v1.1-Preview.2/rank",
        "/personalizer/rank?api-version=2022-09-01-preview",
        "/personalizer/rank?API-Version=2022-09-01-preview&x=1",
    ],
)
def test_paths(served: Here, path: str) -> None:
    assert served.ask("POST", path, json=rank()).status_code == 201


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/personalizer/v2.0/rank", 404),
        ("/personalizer/rank", 400),
        ("/personalizer/rank?api-version=2020-01-01", 400),
        ("/News/personalizer/v1.0/rank", 404),
        ("/shop/personalizer/v1.0/rank", 404),
    ],
)
def test_paths_that_are_none(served: Here, path: str, status: int) -> None:
    answer = served.ask("POST", path, json=rank())
    assert answer.status_code == status
    assert answer.json()["error"].keys() == {"code", "message"}


def test_ids_are_as_they_were_sent(served: Here) -> None:
    for id in ("ev 1/é", "e:1", "Rank", "personalizer", "y" * 256, "漢" * 256, 7):
        made = served.ask(
            "POST",
            "/personalizer/v1.0/rank",
            json=rank(eventId=id, deferActivation=True),
        )
        assert made.json()["eventId"] == str(id)
        quoted = httpx.URL(f"http://x/{str(id).replace('/', '%2F')}").raw_path.decode()[
            1:
        ]
        answer = served.ask(
            "POST", f"/personalizer/v1.0/EVENTS/{quoted}/Reward", json={"value": 1}
        )
        assert answer.status_code == 204
        record = served.experiment().find(str(id))
        assert record is not None
        (rewarded,) = [
            line
            for line in served.experiment().store.history([str(id)], 2**62)
            if line.kind == "reward"
        ]
        assert rewarded.value == 1.0


def test_excluded_actions_stay_at_their_places(served: Here) -> None:
    actions = [action(name, place=n) for n, name in enumerate("abcdef")]
    answer = served.ask(
        "POST",
        "/personalizer/v1.0/rank",
        json=rank(*actions, excludedActions=["a", "d", "zz"]),
    ).json()
    ranking = answer["ranking"]
    assert [ranking[place] for place in (0, 3)] == [
        {"id": "a", "probability": 0.0},
        {"id": "d", "probability": 0.0},
    ]
    assert ranking[1]["id"] == answer["rewardActionId"]
    others = [ranking[place]["probability"] for place in (2, 4, 5)]
    assert others == sorted(others, reverse=True)
    assert sum(one["probability"] for one in ranking) == pytest.approx(1, abs=1e-12)
    found = served.experiment().find(answer["eventId"])
    assert found is not None
    assert dict(
        zip(found[1].arms or (), found[1].propensities.tolist(), strict=True)
    ) == {one["id"]: one["probability"] for one in ranking}


def test_ids_and_flags_may_have_the_name_of_the_api(tmp_path: Path) -> None:
    """Paths of our own and of flags have names in them that the caller chose."""
    doors = [Personalizer()]
    with here(file(tmp_path), flag(tmp_path, "personalizer"), doors=doors) as one:
        name = "personalizer"
        for id in (name, "Personalizer", "v1", "personalizer/v1.0/status"):
            body = {"id": id, "context": {}, "arms": ["a", "b"], "experiment": "news"}
            assert one.post("decide", body)["id"] == id
            path = f"/v1/decisions/{quote(id, safe='')}?experiment=news"
            assert one.get(path)["id"] == id
            assert one.ask("POST", path).status_code == 405
        who = {"context": {"targetingKey": "anna"}}
        evaluated = one.ask("POST", f"/ofrep/v1/evaluate/flags/{name}", json=who)
        assert evaluated.json()["key"] == name
        assert one.ask("GET", f"/ofrep/v1/evaluate/flags/{name}").status_code == 405
        # what is nobody's path is refused as this API does
        unknown = one.ask("GET", f"/{name}/v1.0/nothing")
        assert unknown.json()["error"]["code"] == "ResourceNotFound"
