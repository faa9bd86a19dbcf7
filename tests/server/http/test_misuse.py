"""What callers and operators get wrong: told in one sentence, and nothing is harmed."""

import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from oddsmith.server.experiment.experiment import Experiment
from oddsmith.server.http.keys import create
from server.offering import bringing
from server.served import BENCH, CONTEXT, EXPERTS, Here, here, place

UNREADABLE: list[Any] = [5, "abc", [1.0, 2.0, 3.0], {"hour": 9}, None, [["a"]]]


@pytest.mark.usefixtures("arms")
@pytest.mark.parametrize("context", UNREADABLE, ids=str)
def test_a_context_that_nobody_can_read_is_refused(
    tmp_path: Path, context: Any
) -> None:
    with here(place(tmp_path)) as served:
        assert (
            "context"
            in served.post("decide", {"context": context}, status=422)["error"]
        )
        (refused,) = served.post("decide/batch", {"decisions": [{"context": context}]})[
            "results"
        ]
        assert refused["code"] == "invalid"
        stats = served.get("/v1/stats")
        assert stats["events"] == {}
        assert all(
            not expert["failures"] and expert["reason"] is None
            for expert in stats["experts"].values()
        )
        assert (
            "oddsmith_expert_failures_total{" not in served.ask("GET", "/metrics").text
        )
        assert "asleep" not in served.decide("good")


@pytest.mark.usefixtures("arms")
def test_learners_refuse_what_they_cannot_read(tmp_path: Path) -> None:
    with here(place(tmp_path, top="", experts='policy.kind = "auto"\n')) as served:
        assert (
            "a dict or a row; got the number 5"
            in served.post("decide", {"context": 5}, status=422)["error"]
        )
        served.post("decide", {"context": {"hour": 5}})


def test_another_form_than_the_first_one_is_no_dead_end(tmp_path: Path) -> None:
    with here(
        place(tmp_path, top="", experts='policy.kind = "auto"\npolicy.size = "small"\n')
    ) as served:
        for number, context in enumerate(
            ([1, 2], {"hour": 9}, [1, 2, 3], {"city": "Rome"}, [1, 2])
        ):
            served.post("decide", {"context": context, "id": f"d{number}"})
            served.reward(f"d{number}", 1)
            served.state()


@pytest.mark.usefixtures("arms")
def test_a_list_of_numbers_is_one_context_of_functions(tmp_path: Path) -> None:
    """As for an agent."""
    module = f"sums_{tmp_path.name}"
    (tmp_path / f"{module}.py").write_text(
        "import oddsmith as od\n"
        "def says(x, arm):\n    return x.sum() / 9\n"
        "def bank(arms):\n    return od.FunctionExperts({'sums': says}, arms)\n"
    )
    policy = place(
        tmp_path,
        top="",
        experts=f'[experts.sums]\nkind = "python"\nfactory = "{module}:bank"\n',
    )
    with here(policy) as served:
        for context in ([1, 2.5, 3], [0.5], []):
            assert "asleep" not in served.post("decide", {"context": context})


@pytest.mark.usefixtures("any_arms")
def test_contexts_with_gaps_and_slips(tmp_path: Path) -> None:
    """Every cell of the matrix of doors that JSON has words for: answered and learnt,
    or refused by its column."""
    schema = '[schema]\nnumbers = ["age", "visits"]\ncategories = ["city"]\n'
    complete = {"age": 31.5, "visits": 3, "city": "Rome"}
    refused = {
        "did you mean city?": {"age": 1, "visits": 2, "citty": "Rome"},
        "column 'age' must be a number; got a dict": complete | {"age": {"years": 3}},
        "column 'age' must be a number; got 'old'": complete | {"age": "old"},
        "column 'city' must be text, a number, True or False; got a list": complete
        | {"city": ["Rome"]},
    }
    with here(
        place(tmp_path, top="", experts='policy.kind = "auto"\n' + schema)
    ) as served:
        for words, context in refused.items():
            assert (
                words
                in served.post("decide", {"context": context}, status=422)["error"]
            )
        for changed in (
            {},
            {"age": None},
            {"city": None},
            {"city": "Lima"},
            {"shop": "north"},
            {"age": True},
        ):
            id = served.post("decide", {"context": complete | changed})["id"]
            served.post("reward", {"id": id, "reward": 1})
        without = {name: value for name, value in complete.items() if name != "visits"}
        assert "asleep" not in served.post("decide", {"context": without})


