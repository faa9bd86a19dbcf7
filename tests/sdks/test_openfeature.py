"""OpenFeature's own SDK over a real port: with its provider for OFREP as it is, and
with ours, which tracks."""

import datetime
import logging
import re
import runpy
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any

import httpx
import pytest

from client.serving import FATES, FatedProxy
from oddsmith.client import tries
from oddsmith.server.http.keys import create
from server.flag_files import all_kinds, flag
from server.served import Elsewhere, process, wait

api = pytest.importorskip(
    "openfeature.api", reason="requirements/sdks.txt is not installed"
)
contexts = pytest.importorskip("openfeature.evaluation_context")
tracking = pytest.importorskip("openfeature.track")
ofrep = pytest.importorskip(
    "openfeature.contrib.provider.ofrep",
    reason="requirements/sdks.txt is not installed",
)
pytest.importorskip("httpx")

NOWHERE = "http://127.0.0.1:9"  # where nothing listens
KINDS: list[tuple[str, str, Any, Any]] = [
    ("boolean", "checkout", None, {"on": True, "off": False}),
    ("integer", "size", -1, {"on": 3, "off": 5}),
    ("float", "speed", -1.5, {"on": 1.0, "off": 2.5}),
    (
        "object",
        "look",
        {"none": 1},
        {"on": {"colour": "red", "sizes": [1, 2]}, "off": {}},
    ),
    ("string", "banner", "none", {"sports": "sports", "é/ tech": "é/ tech"}),
]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Elsewhere]:
    with process(*all_kinds(tmp_path_factory.mktemp("flags"))) as one:
        yield one


def ours(url: str, **settings: Any) -> Any:
    from oddsmith.client.openfeature import OddsmithProvider

    return OddsmithProvider(url, **{"timeout": 60.0} | settings)


def theirs(url: str) -> Any:
    return ofrep.OFREPProvider(url, timeout=60)


@contextmanager
def client(provider: Any) -> Iterator[Any]:
    """A client with this provider; the SDK's global state is as before at the end."""
    api.set_provider_and_wait(provider)
    try:
        yield api.get_client()
    finally:
        api.shutdown()
        api.clear_providers()


def who(unit: str | None, **attributes: Any) -> Any:
    return contexts.EvaluationContext(targeting_key=unit, attributes=attributes)


@pytest.mark.parametrize("make", [theirs, ours])
@pytest.mark.parametrize(("kind", "flag", "default", "values"), KINDS)
def test_values_variants_reasons_and_metadata(
    served: Elsewhere, make: Any, kind: str, flag: str, default: Any, values: Any
) -> None:
    with client(make(f"http://127.0.0.1:{served.port}")) as flags:
        ask = getattr(flags, f"get_{kind}_details")
        for unit in ("anna", "é/b c", "carl"):
            found = ask(
                flag, default, who(unit, plan="free", age=31, address={"city": "Bern"})
            )
            assert (found.error_code, found.error_message) == (None, None)
            assert (found.reason, found.flag_key) == ("SPLIT", flag)
            assert (type(found.value), found.value) == (
                type(values[found.variant]),
                values[found.variant],
            )
            id = found.flag_metadata["decision_id"]
            record = served.client.get(f"/v1/decisions/{id}?experiment={flag}").json()
            assert (record["arm"], record["propensity"]) == (
                found.variant,
                found.flag_metadata["propensity"],
            )
            assert record["context"] == {
                "plan": "free",
                "age": 31,
                "address.city": "Bern",
            }
            assert ask(flag, default, who(unit)).variant == found.variant


@pytest.mark.parametrize("make", [theirs, ours])
def test_defaults_and_error_codes(served: Elsewhere, make: Any) -> None:
    def told(details: Any) -> tuple[Any, ...]:
        return details.value, details.reason, details.error_code

    with client(make(f"http://127.0.0.1:{served.port}")) as flags:
        assert told(flags.get_boolean_details("chess", True, who("a"))) == (
            True,
            "ERROR",
            "FLAG_NOT_FOUND",
        )
        assert told(flags.get_boolean_details("each-time", True, who("a"))) == (
            True,
            "ERROR",
            "FLAG_NOT_FOUND",
        )
        missing = flags.get_boolean_details("checkout", True, who(None))
        assert told(missing) == (True, "ERROR", "TARGETING_KEY_MISSING")
        assert told(flags.get_integer_details("banner", 7, who("a"))) == (
            7,
            "ERROR",
            "TYPE_MISMATCH",
        )
        wrong = flags.get_boolean_details("checkout", True, who("x" * 300))
        assert told(wrong) == (True, "ERROR", "INVALID_CONTEXT")
    with client(make(NOWHERE)) as flags:
        assert told(flags.get_string_details("banner", "mine", who("a"))) == (
            "mine",
            "ERROR",
            "GENERAL",
        )


