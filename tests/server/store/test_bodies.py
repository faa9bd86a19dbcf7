"""What events have beside their line: senders, units, slates, offers and their
features, settings, any id."""

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oddsmith as od
from oddsmith.server.fold.fold import restore
from oddsmith.server.store import (
    Activation,
    ConfigurationChange,
    Correction,
    DecisionMade,
    DefaultReward,
    Reward,
    SQLiteStore,
    Window,
)
from oddsmith.server.store.protocol import Erased
from oddsmith.server.store.rows import pack_votes, unpack_votes, votes_on
from oddsmith.server.store.sqlite.file import check_names
from server.store.samples import append, bits, made, policy
from server.store.test_contract import Open, opened

__all__ = ["opened"]

ROWS = {"a/1": {"topic": "sport", "age": 0.1 + 0.2}, "b": {"topic": "tech"}, "c": None}


def offered(
    id: str, *, time: float = 0.0, features: Any = ROWS, context: Any = None
) -> DecisionMade:
    """A decision among three arms that came with the call."""
    odds, names = np.array([0.2, 0.3, 0.5]), tuple(ROWS)
    decision = od.Decision(
        1,
        context,
        None,
        "b",
        odds,
        np.array([0.5, 0.25]),
        index=1,
        arms=names,
        features=features,
    )
    return DecisionMade(
        id, decision, 0, time, votes=np.array([[0.5, 0.5, 0.0], [0.0, 0.0, 1.0]])
    )


@pytest.mark.parametrize(
    "features", [ROWS, {"b": {"topic": "tech"}}, None], ids=["all", "drawn", "none"]
)
@pytest.mark.parametrize("context", [{"hour": 9}, None], ids=["context", "none"])
def test_offers_come_back_exactly(opened: Open, features: Any, context: Any) -> None:
    event = offered("d1", features=features, context=context)
    store = opened()
    p = append(store, event)
    (found,) = store.decisions(p)
    assert found.to_json() == event.decision.to_json()
    assert event.votes is not None
    np.testing.assert_array_equal(store.evidence(p)[0].votes, event.votes)
    store.erase(before=1.0)
    (erased,) = store.decisions(p)
    assert (erased.arms, erased.arm, erased.propensity) == (tuple(ROWS), "b", 0.3)
    assert isinstance(erased.context, Erased) == (context is not None)
    assert isinstance(erased.features, Erased) == (features is not None)


def test_features_go_with_the_last_context_that_needs_them(
    opened: Open, tmp_path: Path
) -> None:
    store = opened()
    later = {
        "a/1": {"topic": "sport", "age": 0.1 + 0.2},
        "b": {"topic": "opera"},
        "c": None,
    }
    p = append(
        store,
        offered("d1", time=1.0),
        offered("d2", time=5.0, features=later),
        offered("d0", time=0.5),
    )
    assert store.erase(before=2.0) == 2
    assert isinstance(store.decisions(p[:1])[0].features, Erased)
    # one row of it was the first one's, too
    assert store.decisions(p[1:2])[0].features == later
    assert store.erase(before=9.0) == 1
    file = tmp_path / "events.sqlite"
    if file.exists():
        content = b"".join(path.read_bytes() for path in tmp_path.iterdir())
        assert [text in content for text in (b"opera", b"sport", b"tech", b"a/1")] == [
            False,
            False,
            False,
            True,
        ]


def test_a_decision_must_have_the_features_of_all_arms_or_of_the_drawn_one(
    opened: Open,
) -> None:
    with pytest.raises(
        od.InvalidInput,
        match="features must be those of all arms or of the drawn one; got 1 of them",
    ):
        opened().append([offered("d1", features={"c": {"topic": "opera"}})])


def test_a_unit_has_one_decision_for_each_turn(opened: Open) -> None:
    store = opened()
    first, second = (
        replace(made("d1"), unit="ann", turn=1),
        replace(made("d2"), unit="ann", turn=2),
    )
    (p,) = append(store, first)
    receipts = store.append(
        [replace(made("other"), unit="ann", turn=1), second, made("d3")]
    ).result()
    assert [(receipt.position == p, receipt.new) for receipt in receipts] == [
        (True, False),
        (False, True),
        (False, True),
    ]
    assert [line.id for line in store.of_unit("ann")] == ["d1", "d2"]
    assert store.of_unit("bob") == []
    assert store.tally() == {"decision": 3}
    with pytest.raises(
        od.InvalidInput,
        match="unit must be given with its turn 1; got none",
    ):
        replace(made("d1"), turn=1)


