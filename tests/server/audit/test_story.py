"""The story of one decision: every kind of event, in every order, says what it did; on
both stores."""

import json
from pathlib import Path
from typing import Any

import pytest

import oddsmith as od
from oddsmith.cli.main import main
from oddsmith.server.audit import Story, story_of
from oddsmith.server.store import DecisionMade, PostgresStore, Reward, open_reader
from oddsmith.server.store.protocol import Line
from server.audit.served import Served, policy
from server.store.postgres_server import Server


def told(service: Served, id: str = "d") -> Story:
    return story_of(service.store, id)


def effects(story: Story) -> list[tuple[str, str]]:
    return [(one.what, one.effect) for one in story.happenings]


@pytest.fixture
def service(tmp_path: Path) -> Any:
    served = Served(tmp_path / "s.sqlite", policy(), reward=[0.0, 20.0])
    yield served
    served.store.close()


def test_default_late_reward_and_correction(service: Served) -> None:
    decision = service.decide("d", [0.3, 0.2])
    assert str(told(service)).endswith("It does not count yet.")
    service.default("d")
    service.reward("d", 1.0)
    late = told(service)
    assert (late.counts_since, late.reward_since, late.reward) == (2, 3, 20.0)
    assert str(late).endswith(
        "It counts with 20, from position 3 on; it has counted since position 2."
    )
    service.correct("d", 0.5, "k")
    service.correct("d", 0.5, "again")
    story = told(service)
    assert effects(story) == [
        ("decided", "waits for a reward"),
        ("default", "counts with 0 from here on"),
        ("rewarded late", "counts with 20 in place of 0, from position 3 on"),
        ("corrected", "counts with 10 in place of 20, from position 2 on"),
        ("corrected", "changes nothing"),
    ]
    assert (story.arm, story.propensity, story.seen) == (
        decision.arm,
        decision.propensity,
        0,
    )
    assert (story.counts_since, story.reward) == (2, 10.0)
    assert f"Decision 'd' is {decision.arm}, drawn with" in str(story)
    assert "It counts with 10, from position 2 on." in str(story)


def test_early_deferred_shadow_and_erased(service: Served) -> None:
    service.reward("d", 1.0)
    assert str(told(service)) == "There is no decision 'd' yet: its events wait for it."
    assert effects(told(service)) == [("rewarded", "waits for its decision")]
    service.decide("d", [0.3, 0.2], deferred=True, incumbent=2)
    assert "It was deferred, and never shown. It does not count yet." in str(
        told(service)
    )
    service.activate("d")
    service.store.erase(service.time + 1)
    story = told(service)
    assert effects(story)[1:] == [
        ("decided", "counts once it is shown"),
        ("shown", "counts with 20 from here on"),
    ]
    for words in (
        "an incumbent's choice",
        "deferred, and shown later",
        "Its context was erased.",
    ):
        assert words in str(story)


def test_parts_that_are_added_up(tmp_path: Path) -> None:
    service = Served(tmp_path / "s", policy(), rule="sum")
    service.decide("d", [0.3, 0.2])
    service.reward("d", 0.25, "p")
    service.reward("d", 0.5, "q")
    service.default("d")
    with service.store:
        whole = ("default", "counts with 0.75 from here on")
        added_up = ("rewarded", "is added to the sum when the window closes")
        assert effects(told(service))[1:] == [added_up, added_up, whole]


class Annotated:
    """A store with a note of a later kind before and after every event."""

    def __init__(self, store: Any) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def history(self, ids: Any, until: int) -> list[Line]:
        lines = self._store.history(ids, until)
        note = lines[0]._replace(kind="note", value=None)
        return [note, *(one for line in lines for one in (line, note))]


def test_an_event_of_another_kind_is_called_by_its_kind(service: Served) -> None:
    service.decide("d", [0.3, 0.2])
    service.reward("d", 1.0)
    service.correct("d", 0.5, "k")
    plain = told(service)
    reading: Any = Annotated(service.store)
    story = story_of(reading, "d")
    assert effects(story)[::2] == [("note", "changes nothing")] * 4
    assert effects(story)[1::2] == effects(plain)
    assert str(story) == str(plain)


def test_the_command(service: Served, tmp_path: Path, capsys: Any) -> None:
    service.decide("d", [0.3, 0.2])
    service.reward("d", 0.5)
    place = str(tmp_path / "s.sqlite")
    assert main(["history", place, "d"]) == 0
    sentences, _, headers, *rows = capsys.readouterr().out.splitlines()
    assert sentences.endswith("It counts with 10, from position 2 on.")
    assert headers.split() == ["position", "time", "what", "value", "sender", "effect"]
    assert len(rows) == 2
    assert main(["history", place, "d", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["reward"], found["happenings"][1]["position"], found["context"]) == (
        10.0,
        2,
        [0.3, 0.2],
    )
    assert main(["history", place, "nothing"]) == 2
    assert (
        "id must be that of a decision of news; got 'nothing'"
        in capsys.readouterr().err
    )


def test_on_postgresql_too(server: Server) -> None:
    mine = policy()
    with PostgresStore(server.url(), mine, experiment="story") as store:
        decision = od.Decision(
            1, [0.1, 0.2], None, 0, mine.odds(mine.init(), [0.1, 0.2]).propensities
        )
        store.append([DecisionMade("d", decision, 0, 1e9)]).result(timeout=60)
        store.append([Reward("d", 1.0, 1e9)]).result(timeout=60)
    reading = open_reader(server.url(), "story")
    story = story_of(reading, "d")
    reading.close()
    assert [what for what, _ in effects(story)] == ["decided", "rewarded"]
    assert story.reward == 1.0
    assert list(story.odds or {}) == ["0", "1", "2"]