def test_keys(tmp_path: Path) -> None:
    keys = tmp_path / "keys.json"
    key = create(keys, "web", ["decide", "reward"], ["checkout"])
    with process(flag(tmp_path, "checkout"), keys=keys) as served:
        url = f"http://127.0.0.1:{served.port}"
        headers = {"Authorization": f"Bearer {key}"}
        for provider, code in (
            (
                ofrep.OFREPProvider(url, headers_factory=lambda: headers, timeout=60),
                None,
            ),
            (ours(url, key=key), None),
            (ofrep.OFREPProvider(url, timeout=60), "GENERAL"),
            (ours(url, key="od_wrong"), "GENERAL"),
        ):
            with client(provider) as flags:
                assert (
                    flags.get_string_details("checkout", "none", who("a")).error_code
                    == code
                )


def counts(served: Elsewhere, flag: str, id: object) -> Any:
    record = served.client.get(f"/v1/decisions/{id}?experiment={flag}").json()
    return [event["kind"] for event in record["events"]], record["reward"]


def test_a_tracked_event_is_the_reward_and_is_learnt(
    served: Elsewhere, caplog: Any
) -> None:
    def learnt() -> int:
        return int(
            served.client.get("/v1/posterior?experiment=banner").json()["learnt"]
        )

    with client(ours(f"http://127.0.0.1:{served.port}")) as flags:
        before, now = learnt(), datetime.datetime(2026, 11, 16, tzinfo=datetime.UTC)
        ids = {}
        for unit in ("tracked-1", "tracked-2"):
            found = flags.get_string_details("banner", "none", who(unit, since=now))
            ids[unit] = found.flag_metadata["decision_id"]
        flags.get_boolean_details("checkout", False, who("tracked-1"))
        flags.track(
            "purchase",
            who("tracked-1"),
            tracking.TrackingEventDetails().add("flag", "banner"),
        )
        flags.track("purchase", who("tracked-2"), tracking.TrackingEventDetails(0.25))
        wait(lambda: learnt() == before + 2)
        assert counts(served, "banner", ids["tracked-1"]) == (
            ["decision", "activation", "reward"],
            1.0,
        )
        assert counts(served, "banner", ids["tracked-2"]) == (
            ["decision", "activation", "reward"],
            0.25,
        )
        with caplog.at_level(logging.WARNING):
            flags.track(
                "purchase", who("tracked-2"), tracking.TrackingEventDetails(99.0)
            )
            flags.track(
                "purchase", who("tracked-2"), tracking.TrackingEventDetails(1.0)
            )
            flags.track("purchase", who(None))
            flags.track("purchase", who("stranger"))
            flags.track(
                "purchase",
                who("stranger"),
                tracking.TrackingEventDetails().add("flag", "banner"),
            )
        lines = [
            record.getMessage()
            for record in caplog.records
            if "could not be tracked" in record.getMessage()
        ]
        reasons = (
            "reward must be in [0, 1]; got 99",
            "0.25",
            "targeting_key",
            "has no flag in this provider",
            "never received flag",
        )
        assert len(lines) == len(reasons)
        assert all(reason in line for reason, line in zip(reasons, lines, strict=True))
    with client(ours(NOWHERE, timeout=0.5)) as flags, caplog.at_level(logging.WARNING):
        flags.track(
            "purchase", who("a"), tracking.TrackingEventDetails().add("flag", "banner")
        )
    assert "no answer after" in caplog.text


def test_only_events_that_are_named_are_rewards(served: Elsewhere, caplog: Any) -> None:
    url = f"http://127.0.0.1:{served.port}"
    with (
        client(ours(url, deferred=True, events={"purchase"})) as flags,
        caplog.at_level(logging.WARNING),
    ):
        id = flags.get_string_details("banner", "none", who("named")).flag_metadata[
            "decision_id"
        ]
        flags.track("page-view", who("named"), tracking.TrackingEventDetails(0.25))
        flags.track("page-view", who("stranger"))
        assert counts(served, "banner", id) == (["decision"], None)
        flags.track("exposure", who("named"))
        flags.track("purchase", who("named"), tracking.TrackingEventDetails(0.5))
        assert counts(served, "banner", id) == (
            ["decision", "activation", "reward"],
            0.5,
        )
    assert "could not be tracked" not in caplog.text
    with pytest.raises(
        ValueError, match="events must be a set of names; got 'purchase'"
    ):
        ours(url, events="purchase")