def test_a_slate_has_one_decision_for_each_slot(opened: Open) -> None:
    store = opened()
    append(
        store, *(replace(made(f"d{slot}"), slate="page", slot=slot) for slot in (1, 2))
    )
    (again,) = store.append([replace(made("d9"), slate="page", slot=2)]).result()
    assert (again.new, again.refused, store.tally()) == (False, None, {"decision": 2})


def test_events_know_their_sender(opened: Open) -> None:
    store = opened()
    append(
        store,
        replace(made("a"), sender="site"),
        Reward("a", 1.0, 0.0, sender="shop"),
        DefaultReward("a", 0.0, 1.0),
    )
    append(store, Correction("a", 0.5, 2.0, "k", sender="boss"))
    assert [line.sender for line in store.lines(0, store.head())] == [
        "site",
        "shop",
        None,
        "boss",
    ]
    (repeat,) = store.append([Reward("a", 1.0, 9.0, sender="another")]).result()
    assert (repeat.new, repeat.refused) == (False, None)


def test_settings_change_in_the_log_and_not_in_the_state(opened: Open) -> None:
    judge = policy()
    store = opened(judge)
    change = ConfigurationChange(
        "window_s", {"from": 60, "to": 600.5}, 1.0, "k1", "boss"
    )
    append(store, made("a"), Reward("a", 1.0, 0.0))
    before = restore(store, judge)
    append(store, change)
    *_, line = store.lines(0, store.head())
    assert line[1:4] == ("configuration", "window_s", "k1")
    assert line[8:10] == ("boss", '{"value": {"from": 60, "to": 600.5}}')
    assert bits(restore(store, judge).state) == bits(before.state)
    same, other = store.append([change, replace(change, value=7)]).result()
    assert (same.new, same.refused) == (False, None)
    with pytest.raises(
        od.Conflict,
        match=r"'window_s' must be .*, as it was first; got \{\"value\": 7\}",
    ):
        other.accepted()
    append(
        store,
        made("window_s"),
        replace(change, setting="x"),
        replace(change, key="k2", value=8),
    )
    assert [(found.key, found.body) for found in store.of_setting("window_s")] == [
        ("k1", change.body()),
        ("k2", '{"value": 8}'),
    ]
    assert store.of_setting("y") == []
    with pytest.raises(od.InvalidInput, match="value of 'x' must be JSON"):
        ConfigurationChange("x", float("nan"), 0.0, "k").body()


IDS = ["a" * 256, "é/ü\n\t'\"%_", "~ann", " ", "\U0001f600" * 64, "A", "a"]


def test_any_id_is_its_own(opened: Open) -> None:
    store = opened()
    append(store, *(made(id) for id in IDS), *(Reward(id, 1.0, 0.0) for id in IDS))
    for id in IDS:
        assert [line.kind for line in store.history([id], store.head())] == [
            "decision",
            "reward",
        ]
        assert {line.id for line in store.history([id], store.head())} == {id}
    for wrong in ("", "a" * 257, "a\0b", "\ud800", 7):
        with pytest.raises(
            od.InvalidInput,
            match="id must be a string of 1 to 256 characters, without NUL",
        ):
            Activation(wrong, 0.0)  # type: ignore[arg-type]


def test_a_deferred_decision_opens_its_window_when_it_is_there_and_shown(
    opened: Open,
) -> None:
    store = opened()
    p = append(
        store,
        Activation("early", 1.0),
        Activation("never", 1.0),
        made("early", deferred=True, time=5.0),
    )
    p += append(
        store,
        made("plain", time=6.0),
        Activation("plain", 7.0),
        made("late", deferred=True, time=8.0),
    )
    p += append(store, Activation("late", 9.0))
    wanted = [("early", p[2], 5.0), ("plain", p[3], 6.0), ("late", p[6], 9.0)]
    assert store.windows(0, 10) == [
        Window(position, id, time, False) for id, position, time in wanted
    ]