@pytest.mark.usefixtures("arms")
def test_a_misspelt_field_is_answered_with_the_one_that_was_meant(
    tmp_path: Path,
) -> None:
    with here(place(tmp_path)) as served:
        said = served.post("decide", {"ctx": CONTEXT}, status=422)["error"]
        assert said.startswith(
            "ctx is not a field; did you mean context? Allowed: experiment, slots, "
            "context, arms, "
        )
        said = served.post(
            "decide/batch", {"decisions": [{"contxt": CONTEXT}]}, status=422
        )["error"]
        assert said.startswith(
            "decisions[0]: contxt is not a field; did you mean context? Allowed: "
            "context, arms, id, "
        )
        said = served.post(
            "decide/batch", {"decision": [{"context": CONTEXT}]}, status=422
        )["error"]
        assert said == (
            "decision is not a field; did you mean decisions? Allowed: decisions, "
            "arms, experiment"
        )
        said = served.post(
            "reward/batch", {"rewards": [{"id": "a", "rewrd": 1}]}, status=422
        )["error"]
        assert (
            "rewards[0]: rewrd is not a field; did you mean reward? Allowed: id, "
            "reward, metrics, key"
        ) in said
        said = served.post("reward", {"id": "a", "reward": 1, "zzz": 1}, status=422)[
            "error"
        ]
        assert said == (
            "zzz is not a field. Allowed: experiment, id, reward, metrics, key, slate, "
            "slot"
        )
        said = served.post(
            "decide", {"context": CONTEXT, "eligible": ["teck"]}, status=422
        )["error"]
        assert said.endswith("got 'teck'; did you mean tech?")


WRONG_BODIES: list[tuple[str, Any, str]] = [
    (
        "decide",
        {"id": "a"},
        (
            "context must be given; got none. Fields: experiment, slots, context, "
            "arms, id, "
        ),
    ),
    ("decide", {"context": 1, "id": 5}, "id must be a string or null; got 5"),
    (
        "decide",
        {"context": 1, "id": "a\0b"},
        r"id must be a string without NUL; got 'a\x00b'",
    ),
    (
        "decide",
        {"context": 1, "id": "a" * 257},
        "id must be a string of at most 256 characters; got 'aaa",
    ),
    (
        "decide",
        {"context": 1, "eligible": []},
        "eligible must be a list of at least 1 entry; got []",
    ),
    (
        "decide",
        {"context": 1, "eligible": [""]},
        "eligible[0] must be a string of at least 1 character; got ''",
    ),
    (
        "decide",
        {"context": 1, "deferred": "yes"},
        "deferred must be true or false; got 'yes'",
    ),
    (
        "decide",
        {"context": 1, "incumbent_odds": {"tech": 2}},
        "incumbent_odds[...] must be a number <= 1.0",
    ),
    ("decide", [CONTEXT], "the body must be an object; got [[0.3, -0.7]]"),
    (
        "decide/batch",
        {"decisions": [{"context": 1}, {}]},
        "decisions[1]: context must be given; got none",
    ),
    ("reward", {"id": "a", "reward": "high"}, "reward must be a number; got 'high'"),
    (
        "reward/batch",
        {"rewards": [{"id": "", "reward": 1}]},
        "rewards[0].id must be a string of at least 1 char",
    ),
    (
        "experts",
        {"expert": "a", "change": "gone", "key": "k"},
        "change must be added or retired; got 'gone'",
    ),
    (
        "experts",
        {"expert": "a", "change": "added", "key": "k", "share": 1},
        "share must be a number < 1.0; got 1",
    ),
]


@pytest.fixture(scope="module", params=["fixed", "same"])
def plain(request: pytest.FixtureRequest, tmp_path_factory: Any) -> Iterator[Here]:
    with ExitStack() as stack:
        with bringing(request.param):
            served = stack.enter_context(here(place(tmp_path_factory.mktemp("plain"))))
        yield served


@pytest.mark.parametrize(("path", "body", "words"), WRONG_BODIES, ids=str)
def test_a_wrong_message_is_refused_in_our_words(
    plain: Here, path: str, body: Any, words: str
) -> None:
    assert plain.post(path, body, status=422)["error"].startswith(words)


def test_what_is_no_json_and_what_is_no_path(plain: Here) -> None:
    for content in (b"", b"{", b"\xff", b'{"context": ' + b"[" * 5000):
        answer = plain.ask("POST", "/v1/decide", content=content)
        assert answer.status_code == 400
        assert answer.json()["error"].startswith("the body must be JSON; ")
    assert (
        plain.post("decid", {}, status=404)["error"]
        == "there is no path '/v1/decid'; did you mean /v1/decide?"
    )
    assert (
        plain.get("/zzz", status=404)["error"]
        == "there is no path '/zzz'; GET /openapi.json lists all paths"
    )
    said = plain.get("/v1/decide", status=405)["error"]
    assert said == "method of '/v1/decide' must be POST; got GET"
    assert (
        plain.get("/v1/decisions/a?explain=maybe", status=422)["error"]
        == "explain must be true or false; got 'maybe'"
    )
    said = plain.get("/v1/stats?experimnt=news", status=422)["error"]
    assert said == (
        "experimnt is not a field; did you mean experiment? Allowed: skip, limit, "
        "experiment"
    )


