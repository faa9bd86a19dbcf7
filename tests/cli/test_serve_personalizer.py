"""`oddsmith serve --personalizer`: from no file at all to a service, and what cannot be
made in one sentence."""

from pathlib import Path
from typing import Any

import pytest

import oddsmith as od
from oddsmith.cli.main import main
from oddsmith.files.template import start_policy_file
from oddsmith.server.experiment.settings import read_settings
from server.compat.test_personalizer import file
from server.served import here, process, wait

ACTIONS = [
    {"id": "a", "features": [{"topic": "art"}]},
    {"id": "b", "features": [{"topic": "tech"}]},
]


def test_a_file_that_is_not_there_is_made_and_served(tmp_path: Path) -> None:
    file = tmp_path / "news.toml"
    with process(file, more=["--personalizer"]) as served:
        wait(lambda: "settings for the Personalizer clients" in served.log.read_text())
        assert (
            served.client.get("/personalizer/v1.0/status").json()["apiStatus"]
            == "Valid"
        )
        answer = served.client.post(
            "/personalizer/v1.0/rank", json={"eventId": "1", "actions": ACTIONS}
        )
        assert (answer.status_code, len(answer.json()["ranking"])) == (201, 2)
        assert (
            served.client.post("/v1/reward", json={"id": "1", "reward": -1}).status_code
            == 200
        )
        (one,) = served.client.get("/v1/experiments").json()["experiments"]
    assert (one["arms"], one["window_s"], one["default_reward"]) == (None, 600, 0)
    assert one["reward"] == {"low": -1, "high": 1}
    said = served.log.read_text()
    assert f"{file} was not there, and is made" in said
    endpoint = (
        f"endpoint http://127.0.0.1:{served.port}, key: any text, as there are no keys"
    )
    assert f"settings for the Personalizer clients of news: {endpoint}" in said
    assert (tmp_path / "news.sqlite").exists()


def test_two_experiments_have_endpoints_of_their_own_and_keys_are_asked_for(
    tmp_path: Path, capsys: Any
) -> None:
    keys = tmp_path / "keys.json"
    assert (
        main(["keys", "create", "shop", "--scope", "admin", "--keys", str(keys)]) == 0
    )
    token = capsys.readouterr().out.split("\n")[0]
    files = tmp_path / "news.toml", tmp_path / "shop.toml"
    with process(*files, keys=keys, more=["--personalizer"]) as served:
        wait(lambda: "clients of shop" in served.log.read_text())
        header = {"Authorization": f"Bearer {token}"}
        assert (
            len(
                served.client.get("/v1/experiments", headers=header).json()[
                    "experiments"
                ]
            )
            == 2
        )
        for path, key, status in [
            ("news", token, 200),
            ("shop", token, 200),
            ("shop", "another", 401),
        ]:
            sent = {"Ocp-Apim-Subscription-Key": key}
            answer = served.client.get(
                f"/{path}/personalizer/v1.0/status", headers=sent
            )
            assert answer.status_code == status
    said = served.log.read_text()
    for name in ("news", "shop"):
        endpoint = (
            f"endpoint http://127.0.0.1:{served.port}/{name}, key: one that `oddsmith "
            "keys create NAME"
        )
        assert f"clients of {name}: {endpoint}" in said
    assert token not in said


def test_without_the_option_there_is_no_door(tmp_path: Path) -> None:
    with here(file(tmp_path)) as served:
        assert served.ask("GET", "/personalizer/v1.0/status").status_code == 404


def test_what_is_made_is_what_it_says(tmp_path: Path) -> None:
    path = tmp_path / "news.toml"
    assert start_policy_file(path)
    file = od.read_policy(path)
    settings = read_settings(file)
    assert (file.arms, file.kind, file.reward_scale) == (
        None,
        "auto",
        od.RewardScale(-1.0, 1.0),
    )
    assert (settings.store, settings.window) == (str(tmp_path / "news.sqlite"), 600)
    assert file.reward_scale.value(settings.default) == 0
    assert (settings.rule, settings.sticky, settings.shadow) == ("first", False, False)


def test_a_file_that_is_there_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "news.toml"
    path.write_text("not even TOML")
    assert not start_policy_file(path)
    assert path.read_text() == "not even TOML"


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        (
            "gone/news.toml",
            "must be in a folder that exists; got 'gone': make it first",
        ),
        ("news", "must be named 1 to 64 of a-z, 0-9, - and _, then .toml; got 'news'"),
        ("My News.toml", "got 'My News.toml'"),
        ("folder", "folder"),
    ],
)
def test_what_cannot_be_made(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Any,
    name: str,
    sentence: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    assert main(["serve", name, "--personalizer", "--port", "0"]) == 2
    assert sentence in capsys.readouterr().err.strip().splitlines()[-1]
    assert sorted(tmp_path.iterdir()) == [tmp_path / "folder"]
