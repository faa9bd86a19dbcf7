"""What is logged: time and level, JSON on request, an access log; never a context, a
token or a query."""

import io
import json
import logging
import re
import shutil
import warnings
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import oddsmith as od
from oddsmith.cli.main import main
from oddsmith.core.errors import place_of
from oddsmith.server.http import log_lines
from oddsmith.server.http.keys import create
from oddsmith.server.http.log_lines import AccessLine, AccessLog
from server.served import Here, here, place, process

SECRET = "Wolfgang-Amadeus"
TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"
CODE = """
import numpy as np
import oddsmith as od


def shy(context, arm):
    raise KeyError(f"no column for {context}")


def vain(context, arm):
    return context["name"]


def honest(context, arm):
    return 0.4


class Student(od.Experts):
    names = ("student",)
    learns = True

    def init(self, shape=()):
        return np.zeros(shape)

    def predict(self, state, context):
        return np.full((1, 3), 0.5)

    def update(self, state, decision, reward):
        raise ValueError(f"cannot learn from {decision.context}")


def bank(arms):
    return od.FunctionExperts({"shy": shy, "vain": vain, "honest": honest}, arms)


def student(arms):
    return Student()
"""
TABLE = '[experts.{0}]\nkind = "python"\nfactory = "{1}:{0}"\n'


def talkative(folder: Path, *, student: bool = False) -> Path:
    """An experiment whose experts say in exceptions what they have seen; a module of
    its own for each folder."""
    module = f"talkative_{folder.name}"
    (folder / f"{module}.py").write_text(CODE)
    return place(
        folder,
        experts="".join(
            TABLE.format(one, module) for one in ["bank"] + ["student"] * student
        ),
    )


def formatted(
    formatter: logging.Formatter,
    level: int,
    message: str,
    *values: object,
    error: Any = None,
) -> str:
    return formatter.format(
        logging.LogRecord("oddsmith.x", level, "x.py", 1, message, values, error)
    )


def test_lines_have_time_and_level_and_no_words_of_exceptions() -> None:
    try:
        dict[str, int]()[SECRET]
    except KeyError as error:
        caught = (KeyError, error, error.__traceback__)
    text = formatted(
        log_lines._TextLines(), logging.WARNING, "expert %s\nsleeps", "a\rb"
    )
    assert re.fullmatch(TIME + " WARNING expert a b sleeps", text)
    text = formatted(log_lines._TextLines(), logging.ERROR, "it failed", error=caught)
    assert re.fullmatch(
        TIME + r" ERROR it failed: KeyError at test_log_lines\.py:\d+ in test_lines\w+",
        text,
    )
    line = json.loads(
        formatted(log_lines._JsonLines(), logging.ERROR, 'it "failed"', error=caught)
    )
    assert set(line) == {"time", "level", "logger", "message"}
    assert re.fullmatch(TIME, line["time"])
    assert line["message"].startswith('it "failed": KeyError at test_log_lines.py:')
    assert SECRET not in text + str(line)


def test_warnings_are_told_once_for_each_line_of_code(
    monkeypatch: Any, caplog: Any
) -> None:
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
    log_lines.set_up_logging("text")
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        for n in range(3):
            warnings.warn(f"no column for {SECRET} {n}", UserWarning, stacklevel=1)
            warnings.warn("models have no version", od.errors.NoVersion, stacklevel=1)
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == 2
    assert re.fullmatch(
        r"UserWarning at http/test_log_lines\.py:\d+; later warnings of this line "
        r"are not logged",
        told[0],
    )
    assert "NoVersion" in told[1]
    assert "models have no version" in told[1]


def test_places_are_the_innermost_frames() -> None:
    def deep(n: int) -> None:
        if n == 0:
            raise ValueError(SECRET)
        deep(n - 1)

    with pytest.raises(ValueError, match=SECRET) as caught:
        deep(3)
    assert re.fullmatch(
        r"ValueError at test_log_lines.py:\d+ in deep", place_of(caught.value)
    )
    assert place_of(caught.value, frames=10).count(" in deep") == 4
    assert place_of(OSError(SECRET)) == "OSError"


