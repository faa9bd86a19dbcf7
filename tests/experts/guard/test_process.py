"""Isolated experts: what ends their process ends nothing else, is counted, and they
come back by themselves."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import oddsmith as od
from oddsmith.experts.guard.policy import guarded

ARMS = ("a", "b")
FOLDER = Path(__file__).parent  # of the module poisons
FILE = """
arms = ["a", "b"]
guard = true
timeout_ms = 20000
[experts.rules]
kind = "python"
factory = "poisons:bank"
isolate = {isolate}
"""
CALM = {"do": None, "x": 0.4}


def isolated(
    factory: str = "bank", timeout_ms: float = 20_000, **args: Any
) -> od.experts.Isolated:
    table = {"kind": "python", "factory": f"poisons:{factory}", "args": args}
    return od.experts.Isolated(
        "rules", table, ARMS, folder=FOLDER, timeout_ms=timeout_ms
    )


@pytest.fixture(scope="module")
def rules() -> Iterator[od.experts.Isolated]:
    bank = isolated()
    yield bank
    bank.close()


def alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        return (
            Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
            not in "ZX"
        )
    except (FileNotFoundError, ProcessLookupError):
        return False


def pid_of(bank: od.experts.Isolated) -> int:
    process = bank._child._process
    assert process is not None
    return process._popen.pid


def wait_for(condition: Callable[[], bool]) -> None:
    for _ in range(3000):
        if condition():
            return
        time.sleep(0.02)
    raise AssertionError("it never came")


def fine(context: Any) -> list[float]:
    return [0.2, 0.8]


def make(bank: od.experts.Isolated, timeout_ms: float | None = None) -> Any:
    """A policy over the isolated bank and a sound expert, under a guard."""
    sound = od.FunctionExperts({"fine": fine}, ARMS)
    return guarded(
        od.GeneralizedThompsonSampling(od.stack(bank, sound), gamma=0.1), timeout_ms
    )


def read(folder: Path, isolate: str) -> Any:
    """The policy of FILE, whose factory is found on the path."""
    (folder / "rules.toml").write_text(FILE.format(isolate=isolate))
    return od.read_policy(folder / "rules.toml").policy


def awake(policy: Any) -> bool:
    return not np.isnan(policy.odds(policy.init(), CALM).advice).any()


def test_they_say_what_they_say_at_home(
    rules: od.experts.Isolated, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.syspath_prepend(FOLDER)
    home: Any = read(tmp_path, isolate="false").experts.experts
    assert (rules.names, rules.arms, rules.learns) == (
        home.names,
        home.arms,
        home.learns,
    )
    assert od.fingerprint(rules) == od.fingerprint(home)
    contexts = [CALM, [CALM, {"do": None, "x": 0.9}], np.zeros((3, 2))]
    contexts += [
        pd.DataFrame([CALM, CALM]),
        pl.DataFrame([CALM]),
        pd.DataFrame([CALM]).iloc[0],
    ]
    for context in contexts:
        for eligible in (None, np.array([True, False])):
            for mine, theirs in zip(
                rules.advise((), context, eligible),
                home.advise((), context, eligible),
                strict=True,
            ):
                np.testing.assert_array_equal(mine, theirs)
    np.testing.assert_array_equal(rules.predict((), CALM), [[0.3, 0.6], [0.7, 0.4]])


@pytest.mark.parametrize(
    ("what", "how"),
    [("segfault", "signal 11"), ("_exit", "exit status 3"), ("outside", "signal 9")],
)
def test_a_process_that_ends_is_started_again(
    rules: od.experts.Isolated, what: str, how: str
) -> None:
    policy = make(rules)
    wait_for(lambda: awake(policy))
    before, pid = policy.experts.failures(), pid_of(rules)
    if what == "outside":
        os.kill(pid, signal.SIGKILL)
        wait_for(lambda: not alive(pid))
    odds = policy.odds(policy.init(), {"do": what, "x": 0.4})
    assert abs(odds.propensities.sum() - 1) < 1e-12
    np.testing.assert_array_equal(odds.advice, [[np.nan] * 2, [np.nan] * 2, [0.2, 0.8]])
    np.testing.assert_allclose(odds.propensities, [0.05, 0.95])
    after = policy.experts.failures()
    for name in ("good", "poison"):
        assert after[name]["died"] == before.get(name, {}).get("died", 0) + 1
    assert "fine" not in after
    assert policy.experts.reasons()["poison"] == f"its process ended ({how})"
    wait_for(lambda: awake(policy))
    assert pid_of(rules) != pid
    assert not Path(f"/proc/{pid}").exists()  # no zombie is left
    assert policy.experts.failures()["good"]["died"] == after["good"]["died"]


@pytest.mark.parametrize(
    ("what", "kind"),
    [
        ("raise", "raised"),
        ("exit", "raised"),
        ("inf", "values"),
        ("huge", "shape"),
        ("print", ""),
    ],
)
def test_a_failure_inside_is_that_experts_alone(
    rules: od.experts.Isolated, what: str, kind: str
) -> None:
    policy = make(rules)
    wait_for(lambda: awake(policy))
    before, pid = policy.experts.failures(), pid_of(rules)
    advice = policy.odds(policy.init(), {"do": what, "x": 0.4}).advice
    np.testing.assert_array_equal(
        advice, [[0.3, 0.6], [np.nan] * 2 if kind else [0.7, 0.4], [0.2, 0.8]]
    )
    after = policy.experts.failures()
    if kind:
        assert after["poison"].pop(kind) == before.get("poison", {}).pop(kind, 0) + 1
    assert [counts for counts in after.values() if counts] == [
        counts for counts in before.values() if counts
    ]
    assert awake(policy)
    assert pid_of(rules) == pid


def test_without_a_guard_the_call_fails_by_name(rules: od.experts.Isolated) -> None:
    for what, kind in (("_exit", "died"), (None, "starting")):
        with pytest.raises(od.errors.ExpertFailed) as caught:
            rules.predict((), {"do": what, "x": 0.4})
        assert caught.value.kind == kind
    with pytest.raises(od.InvalidInput, match="context must contain only"):
        rules.predict((), object())


@pytest.mark.parametrize("guards", [None, 300.0])
def test_a_late_call_costs_the_process_its_life(guards: float | None) -> None:
    """With a timeout of its own, and with the same one of the guard's."""
    bank = isolated(timeout_ms=300)
    policy, pid = make(bank, guards), pid_of(bank)
    odds = policy.odds(policy.init(), {"do": "hang", "x": 0.4})
    np.testing.assert_allclose(odds.propensities, [0.05, 0.95])
    assert policy.experts.failures() == {"good": {"late": 1}, "poison": {"late": 1}}
    wait_for(lambda: not Path(f"/proc/{pid}").exists())
    wait_for(lambda: awake(policy))
    bank.close()