def test_an_unknown_experiment_is_answered_with_the_names_the_key_may_call(
    tmp_path: Path,
) -> None:
    files, keys = (
        [place(tmp_path, name) for name in ("news", "shop", "secret")],
        tmp_path / "keys.json",
    )
    every, some = (
        create(keys, "every", ["read"]),
        create(keys, "some", ["read"], ["news", "shop", "nwes"]),
    )

    def asked(token: str, query: str, status: int) -> str:
        answer = served.ask(
            "GET", f"/v1/stats{query}", headers={"authorization": f"Bearer {token}"}
        )
        assert answer.status_code == status
        return str(answer.json()["error"])

    with here(*files, keys=keys) as served:
        said = asked(every, "?experiment=nwes", 404)
        assert said == (
            "there is no experiment 'nwes'; did you mean news? There is: news, shop, "
            "secret"
        )
        assert (
            asked(every, "?experiment=zzz", 404)
            == "there is no experiment 'zzz'. There is: news, shop, secret"
        )
        assert asked(some, "?experiment=nwes", 404).endswith(
            "did you mean news? There is: news, shop"
        )
        assert asked(every, "", 422) == (
            "experiment must be given where there are 3, news, shop, secret; got none"
        )
        assert "shop" not in asked(some, "?experiment=secrt", 403)


@pytest.mark.usefixtures("arms")
def test_units_and_ids_do_not_mix(tmp_path: Path) -> None:
    with here(place(tmp_path)) as served:
        asked = {"context": CONTEXT, "unit": "ann"}
        assert (
            "unit must be left out" in served.post("decide", asked, status=422)["error"]
        )
    with here(place(tmp_path, "sticky", service="sticky = true\n")) as served:
        assert (
            "id must be left out"
            in served.post("decide", asked | {"id": "mine"}, status=422)["error"]
        )
        first = served.post("decide", asked)
        assert served.post("decide", asked) == first | {"new": False}


def test_of_changes_at_once_none_is_answered_in_vain(tmp_path: Path) -> None:
    """All experts are retired at once, by one key: the last one must be told that it
    stays."""
    with here(place(tmp_path)) as served, ThreadPoolExecutor(4) as threads:

        def retire(name: str) -> int:
            body = {"expert": name, "change": "retired", "key": "same"}
            return int(served.ask("POST", "/v1/experts", json=body).status_code)

        assert sorted(threads.map(retire, EXPERTS)) == [200, 200, 200, 409]
        weights = served.get("/v1/posterior")["posterior"]
        assert sorted(weights.values()) == [0.0, 0.0, 0.0, 1.0]
        (left,) = [name for name, weight in weights.items() if weight]
        answers = [retire(name) for name in EXPERTS if name != left]
        assert answers == [200, 200, 200]  # repeats have no effect
        assert (
            "expert must be one of"
            in served.post(
                "experts",
                {"expert": "zoe", "change": "retired", "key": "k"},
                status=422,
            )["error"]
        )
        assert (
            "share must be given"
            in served.post(
                "experts", {"expert": "late", "change": "added", "key": "k"}, status=422
            )["error"]
        )


def test_a_joined_expert_whose_table_is_gone_is_said(
    tmp_path: Path, caplog: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = place(tmp_path, experts=BENCH)
    with here(file) as served:
        served.post(
            "experts", {"expert": "late", "change": "added", "share": 0.2, "key": "one"}
        )
        monkeypatch.setattr(Experiment, "end", _closed)  # without a snapshot
    monkeypatch.undo()
    place(tmp_path)
    with (
        caplog.at_level(logging.ERROR),
        pytest.raises(AssertionError, match="too long"),
        here(file, seconds=3.0),
    ):
        pass
    assert (
        "expert 'late' joined at position 1: its table must stay in the policy file"
        in caplog.text
    )


async def _closed(self: Experiment) -> None:
    for task in self._tasks:
        task.cancel()
    self.store.close()


@pytest.mark.parametrize("kind", ["gts", "exp4"])
def test_a_failing_expert_is_logged_once_and_counted(
    tmp_path: Path, caplog: Any, kind: str
) -> None:
    (tmp_path / f"grumpy_{kind}.py").write_text(
        "import oddsmith as od\ndef says(context):\n    raise RuntimeError('no mood')\n"
        "def bank(arms):\n    return od.FunctionExperts({'grump': says}, arms)\n"
    )
    experts = f'[experts.grump]\nkind = "python"\nfactory = "grumpy_{kind}:bank"\n'
    file = place(
        tmp_path, top=f'policy.kind = "{kind}"\npolicy.eta = 0.1\n', experts=experts
    )
    with caplog.at_level(logging.WARNING), here(file) as served:
        for _ in range(3):
            assert served.decide()["asleep"] == ["grump"]
        assert served.get("/v1/stats")["experts"]["grump"]["failures"] == {"raised": 3}
        assert 'expert="grump",kind="raised"} 3.0' in served.ask("GET", "/metrics").text
    assert caplog.text.count("expert grump sleeps") == 1
    assert f"RuntimeError at grumpy_{kind}.py:3 in says" in caplog.text
    assert "no mood" not in caplog.text  # what it says may hold the context


@pytest.mark.parametrize(
    "id",
    ["{id}", "a/b", "%2F", "?q=1#x", "..", "a\nb", "\x1b[31m", "😀" * 256, "+", " "],
)
def test_a_decision_is_found_by_any_id(plain: Here, id: str) -> None:
    plain.post("decide", {"context": CONTEXT, "id": id})
    assert (
        plain.get(f"/v1/decisions/{quote(id, safe='')}".replace("/..", "/%2E%2E"))["id"]
        == id
    )