def context_in(served: Here) -> bool:
    """Whether a context can be read where experts' failures are told."""
    for _ in range(3):
        served.post("decide", {"context": {"name": SECRET}})
    return SECRET in json.dumps(served.get("/v1/stats"))


@pytest.mark.parametrize("careful", [True, False])
def test_exceptions_of_experts_put_no_context_into_log_and_stats(
    tmp_path: Path, monkeypatch: Any, caplog: Any, careful: bool
) -> None:
    """With reasons that are what the exception says, the same test finds the context in
    both (teeth)."""
    if not careful:
        monkeypatch.setattr(
            "oddsmith.experts.guard.outcomes.place_of",
            lambda error: f"{type(error).__name__}: {error}",
        )
    with here(talkative(tmp_path)) as served, caplog.at_level(logging.INFO):
        assert context_in(served) is not careful
        experts = served.get("/v1/stats")["experts"]
        assert (SECRET in caplog.text) is not careful
        if careful:
            assert re.fullmatch(
                r"KeyError at talkative_\w+\.py:7 in shy", experts["shy"]["reason"]
            )
            assert experts["vain"]["failures"] == {"values": 3}
            assert "expert shy sleeps: 'KeyError at talkative_" in caplog.text


def test_a_learner_that_raises_puts_no_context_into_the_log(
    tmp_path: Path, caplog: Any
) -> None:
    with (
        here(talkative(tmp_path, student=True)) as served,
        caplog.at_level(logging.INFO),
    ):
        id = served.post("decide", {"context": {"name": SECRET}})["id"]
        served.reward(id, 1)
        served.state()
        told = json.dumps([served.get("/v1/stats"), served.get("/readyz")])
    assert SECRET not in told + caplog.text


