"""Guards with a timeout: late experts are not waited for, rest, and come back; threads
are kept and end."""

import gc
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import oddsmith as od
from oddsmith.experts import Experts
from oddsmith.experts.guard.guard import Workers
from oddsmith.experts.guard.parts import is_library_code
from oddsmith.experts.stack import stack

ARMS = ("a", "b")


def fine(context: Any) -> list[float]:
    return [0.2, 0.8]


def there() -> set[threading.Thread]:
    """The experts' threads, those of earlier guards that are about to end among
    them."""
    return {
        thread for thread in threading.enumerate() if thread.name == "oddsmith-expert"
    }


def threads(before: set[threading.Thread]) -> int:
    """How many have come since."""
    return len(there() - before)


def wait_for(condition: Callable[[], bool]) -> None:
    for _ in range(3000):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError("it never came")


class Hanging:
    """An expert that hangs until it is released."""

    def __init__(self) -> None:
        self.release = threading.Event()

    def __call__(self, context: Any) -> list[float]:
        self.release.wait(60)
        return [0.5, 0.1]


def test_a_late_expert_is_not_waited_for() -> None:
    hanging, before = Hanging(), there()
    bank = od.Guarded(
        od.FunctionExperts({"fine": fine, "hanging": hanging}, ARMS), timeout_ms=50
    )
    # had the guard waited, the answer would have come, and it would be no NaN
    for _ in range(8):
        predictions = bank.predict(bank.init(), {})
        assert np.isnan(predictions).all(axis=1).tolist() == [False, True]
    assert bank.failures() == {"hanging": {"late": 8}}
    assert bank.reasons() == {"hanging": "4 earlier calls are still running"}
    assert threads(before) < 8  # after four that hang, no more are started
    hanging.release.set()


def test_an_expert_that_hangs_under_one_roster_is_not_asked_under_the_next() -> None:
    """A correction folds changes of a roster anew, each time with new guards: they must
    not hang four calls each."""
    hanging, before = Hanging(), there()
    first = od.Guarded(
        od.FunctionExperts({"fine": fine, "hanging": hanging}, ARMS), timeout_ms=50
    )
    joined = od.FunctionExperts({"late": hanging}, ARMS)
    for _ in range(6):
        bank = first.with_roster(stack(first.experts, joined), frozenset())
        for _ in range(6):
            assert np.isnan(bank.predict(((), ()), {})).all(axis=1).tolist() == [
                False,
                True,
                True,
            ]
    paces = {leaf.bank.names: leaf.pace for leaf in bank._leaves}
    assert paces["hanging",].stuck == paces["late",].stuck == 4
    # those that hang, and idle ones of guards that are about to go
    assert threads(before) < 4 + 4 + 8
    hanging.release.set()


def test_an_expert_that_is_always_late_rests_and_comes_back() -> None:
    """Late in calls 1-10, asked again in call 128 and, released, in call 256."""
    hanging = Hanging()
    bank = od.Guarded(
        od.FunctionExperts({"fine": fine, "hanging": hanging}, ARMS), timeout_ms=50
    )
    for _ in range(128):
        assert np.isnan(bank.predict((), {})).all(axis=1).tolist() == [False, True]
    assert bank.failures() == {"hanging": {"late": 11, "resting": 117}}
    hanging.release.set()
    slow = next(leaf for leaf in bank._leaves if leaf.bank.names == ("hanging",))
    wait_for(lambda: slow.pace.stuck == 0)
    object.__setattr__(bank, "timeout_ms", 30_000.0)
    for _ in range(127):
        assert np.isnan(bank.predict((), {})).all(axis=1).tolist() == [False, True]
    for _ in range(2):
        np.testing.assert_array_equal(bank.predict((), {}), [[0.2, 0.8], [0.5, 0.1]])
    assert bank.failures() == {"hanging": {"late": 11, "resting": 244}}


def test_experts_that_fail_in_time_do_not_rest() -> None:
    def broken(context: Any) -> Any:
        raise ValueError

    bank = od.Guarded(
        od.FunctionExperts({"fine": fine, "broken": broken}, ARMS), timeout_ms=30000
    )
    for _ in range(20):
        bank.predict((), {})
    assert bank.failures() == {"broken": {"raised": 20}}


def test_many_callers_at_once_are_not_late() -> None:
    """Eight calls that end only when all eight are under way: busy is not late."""
    together = threading.Barrier(8)

    def meet(context: Any) -> list[float]:
        together.wait(30)
        return [0.5, 0.1]

    bank = od.Guarded(od.FunctionExperts({"meet": meet}, ARMS), timeout_ms=60000)
    callers = [threading.Thread(target=bank.predict, args=((), {})) for _ in range(8)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert bank.failures() == {}


def test_threads_are_kept_and_end_with_the_guard() -> None:
    before = there()
    bank = od.Guarded(
        od.FunctionExperts({str(i): fine for i in range(3)}, ARMS), timeout_ms=30000
    )
    for _ in range(500):
        bank.predict((), {})
    assert 3 <= threads(before) < 50
    del bank
    gc.collect()
    wait_for(lambda: threads(before) == 0)


def test_a_job_that_ends_after_the_workers_were_closed_ends_its_thread() -> None:
    before, release, workers = there(), threading.Event(), Workers()

    def job() -> None:
        release.wait(60)

    workers.run(job)
    workers.close()
    release.set()
    wait_for(lambda: threads(before) == 0)


class Where(Experts):
    """Remembers the thread it is asked in."""

    names = ("where",)
    thread: Any = None

    def predict(self, state: Any, context: Any) -> Any:
        self.thread = threading.current_thread()
        return np.array([[0.2, 0.8]])


class Learning(Where):
    learns = True


@pytest.mark.parametrize(
    ("bank", "inline"),
    [(Where(), False), (Learning(), True)],
    ids=["fixed", "learning"],
)
def test_a_bank_that_learns_is_asked_by_the_caller(bank: Where, inline: bool) -> None:
    od.Guarded(bank, timeout_ms=30000).predict((), {})
    assert (bank.thread is threading.current_thread()) == inline


def test_our_own_arithmetic_needs_no_thread() -> None:
    linear = od.LinearExperts(np.ones((2, 2, 1)), arms=ARMS)
    schema = od.Schema(numbers=("x",))
    for bank, own in (
        (linear, True),
        (od.TableExperts(np.ones((1, 2, 2))), True),
        (od.GivenExperts(["a"]), True),
        (od.experts.Encoded(od.experts.Clipped(linear), schema), True),
        (od.experts.Clipped(od.FunctionExperts({"f": fine}, ARMS)), False),
        (od.experts.Encoded(od.FunctionExperts({"f": fine}, ARMS), schema), False),
        (Where(), False),
    ):
        assert is_library_code(bank) is own
    before = there()
    np.testing.assert_array_equal(
        od.Guarded(linear, timeout_ms=1e-06).predict((), np.zeros(1)),
        np.full((2, 2), 0.5),
    )
    assert threads(before) == 0


def test_what_guards_inside_count_is_counted() -> None:
    def broken(context: Any) -> Any:
        raise ValueError("no")

    inner = od.Guarded(od.FunctionExperts({"broken": broken}, ARMS))
    outer = od.Guarded(
        od.stack(
            od.experts.Clipped(inner), od.FunctionExperts({"late": Hanging()}, ARMS)
        ),
        timeout_ms=50,
    )
    outer.predict(outer.init(), {})
    assert outer.failures() == {"broken": {"raised": 1}, "late": {"late": 1}}
    assert outer.reasons()["broken"].startswith("ValueError at test_late.py:")