def test_a_kind_that_is_not_known_is_refused(tmp_path: Path) -> None:
    with SQLiteStore(tmp_path / "events", policy()) as store:
        append(store, made("a"), Reward("a", 1.0, 0.0))
        with closing(sqlite3.connect(tmp_path / "events")) as file, file:
            file.execute("update events set kind = 'slate closed' where position = 2")
        with pytest.raises(
            od.errors.StoreFailed,
            match="events of kind 'slate closed', which this version does not know",
        ):
            restore(store, policy())


def test_a_row_that_cannot_be_written_does_not_break_the_store(tmp_path: Path) -> None:
    with SQLiteStore(tmp_path / "events", policy()) as store:
        store._writing.connection.execute(
            "create trigger no before insert on events when new.id = 'x' begin select "
            "raise(abort, ''); end"
        )
        with pytest.raises(od.errors.StoreFailed):
            store.append([made("x")]).result()
        assert append(store, made("y")) == [1]


def test_a_link_to_a_store_has_the_lock_of_the_store(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "events")
    with (
        SQLiteStore(tmp_path / "events", policy()),
        pytest.raises(od.errors.StoreFailed, match="one process at a time"),
    ):
        SQLiteStore(tmp_path / "link", policy())


@pytest.mark.parametrize("suffix", ["", "-wal", "-shm"])
def test_a_store_with_a_second_name_is_refused(tmp_path: Path, suffix: str) -> None:
    """SQLite looks for the write-ahead log beside the name that it is given."""
    path, second = tmp_path / "events", tmp_path / "other" / f"events{suffix}"
    second.parent.mkdir()
    with SQLiteStore(path, policy()) as store:
        append(store, made("a"))
        second.hardlink_to(path.with_name(f"events{suffix}"))
        for name in (path, second) if not suffix else (path,):
            with pytest.raises(od.errors.StoreFailed):
                SQLiteStore(name, policy())
            with pytest.raises(od.errors.StoreFailed, match="2 hard links"):
                check_names(path)
    if not suffix:
        with pytest.raises(od.errors.StoreFailed, match="2 hard links"):
            SQLiteStore(second, policy())
    second.unlink()
    with SQLiteStore(path, policy()) as store:
        assert store.head() == 1


def test_a_link_in_place_of_a_log_is_refused(tmp_path: Path) -> None:
    with SQLiteStore(tmp_path / "events", policy()):
        pass
    (tmp_path / "elsewhere").touch()
    (tmp_path / "events-wal").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(od.errors.StoreFailed, match="symbolic link"):
        SQLiteStore(tmp_path / "events", policy())


def test_a_store_that_is_open_is_locked_under_a_new_name(tmp_path: Path) -> None:
    """As it is under the path of another mount, which has one inode, too."""
    with SQLiteStore(tmp_path / "events", policy()) as store:
        append(store, made("a"))
        (tmp_path / "events").rename(tmp_path / "moved")
        with pytest.raises(od.errors.StoreFailed, match="by another name of it"):
            SQLiteStore(tmp_path / "moved", policy())
        (tmp_path / "moved").rename(tmp_path / "events")
        append(store, made("b"))
    with SQLiteStore(tmp_path / "events", policy()) as store:
        assert store.head() == 2


@pytest.mark.parametrize("n_arms", [1, 7, 8, 9, 254, 255, 1000])
def test_votes_are_kept_in_few_bytes(n_arms: int) -> None:
    rng = np.random.default_rng(n_arms)
    whole = np.eye(n_arms)[rng.integers(n_arms, size=64)]
    whole[3] = 0.0
    cast = rng.random((64, n_arms)) < 0.3
    shared = cast / np.maximum(cast.sum(axis=1, keepdims=True), 1)
    limits = {
        "whole": 64 * (1 if n_arms < 255 else 2),
        "shared": 64 * ((n_arms + 7) // 8),
        "soft": 64 * 8 * n_arms,
    }
    for name, votes in (
        ("whole", whole),
        ("shared", shared),
        ("soft", rng.random((64, n_arms)) / 2),
    ):
        form, content = pack_votes(votes)
        assert len(content) <= max(limits[name], limits["whole"])
        np.testing.assert_array_equal(unpack_votes(form, content), votes)
        arm = int(rng.integers(n_arms))
        on_arm = [row[arm] if row.sum() > 0 else np.nan for row in votes]
        np.testing.assert_array_equal(votes_on(arm, form, content), on_arm)