def test_what_no_code_expects_is_logged_by_its_place(
    tmp_path: Path, monkeypatch: Any, caplog: Any
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError(SECRET)

    with here(place(tmp_path)) as served, caplog.at_level(logging.INFO):
        monkeypatch.setattr(served.experiment().store, "tally", broken)
        assert served.ask("GET", "/v1/stats").status_code == 500
    assert (
        "GET /v1/stats failed: ZeroDivisionError at test_log_lines.py:" in caplog.text
    )
    assert " < " in caplog.text
    assert SECRET not in caplog.text


def test_served_lines_and_the_access_log(tmp_path: Path) -> None:
    keys, access = tmp_path / "keys.json", tmp_path / "access.jsonl"
    token = create(keys, "shop", ["decide", "read"])
    file = talkative(tmp_path)
    options = ("--log-format", "json", "--access-log", str(access))
    with process(file, keys=keys, more=options) as served:
        header = {"Authorization": f"Bearer {token}"}
        body = {"context": {"name": SECRET}, "id": "visit-7"}
        assert (
            served.client.post("/v1/decide", json=body, headers=header).status_code
            == 200
        )
        assert served.client.post("/v1/decide", json=body).status_code == 401
        assert (
            served.client.get(
                f"/v1/decisions/visit-7?x={SECRET}", headers=header
            ).status_code
            == 422
        )
        assert (
            served.client.post(
                "/v1/reward", json={"id": "a", "reward": 1}, headers=header
            ).status_code
            == 403
        )
        assert served.client.get(f"/{SECRET}").status_code == 404
    log, lines = (
        served.log.read_text(),
        [json.loads(line) for line in access.read_text().splitlines()],
    )
    parsed = [json.loads(line) for line in log.splitlines()]
    assert all(re.fullmatch(TIME, line["time"]) for line in [*parsed, *lines])
    assert {line["level"] for line in parsed} <= {"INFO", "WARNING"}
    assert parsed[-1]["message"] == "stopped; all answered requests are on disk"
    assert not any(secret in log + access.read_text() for secret in (SECRET, token[3:]))
    lines = [line for line in lines if line["route"] != "/readyz"]
    names = ("method", "route", "status", "key", "experiment", "decision")
    assert [tuple(line[name] for name in names) for line in lines] == [
        ("POST", "/v1/decide", 200, "shop", "news", "visit-7"),
        ("POST", "/v1/decide", 401, "", None, None),
        ("GET", "/v1/decisions/{id}", 422, "shop", None, None),
        ("POST", "/v1/reward", 403, "", None, None),
        ("GET", "", 404, "", None, None),
    ]
    assert all(line["ms"] >= 0 and line["bytes"] > 0 for line in lines)
    assert lines[0]["ms"] > 0


def test_units_are_not_named_in_the_access_log(tmp_path: Path) -> None:
    lines = list[AccessLine]()
    with here(place(tmp_path, service="sticky = true\n")) as served:
        served.app.app._access_log = lines.append
        id = served.post("decide", {"context": [0.1, 0.2], "unit": "ann@example.com"})[
            "id"
        ]
    assert [
        (line.route, line.key, line.experiment, line.decision) for line in lines
    ] == [("/v1/decide", "anyone", "news", id)]
    assert "ann@" not in str(lines)


def test_the_access_log_is_standard_output_or_a_file_that_may_be_moved(
    tmp_path: Path, monkeypatch: Any
) -> None:
    out = io.StringIO()
    monkeypatch.setattr("sys.stdout", out)
    line = AccessLine("GET", "/v1/stats", 200, 0.5, 100, "ops", "news")
    AccessLog("-")(line)
    assert json.loads(out.getvalue())["route"] == "/v1/stats"
    path = tmp_path / "access.jsonl"
    with closing(AccessLog(str(path))) as write:
        write(line)
        path.rename(tmp_path / "old.jsonl")
        write(line)
    assert (
        len(path.read_text().splitlines())
        == len((tmp_path / "old.jsonl").read_text().splitlines())
        == 1
    )
    with pytest.raises(
        od.BadFile,
        match=r"access-log must be a file that can be written; got '.*', No such file",
    ):
        AccessLog(str(tmp_path / "no" / "folder"))
    monkeypatch.undo()
    assert (
        main(
            [
                "serve",
                str(place(tmp_path)),
                "--port",
                "0",
                "--access-log",
                str(tmp_path / "no" / "folder"),
            ]
        )
        == 2
    )


def test_an_access_log_that_cannot_be_written_costs_no_answer(
    tmp_path: Path, caplog: Any
) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    with (
        here(place(tmp_path)) as served,
        closing(AccessLog(str(folder / "access.jsonl"))) as write,
    ):
        served.app.app._access_log = write
        served.decide("first")
        shutil.rmtree(folder)
        with caplog.at_level(logging.INFO):
            for id in ("second", "third"):
                assert served.decide(id)["new"]
            folder.mkdir()
            served.decide("fourth")
    assert [
        json.loads(line)["decision"]
        for line in (folder / "access.jsonl").read_text().splitlines()
    ] == ["fourth"]
    told = [
        record.getMessage()
        for record in caplog.records
        if "access log" in record.getMessage()
    ]
    assert len(told) == 2
    assert "cannot be written, its lines are left out: " in told[0]
    assert told[1].endswith("is written again")


def test_a_full_disk_under_the_access_log_is_told_once(
    caplog: Any, capsys: Any
) -> None:
    with closing(AccessLog("/dev/full")) as write:
        for _ in range(3):
            write(AccessLine("GET", "/v1/stats", 200, 0.5, 100))
    assert len(caplog.records) == 1
    assert "No space left" in caplog.text
    assert "Traceback" not in capsys.readouterr().err
