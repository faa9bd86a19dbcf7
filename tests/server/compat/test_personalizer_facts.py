"""Policy, model and logs through Personalizer's door: what is told is so, and what
cannot be set stays as it is."""

from pathlib import Path
from typing import Any

import oddsmith as od
from oddsmith.files.state import leaves_of, read_state
from oddsmith.server.compat.personalizer.entrance import Personalizer
from oddsmith.server.store.protocol import Erased
from server.compat.personalizer_table import rank
from server.compat.test_personalizer import file
from server.served import Hands, Here, here

HOME = "/personalizer/v1.0"


def ranked(one: Here, *, reward: float | None = None, **more: Any) -> str:
    answer = one.ask("POST", f"{HOME}/rank", json=rank(**more)).json()
    if reward is not None:
        one.ask(
            "POST", f"{HOME}/events/{answer['eventId']}/reward", json={"value": reward}
        )
    id: str = answer["eventId"]
    return id


def test_the_policy_is_told_by_its_fingerprint(tmp_path: Path) -> None:
    with here(file(tmp_path), doors=[Personalizer()]) as one:
        found = one.get(f"{HOME}/configurations/policy")
        assert found["name"] == "auto"
        assert (
            one.get("/v1/experiments")["experiments"][0]["fingerprint"]
            in found["arguments"]
        )
        assert one.ask("DELETE", f"{HOME}/configurations/policy").json() == found
        refused = one.ask("PUT", f"{HOME}/configurations/policy", json=found).json()[
            "error"
        ]
        assert "change news.toml, and begin a new store" in refused["message"]


def test_the_model_is_the_newest_state_and_can_be_started_from(tmp_path: Path) -> None:
    path = file(tmp_path)
    with here(path, doors=[Personalizer()]) as one:
        for value in (1.0, -1.0, 0.5):
            ranked(one, reward=value)
        state = one.state()
        content = one.ask("GET", f"{HOME}/model?signed=true")
        assert content.headers["content-type"] == "application/octet-stream"
        for method in ("PUT", "DELETE"):
            assert one.ask(method, f"{HOME}/model").status_code == 403
        assert one.state().learnt == 3
    (tmp_path / "state.npz").write_bytes(content.content)
    saved, meta = read_state(tmp_path / "state.npz", od.read_policy(path).policy)
    assert meta["position"] == 6
    pairs = zip(leaves_of(saved), leaves_of(state), strict=True)
    assert all(
        (a == b).all() if hasattr(a, "all") else a == b for (_, a), (_, b) in pairs
    )
    other = file(tmp_path, "other", 'start = "state.npz"\n')
    with here(other) as one:
        assert one.state("other").learnt == 3


def test_times_of_the_model_and_of_the_logs(tmp_path: Path) -> None:
    hands = Hands(wall=1.7e9)
    with here(file(tmp_path), clock=hands.clock(), doors=[Personalizer()]) as one:
        never = "1970-01-01T00:00:00.000Z"
        assert one.get(f"{HOME}/model/properties") == {
            "creationTime": never,
            "lastModifiedTime": never,
        }
        assert (
            one.get(f"{HOME}/logs/properties", 404)["error"]["code"]
            == "LogsPropertiesNotFound"
        )
        hands.pass_by(60)
        ranked(one)
        hands.pass_by(60)
        id = ranked(one)
        hands.pass_by(60)
        one.ask("POST", f"{HOME}/events/{id}/reward", json={"value": 1})
        one.state()
        first, second, third = (
            f"2023-11-14T22:{minute}:20.000Z" for minute in (14, 15, 16)
        )
        assert one.get(f"{HOME}/model/properties") == {
            "creationTime": first,
            "lastModifiedTime": third,
        }
        assert one.get(f"{HOME}/logs/properties") == {
            "dateRange": {"from": first, "to": second}
        }


def test_logs_that_are_deleted_lose_the_contexts_that_are_learnt_from(
    tmp_path: Path,
) -> None:
    hands = Hands()
    with here(
        file(tmp_path, service="window_s = 600\n"),
        clock=hands.clock(),
        doors=[Personalizer()],
    ) as one:
        old = ranked(one, reward=1.0)
        hands.pass_by(601)
        young = ranked(one)
        one.state()
        assert one.ask("DELETE", f"{HOME}/logs").status_code == 204
        contexts = [one.experiment().find(id) for id in (old, young)]
        assert [
            isinstance(found[1].context, Erased)
            for found in contexts
            if found is not None
        ] == [True, False]
        assert (
            one.ask(
                "POST", f"{HOME}/events/{young}/reward", json={"value": 1}
            ).status_code
            == 204
        )
        assert one.state().learnt == 2
