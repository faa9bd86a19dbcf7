"""Calls of an experiment that has no state yet."""

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest
from anyio.from_thread import start_blocking_portal

from oddsmith.core.errors import StoreFailed
from oddsmith.server.compat.ofrep import Ofrep
from oddsmith.server.experiment.experiment import Experiment
from oddsmith.server.experiment.start import open_experiments
from oddsmith.server.http.app import make_app
from server.served import here, life, place

FLAG = "/ofrep/v1/evaluate/flags/news"
CALLS = {
    "/v1/decide": {"context": [0.3, -0.7]},
    "/v1/reward": {"id": "x", "reward": 1},
    "/v1/decide/batch": {"decisions": [{"context": [0.3, -0.7]}]},
    "/v1/activate": {"id": "x"},
}


async def never(_: Experiment) -> None:
    """A log that takes long to read."""
    await asyncio.Event().wait()


async def fails(_: Experiment) -> None:
    """A log that cannot be read now."""
    raise StoreFailed("its disk is gone")


@pytest.mark.parametrize("begin", [never, fails])
def test_a_state_that_is_not_there_yet_has_a_code_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, begin: Any
) -> None:
    monkeypatch.setattr(Experiment, "begin", begin)
    file = place(tmp_path, service="sticky = true\n")
    app: Any = make_app(open_experiments([file]), doors=[Ofrep()])

    async def answers() -> list[httpx.Response]:
        transport = httpx.ASGITransport(app)
        async with (
            life(app),
            httpx.AsyncClient(transport=transport, base_url="http://localhost") as line,
        ):
            calls = [line.post(path, json=body) for path, body in CALLS.items()]
            flag = line.post(FLAG, json={"context": {"targetingKey": "u"}})
            return await asyncio.gather(*calls, flag, line.get("/v1/posterior"))

    with start_blocking_portal() as portal:
        *ours, flag, posterior = portal.call(answers)
    for answer in (*ours, posterior):
        assert (answer.status_code, answer.json()["code"]) == (503, "restoring")
        assert answer.headers["retry-after"] == "1"
    assert flag.status_code == 503
    assert "is not ready" in flag.json()["errorDetails"]


def test_a_state_that_is_behind_is_no_failure_of_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with here(place(tmp_path)) as served:

        async def late(_: int) -> None:
            raise TimeoutError

        monkeypatch.setattr(served.experiment().follower, "wait_for", late)
        change = {"expert": "a", "change": "retired", "key": "k"}
        assert served.post("experts", change, status=503)["code"] == "busy"
