"""Rates: how many calls a key may make, and what wrong keys cost the address they come
from."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import oddsmith as od
from oddsmith.server.http.keys import create, rotate
from oddsmith.server.http.rates import Rate, Rates, TooMany, WrongKeys
from server.live import talk
from server.offering import Kind
from server.served import CONTEXT, Here, here, place, process


class Steady:
    """A clock in the test's hands."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def calls(rates: Rates, rate: Rate | None, times: int, name: str = "shop") -> int:
    """How many of so many calls at one moment are let through."""
    good = 0
    for _ in range(times):
        try:
            rates.count_call(name, rate)
            good += 1
        except TooMany:
            pass
    return good


def test_a_burst_and_then_the_rate() -> None:
    clock = Steady()
    rates, rate = Rates(clock=clock), Rate(10.0, 25)
    assert calls(rates, rate, 100) == 25
    clock.now += 1.0
    assert calls(rates, rate, 100) == 10
    total = 0
    for _ in range(100):  # in steps that are no whole number of calls
        clock.now += 0.0625
        total += calls(rates, rate, 5)
    assert total == 62
    clock.now += 1e6
    assert calls(rates, rate, 100) == 25
    assert calls(rates, rate, 100, "other") == 25
    assert calls(rates, Rate(10.0, 3), 100) == 3  # a changed rate begins anew


def test_keys_without_a_rate_have_that_of_the_service_or_none() -> None:
    assert calls(Rates(clock=Steady()), None, 1000) == 1000
    rates = Rates(Rate(1.0, 7), Steady())
    assert calls(rates, None, 1000) == 7
    assert calls(rates, Rate(1.0, 9), 1000, "own") == 9


def test_entries_may_overdraw_once_and_are_paid_for_later() -> None:
    clock = Steady()
    rates, rate = Rates(clock=clock), Rate(100.0, 100)
    for _ in range(3):  # three batches whose heads are there before their bodies
        rates.count_call("shop", rate)
    rates.count_entries("shop", rate, 1000)
    with pytest.raises(TooMany):
        rates.count_entries("shop", rate, 1000)
    with pytest.raises(
        TooMany, match=r"at most 100/s, burst 100; try again in 10 s"
    ) as caught:
        rates.count_call("shop", rate)
    clock.now += caught.value.seconds
    rates.count_call("shop", rate)


def test_the_memory_of_wrong_keys_is_bounded_and_by_network() -> None:
    clock = Steady()
    wrong = WrongKeys(Rate(0.1, 3), clock)
    assert [wrong.too_many("10.0.0.1") for _ in range(5)] == [
        False,
        False,
        False,
        True,
        True,
    ]
    assert not wrong.too_many("10.0.0.2")
    assert [wrong.too_many(f"2001:db8::{i:x}") for i in range(5)] == [
        False,
        False,
        False,
        True,
        True,
    ]
    assert not wrong.too_many("2001:db8:0:1::1")
    assert [wrong.too_many(f"::ffff:10.0.1.{i}") for i in range(5)] == [False] * 5
    assert not wrong.too_many("fe80::1%eth0")
    clock.now += 10
    assert [wrong.too_many("10.0.0.1") for _ in range(2)] == [False, True]
    for i in range(20_000):
        wrong.too_many(f"172.{16 + i // 65536}.{i // 256 % 256}.{i % 256}")
    assert len(wrong._buckets) == 10_000


@pytest.fixture
def keyed(tmp_path: Path, any_arms: Kind) -> Iterator[tuple[Here, dict[str, str]]]:
    keys = tmp_path / "keys.json"
    tokens = {
        "slow": create(keys, "slow", ["decide", "read"], rate=Rate(0.001, 5)),
        "plain": create(keys, "plain", ["decide"]),
    }
    tokens["slow again"] = rotate(keys, "slow")
    with here(place(tmp_path), keys=keys, rate=Rate(0.001, 8)) as served:
        yield served, tokens


def status(served: Here, token: str, body: Any = None, path: str = "/v1/decide") -> int:
    header = {"Authorization": f"Bearer {token}"}
    return served.ask(
        "POST", path, json=body or {"context": CONTEXT}, headers=header
    ).status_code


def test_calls_beyond_the_rate_are_429_for_the_key_and_nobody_else(
    keyed: tuple[Here, dict[str, str]],
) -> None:
    served, tokens = keyed
    assert [status(served, tokens["slow"]) for _ in range(3)] == [200] * 3
    # one name, one rate
    assert [status(served, tokens["slow again"]) for _ in range(4)] == [
        200,
        200,
        429,
        429,
    ]
    refused = served.ask(
        "GET", "/v1/stats", headers={"Authorization": f"Bearer {tokens['slow']}"}
    )
    assert refused.status_code == 429
    assert refused.json()["code"] == "too_many"
    assert refused.json()["error"].startswith(
        "calls of this key must be at most 0.001/s, burst 5; try again in "
    )
    assert 900 <= int(refused.headers["retry-after"]) <= 1000
    assert [status(served, tokens["plain"]) for _ in range(9)] == [200] * 8 + [429]
    assert served.get("/healthz")["ok"]
    assert status(served, "od_" + "A" * 43) == 401  # wrong keys learn nothing of rates
    assert served.experiment().store.head() == 13
    text = served.service.metrics.text().decode()
    assert 'oddsmith_answers_total{route="/v1/decide",status="429"} 3.0' in text


def test_batches_count_by_entries(keyed: tuple[Here, dict[str, str]]) -> None:
    served, tokens = keyed
    batch = {"decisions": [{"context": CONTEXT}] * 4}
    asked = [
        status(served, tokens["plain"], batch, "/v1/decide/batch") for _ in range(4)
    ]
    assert asked == [200, 200, 429, 429]
    # more than the burst: let through once, and paid for
    large = {"decisions": [{"context": CONTEXT}] * 100}
    assert [
        status(served, tokens["slow"], large, "/v1/decide/batch") for _ in range(2)
    ] == [200, 429]


def test_without_a_rate_nothing_is_counted(tmp_path: Path) -> None:
    create(tmp_path / "keys.json", "one", ["decide"])
    with here(place(tmp_path)) as served:
        assert {served.ask("GET", "/v1/stats").status_code for _ in range(50)} == {200}
        assert not served.service.rates._buckets


def test_wrong_keys_close_the_connection_and_clients_wait(tmp_path: Path) -> None:
    keys = tmp_path / "keys.json"
    token = create(keys, "one", ["decide"], rate=Rate(2.0, 1))
    with process(place(tmp_path), keys=keys) as served:

        def asked(key: str) -> tuple[int, bool]:
            head = (
                "POST /v1/decide HTTP/1.1\r\nHost: x\r\n"
                f"Authorization: Bearer {key}\r\nContent-Length: 2\r\n\r\n"
            )
            answer = talk(served.port, head.encode() + b"{}")
            return answer.status, answer.headers.get("connection") == "close"

        assert {asked("od_" + "A" * 43) for _ in range(20)} == {(401, False)}
        assert asked("od_" + "A" * 43) == (401, True)
        # a right key is served from the same address
        assert asked(token) == (422, False)
        with od.Client(
            f"http://127.0.0.1:{served.port}", key=token, timeout=30
        ) as client:
            # after Retry-After
            assert [client.decide(CONTEXT).step for _ in range(2)] == [1, 2]
