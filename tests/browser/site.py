"""A service with its page on a port of this process, for a browser."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from oddsmith.server.experiment.clock import Clock
from oddsmith.server.experiment.start import open_experiments
from oddsmith.server.http.app import make_app
from oddsmith.server.http.keys import KeyRing
from oddsmith.server.http.service import Service
from oddsmith.server.http.wire import server_config
from server.live import serving
from server.offering import Client
from server.served import wait

__all__ = ["Site", "served_by", "site"]


@dataclass
class Site:
    """A service that a browser can reach."""

    url: str
    client: httpx.Client
    service: Service

    def get(self, path: str, **query: Any) -> Any:
        """What GET /v1/`path` answers."""
        answer = self.client.get(f"/v1/{path}", params=query)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def post(self, path: str, body: Any) -> Any:
        """What POST /v1/`path` answers."""
        answer = self.client.post(f"/v1/{path}", json=body)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def live(self, number: int, *, since: int = 0, **more: Any) -> None:
        """So many decisions and rewards, three of four rewarded; ids go on from
        `since`."""
        for i in range(since, since + number):
            body = {"id": f"visit-{i}", "context": [i % 7 / 7 - 0.5, i % 5 / 5 - 0.4]}
            decided = self.post("decide", body | more)
            if i % 4:
                self.post(
                    "reward",
                    {
                        "id": decided["id"],
                        "reward": float(len(decided["arm"]) % 3 == i % 3),
                    }
                    | more,
                )

    def settle(self) -> int:
        """The position once the state knows all that is in the log."""
        head = self.get("stats")["head"]
        wait(lambda: self.get("stats")["position"] >= head)
        return int(head)


@contextmanager
def site(
    *files: Path, keys: Path | None = None, clock: Clock | None = None, port: int = 0
) -> Iterator[Site]:
    """The service of these policy files, once it is ready."""
    app = make_app(
        open_experiments(files),
        keys=None if keys is None else KeyRing(keys),
        clock=clock,
    )
    with served_by(app, port) as served:
        yield served


@contextmanager
def served_by(app: Any, port: int = 0) -> Iterator[Site]:
    """An application on a port, once it is ready."""
    with serving(server_config(app, host="127.0.0.1", port=port)) as given:
        url = f"http://127.0.0.1:{given}"
        with Client(base_url=url, timeout=30) as client:
            wait(lambda: client.get("/readyz").status_code == 200)
            yield Site(url, client, app.app.service)