def test_an_answer_that_was_not_waited_for_is_nobody_elses(
    rules: od.experts.Isolated, interruptible: None
) -> None:
    """Ctrl-C in the middle of a call: the next caller must not get that call's
    answer."""
    wait_for(lambda: awake(make(rules)))
    alarm = threading.Timer(
        0.3, signal.pthread_kill, (threading.main_thread().ident, signal.SIGINT)
    )
    alarm.start()
    with pytest.raises(KeyboardInterrupt):
        rules.predict((), {"do": "nap", "x": 0.1})
    alarm.join()
    with pytest.raises(od.errors.ExpertFailed, match="restarted"):
        rules.predict((), CALM)


def test_many_threads_get_their_own_answers(rules: od.experts.Isolated) -> None:
    wait_for(lambda: awake(make(rules)))
    wrong: list[float] = []

    def ask(start: int) -> None:
        for i in range(start, start + 50):
            if rules.predict((), {"do": None, "x": i / 1000})[1, 1] != i / 1000:
                wrong.append(i)

    threads = [threading.Thread(target=ask, args=(100 * i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_other_models_are_not_let_in(tmp_path: Path) -> None:
    file = tmp_path / "version"
    file.write_text("1")
    bank = isolated("models", file=str(file))
    pid = pid_of(bank)
    file.write_text("2")
    os.kill(pid, signal.SIGKILL)
    reasons: dict[str, None] = {}

    def failed(what: str) -> bool:
        try:
            bank.predict((), CALM)
        except od.errors.ExpertFailed as error:
            reasons[str(error)] = None
        return what in str(list(reasons))

    wait_for(lambda: failed("files have changed"))
    file.write_text("1")
    wait_for(lambda: not failed("nothing") and bank._child._process is not None)
    assert bank.predict((), CALM).tolist() == [[0.1, 0.2]]
    bank.close()


def test_closed_is_closed() -> None:
    bank = isolated()
    pid = pid_of(bank)
    bank.close()
    assert not Path(f"/proc/{pid}").exists()
    with pytest.raises(od.errors.ExpertFailed, match="closed"):
        bank.predict((), CALM)
    forgotten = isolated()
    pid = pid_of(forgotten)
    del forgotten
    assert not Path(f"/proc/{pid}").exists()


PARENT = """
import os, signal, sys, threading
import oddsmith as od
folder, what, end, mark, timeout_ms = sys.argv[1:]
table = {"kind": "python", "factory": "poisons:bank"}
bank = od.experts.Isolated("rules", table, ("a", "b"), folder=folder, timeout_ms=float(timeout_ms))
threading.Thread(target=bank.predict, args=((), {"do": what, "x": 0.4, "mark": mark}), daemon=True).start()
print(bank._child._process._popen.pid, flush=True)
sys.stdin.readline()
os.kill(os.getpid(), signal.SIGKILL) if end == "killed" else os._exit(0) if end == "exits" else None
"""


@pytest.mark.parametrize(
    ("what", "end", "timeout_ms"),
    [
        ("hang", "killed", 60_000),
        ("hang", "exits", 60_000),
        ("calm", "returns", 60_000),
        ("hold", "killed", 1000),
    ],
)
def test_the_process_ends_with_its_parent(
    what: str, end: str, timeout_ms: int, tmp_path: Path
) -> None:
    """Also in the middle of a call, and of one that lets no other thread run: that one
    ends soon after its time."""
    mark = tmp_path / "asked"
    command = [
        sys.executable,
        "-c",
        PARENT,
        str(FOLDER),
        what,
        end,
        str(mark),
        str(timeout_ms),
    ]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        wait_for(mark.exists)
        parent.communicate("now\n", timeout=60)
    wait_for(lambda: not alive(child))


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "learning": (
        {"kind": "python", "factory": "poisons:learning"},
        "experts.rules.isolate must be false",
    ),
    "no factory": ({"kind": "python", "factory": "poisons:absent"}, "has no absent"),
    "a typing error": (
        {"kind": "python", "factry": "poisons:bank"},
        "experts.rules.factory must be given",
    ),
    "no json": (
        {"kind": "python", "factory": "poisons:bank", "args": {"x": {1}}},
        "table must be JSON",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name: str) -> None:
    table, message = REFUSED[name]
    with pytest.raises(od.InvalidInput, match=message):
        od.experts.Isolated("rules", table, ARMS, folder=FOLDER)


def test_in_a_policy_file(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.syspath_prepend(FOLDER)
    policy, home = read(tmp_path, isolate="true"), read(tmp_path, isolate="false")
    assert od.fingerprint(policy) == od.fingerprint(home)
    bank = policy.experts.experts
    assert isinstance(bank, od.experts.Isolated)
    assert bank.timeout_ms == 20_000
    np.testing.assert_array_equal(
        policy.odds(policy.init(), CALM).propensities,
        home.odds(home.init(), CALM).propensities,
    )
    od.Agent(policy, seed=1).save(tmp_path / "agent.npz")
    assert od.Agent.load(tmp_path / "agent.npz", home).seed == 1
    bank.close()
    (tmp_path / "rules.toml").write_text(
        'arms = ["a", "b"]\n[experts.x]\nkind = "auto"\nisolate = true\n'
    )
    with pytest.raises(
        od.InvalidInput,
        match=r"experts\.x\.isolate must be in a table of kind python or onnx",
    ):
        od.read_policy(tmp_path / "rules.toml")