def test_deferred_decisions_count_once_something_is_tracked(served: Elsewhere) -> None:
    url = f"http://127.0.0.1:{served.port}"
    with client(ours(url, deferred=True)) as flags:
        id = flags.get_string_details("banner", "none", who("deferred")).flag_metadata[
            "decision_id"
        ]
        assert counts(served, "banner", id) == (["decision"], None)
        flags.track("exposure", who("deferred"))
        assert counts(served, "banner", id) == (["decision", "activation"], None)
    with client(ours(url)) as flags:  # another process
        flags.track(
            "purchase",
            who("deferred"),
            tracking.TrackingEventDetails(0.5).add("flag", "banner"),
        )
        assert counts(served, "banner", id) == (
            ["decision", "activation", "reward"],
            0.5,
        )


@pytest.mark.soak
@pytest.mark.parametrize("deferred", [False, True])
def test_a_reward_is_learnt_only_for_what_a_unit_was_shown(
    served: Elsewhere, deferred: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two evaluations, of which the answers may be lost or of the wrong kind, and an
    event in this process or another one, after the first or the second."""
    monkeypatch.setattr(tries, "_FIRST", 1e-3)
    url = f"http://127.0.0.1:{served.port}"
    fates = FATES | {"mismatch": []}
    shown: dict[str, bool] = {}  # whether the event is about an arm of the service
    with FatedProxy(url).running() as proxy:
        assert isinstance(proxy, FatedProxy)
        another = ours(url)
        with client(ours(proxy.url, deferred=deferred)) as flags:
            for case in product(fates, fates, (1, 2), (False, True)):
                *pages, when, elsewhere = case
                unit = f"{deferred} {case}"
                event = "purchase", who(unit), tracking.TrackingEventDetails(1.0)
                event[2].add("flag", "banner")
                for page, fate in enumerate(pages, 1):
                    kind = "boolean" if fate == "mismatch" else "string"
                    proxy.fates[:] = fates[fate]
                    ask = getattr(flags, f"get_{kind}_details")
                    found = ask(
                        "banner", True if kind == "boolean" else "none", who(unit)
                    )
                    proxy.fates.clear()
                    assert (found.error_code is None) == (
                        fate not in ("unsent", "lost", "mismatch")
                    )
                    if page == when:
                        (another.track if elsewhere else flags.track)(*event)
                        # a process that heard nothing knows of no later page
                        given = [*pages[: page if elsewhere else 0], fate]
                        shown[unit] = not set(given) <= {"unsent", "lost", "mismatch"}
            assert flags.provider._client.report()[1:] == (0, 0, 0)
        another.shutdown()
    learnt = 0
    for unit, is_arm in shown.items():
        body = {"context": {"targetingKey": unit}}
        path = f"{url}/ofrep/v1/evaluate/flags/banner?deferred=true"
        facts = httpx.post(path, json=body, timeout=60).json()["metadata"]
        happened, _ = counts(served, "banner", facts["decision_id"])
        rewarded = {"activation", "reward"} <= set(happened)
        assert is_arm or not rewarded, unit
        learnt += rewarded
    assert learnt > len(shown) / 8


def test_all_flags_at_once_are_those_of_the_sdk(served: Elsewhere) -> None:
    url = f"http://127.0.0.1:{served.port}"
    body = {"context": {"targetingKey": "everything"}}
    told = httpx.post(f"{url}/ofrep/v1/evaluate/flags", json=body, timeout=60).json()[
        "flags"
    ]
    with client(theirs(url)) as flags:
        for kind, name, default, _ in KINDS:
            found = getattr(flags, f"get_{kind}_details")(
                name, default, who("everything")
            )
            (bulk,) = (one for one in told if one["key"] == name)
            assert (found.variant, found.flag_metadata) == (
                bulk["variant"],
                bulk["metadata"],
            )


def test_the_page_says_how(served: Elsewhere, tmp_path: Path) -> None:
    page = (
        Path(__file__).parents[2] / "docs" / "howto" / "feature-flags.md"
    ).read_text()
    (code,) = re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    (tmp_path / "page.py").write_text(code.replace("timeout=0.5", "timeout=60"))
    names = runpy.run_path(str(tmp_path / "page.py"))
    try:
        for user in (f"shopper {number}" for number in range(12)):
            found = names["shop"](f"http://127.0.0.1:{served.port}", user)
            assert found.error_code is None
            events = counts(served, "checkout", found.flag_metadata["decision_id"])
            assert events == (
                (["decision", "activation", "reward"], 1.0)
                if found.value
                else (["decision", "activation"], None)
            )
    finally:
        api.shutdown()
        api.clear_providers()
