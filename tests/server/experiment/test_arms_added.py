"""A policy file gains arms: the log widens by an event, and goes on, here, on replicas,
after restarts, in proofs."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oddsmith as od
from oddsmith.cli.main import main
from oddsmith.files.policy import read_policy
from oddsmith.server.audit import verify
from oddsmith.server.audit.doctor import doctor
from oddsmith.server.audit.log_export import log_batches_of
from oddsmith.server.experiment.start import open_experiments
from oddsmith.server.fold.fold import restore, roster_change
from oddsmith.server.store import SQLiteReader, open_reader
from oddsmith.server.store.changes import arms_since
from oddsmith.server.store.events import ConfigurationChange
from server.served import Here, here
from server.store.postgres_server import Server
from server.store.samples import WithoutSnapshots, bits

AUTO = '[policy]\nkind = "auto"\nsize = "small"\ngamma = 0.1\n'
TABLES = """
[experts.ours]
kind = "python"
factory = "server.experts_by_name:by_name"
[experts.late]
kind = "python"
factory = "server.experts_by_name:late"
joins = true
[experts.fixed]
kind = "python"
factory = "server.experts_by_name:fixed"
joins = true
"""


def site(
    folder: Path,
    arms: Any,
    rest: str = AUTO,
    *,
    store: str = "news.sqlite",
    service: str = "",
) -> Path:
    """A policy file, with these arms or without."""
    file = folder / "news.toml"
    named = "" if arms is None else f"arms = {json.dumps(list(arms))}\n"
    at = f"[service]\nstore = {json.dumps(store)}\ntimeout_ms = 60000\n{service}"
    file.write_text(f'name = "news"\nseed = 7\n{named}{rest}{at}')
    return file


def visit(served: Here, first: int, n: int, **more: Any) -> list[Any]:
    """Visitors, of whom every second one likes the last arm, and the others the
    first."""
    answers = []
    for turn in range(first, first + n):
        answers.append(
            served.post(
                "decide", {"id": f"v{turn}", "context": {"odd": turn % 2}} | more
            )
        )
        liked = ("a", list(answers[-1]["odds"])[-1])[turn % 2]
        served.reward(f"v{turn}", float(answers[-1]["arm"] == liked))
    return answers


def visit_all(served: Here, first: int, n: int) -> None:
    """Visitors, all at once."""
    asked = [
        {"id": f"v{turn}", "context": {"odd": turn % 2}}
        for turn in range(first, first + n)
    ]
    made = served.post("decide/batch", {"decisions": asked})["results"]
    rewards = [{"id": one["id"], "reward": float(one["arm"] == "a")} for one in made]
    served.post("reward/batch", {"rewards": rewards})


def events(path: Path) -> list[tuple[int, tuple[str, ...]]]:
    with SQLiteReader(path) as reader:
        return list(arms_since(reader))


POLICIES = {
    "auto": AUTO,
    "auto, floors": f"floors = 0.05\n{AUTO}",
    "auto, floors of some": f"{AUTO}[floors]\na = 0.2\n",
    "by name": f"[policy]\ngamma = 0.1\n{TABLES}",
    "window": f"[policy]\ngamma = 0.1\nwindow = 5\n{TABLES.split('[experts.late]')[0]}",
    "python": (
        '[policy]\nkind = "python"\nfactory = "server.experts_by_name:any_arms"\n'
    ),
    "beta_thompson": '[policy]\nkind = "beta_thompson"\ngamma = 0.05\n',
    "ucb1": '[policy]\nkind = "ucb1"\n',
    "kl_ucb": '[policy]\nkind = "kl_ucb"\n',
}


@pytest.mark.parametrize("kind", POLICIES)
def test_a_log_goes_on_with_more_arms(tmp_path: Path, kind: str) -> None:
    rest, store = POLICIES[kind], tmp_path / "news.sqlite"
    with here(site(tmp_path, "ab", rest, service="snapshot_every = 7\n")) as served:
        early = visit(served, 0, 20)
        waits = served.post(
            "decide", {"id": "early", "context": {"odd": 1}, "deferred": True}
        )
        assert list(waits["odds"]) == ["a", "b"]
    file = site(tmp_path, "abc", rest, service="snapshot_every = 7\n")
    with here(file) as served:
        (_, (since, arms)) = events(store)
        assert (since, arms) == (served.experiment().store.head(), ("a", "b", "c"))
        late = visit(served, 20, 20)
        assert list(late[0]["odds"]) == ["a", "b", "c"]
        assert "c" in {answer["arm"] for answer in late}
        assert served.post(
            "decide", {"id": "early", "context": {"odd": 1}}
        ) == waits | {"new": False}
        served.post("activate", {"id": "early"})
        served.reward("early", 1)  # of two arms, learnt when there are three
        # before there were three
        served.post("correct", {"id": "v3", "reward": 1, "key": "k"})
        for answer, names in ((early[-1], ["a", "b"]), (late[-1], ["a", "b", "c"])):
            record = served.get(f"/v1/decisions/{answer['id']}?explain=true")
            assert list(record["odds"]) == names
        assert "c" in served.get("/v1/stats")["arms"]
        live = bits(served.state())
        assert served.experiment().follower.refused == 0
    with here(file) as served:
        assert bits(served.state()) == live
        again = visit(served, 40, 3)
        assert list(again[0]["odds"]) == ["a", "b", "c"]
        live = bits(served.state())
    assert len(events(store)) == 2
    prove(store, file, live)


def prove(store: Path, file: Path, live: list[bytes]) -> None:
    """The log alone gives the same state, and every draw and all odds follow."""
    first = read_policy(file, arms=["a", "b"])
    change = roster_change(first.bench)
    with SQLiteReader(store) as reader:
        assert bits(restore(reader, first.policy, change=change).state) == live
        bare: Any = WithoutSnapshots(reader)
        assert bits(restore(bare, first.policy, change=change).state) == live
        facts = {"arms": list(read_policy(file).arms or ())}
        asked: list[dict[str, Any]] = [
            {},
            {"policy": first.policy, "bench": first.bench, "facts": facts},
        ]
        for models in asked:
            verdict = verify(reader, **models)
            assert verdict.holds, [str(miss) for miss in verdict.misses]
            made = {level.name: level.checked for level in verdict.levels}
            assert made["draw"] == verdict.decisions
        assert made["odds"] == verdict.decisions
    assert [found for found in doctor([str(store)]) if found.level == "problem"] == []


def test_what_is_made_of_the_log_knows_all_arms(tmp_path: Path, capsys: Any) -> None:
    store, log, copy = (
        tmp_path / name for name in ("news.sqlite", "log.parquet", "copy.sqlite")
    )
    much = AUTO.replace("0.1", "0.5")  # so that other policies can be evaluated
    with here(site(tmp_path, "ab", much)) as served:
        visit_all(served, 0, 150)
    file = site(tmp_path, "abc", much)
    with here(file) as served:
        visit_all(served, 150, 150)
        live = bits(served.state())
    for words in (
        ["verify", str(store), "--strict"],
        ["verify", str(store), "--models", str(file), "--strict"],
        ["history", str(store), "v1"],
        ["export", str(store), "--out", str(log)],
        ["evaluate", str(log), "--target", "uniform"],
        ["backup", str(store), "--out", str(copy)],
        ["restore", str(copy), "--to", str(tmp_path / "again.sqlite")],
        ["fit", str(log), "--policy", str(file), "--out", str(tmp_path / "state.npz")],
    ):
        assert main(words) == 0, (words, capsys.readouterr())
    with SQLiteReader(store) as reader:
        ((table, _),) = log_batches_of(reader)
    assert table is not None
    assert table.propensities is not None
    assert table.eligible is not None
    assert (tuple(table.arms or ()), table.propensities.shape) == (
        ("a", "b", "c"),
        (300, 3),
    )
    np.testing.assert_array_equal(table.eligible.sum(axis=1), [2] * 150 + [3] * 150)
    assert not table.propensities[:150, 2].any()
    with here(site(tmp_path, "abc", much, store="again.sqlite")) as served:
        assert bits(served.state()) == live
    with here(
        site(tmp_path, "abc", much, store="new.sqlite", service='start = "state.npz"\n')
    ) as served:
        assert served.get("/v1/posterior")["learnt"] == 300


def test_experts_that_join_before_and_after_know_all_arms(tmp_path: Path) -> None:
    rest, store = POLICIES["by name"], tmp_path / "news.sqlite"
    with here(site(tmp_path, "ab", rest)) as served:
        visit(served, 0, 5)
        served.post(
            "experts", {"expert": "late", "change": "added", "share": 0.3, "key": "k"}
        )
        visit(served, 5, 5)
    file = site(tmp_path, "abc", rest)
    with here(file) as served:
        visit(served, 10, 5)
        refused = served.post(
            "experts",
            {"expert": "fixed", "change": "added", "share": 0.3, "key": "k"},
            status=422,
        )
        assert (
            "experts must support additional arms; FunctionExperts" in refused["error"]
        )
        served.post("experts", {"expert": "other", "change": "retired", "key": "k"})
        visit(served, 15, 5)
        live = bits(served.state())
    prove(store, file, live)
    with here(site(tmp_path, "abcd", rest)) as served:  # and once more
        assert list(visit(served, 20, 1)[0]["odds"]) == ["a", "b", "c", "d"]
        live = bits(served.state())
    prove(store, site(tmp_path, "abcd", rest), live)
    other = tmp_path / "other"
    other.mkdir()
    with here(site(other, "ab", rest)) as served:
        served.post(
            "experts", {"expert": "fixed", "change": "added", "share": 0.3, "key": "k"}
        )
    with pytest.raises(
        od.BadFile,
        match=(
            r"arms \['c'\] cannot be added to a log that has begun: experts must "
            r"support additional arms"
        ),
    ):
        open_experiments([site(other, "abc", rest)])
    with here(site(other, "ab", rest)) as served:
        visit(served, 0, 1)


def test_a_replica_widens_with_the_log_and_needs_the_new_file_to_start(
    tmp_path: Path, caplog: Any
) -> None:
    with here(site(tmp_path, "ab")) as served:
        visit(served, 0, 5)
        experiment = served.experiment()
        event = ConfigurationChange("arms", ["a", "b", "c"], 1.0, "after 2 arms")
        experiment.store.append([event]).result()  # as another replica would
        served.state()
        assert experiment.arms == ("a", "b", "c")
        assert list(visit(served, 5, 1)[0]["odds"]) == ["a", "b", "c"]
        assert (
            "has the arms ['a', 'b', 'c'] from now on: its file must name them"
            in caplog.text
        )
        live = bits(served.state())
    with pytest.raises(od.BadFile, match=r"; 'c' is not there\. Put it back"):
        open_experiments([site(tmp_path, "ab")])
    with here(site(tmp_path, "abc")) as served:
        assert bits(served.state()) == live


def test_two_replicas_that_start_with_more_arms_widen_once(
    server: Server, tmp_path: Path
) -> None:
    def opened(folder: str, arms: str) -> Any:
        (tmp_path / folder).mkdir(exist_ok=True)
        return open_experiments([site(tmp_path / folder, arms, store=server.url())])[0]

    first = opened("one", "ab")
    opened("two", "ab").store.close()
    both = [opened(folder, "abc") for folder in ("one", "two")]
    other = ConfigurationChange("arms", ["a", "b", "d"], 1.0, "after 2 arms")
    (receipt,) = first.store.append([other]).result()
    assert isinstance(receipt.refused, od.Conflict)
    for one in (first, *both):
        one.store.close()
    with open_reader(server.url(), "news") as reader:
        assert [arms for _, arms in arms_since(reader)] == [("a", "b"), ("a", "b", "c")]
