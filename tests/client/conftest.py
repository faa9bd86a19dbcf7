"""A service of four experiments, and clients of both kinds for it."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import oddsmith as od
from client.serving import policy_file, service
from oddsmith.server.http.keys import create


class Awaited:
    """An AsyncClient whose calls are awaited at once, so that one test holds for both
    clients."""

    def __init__(self, url: str, **settings: Any) -> None:
        self._loop = asyncio.new_event_loop()
        self._client = od.AsyncClient(url, **settings)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*args: Any, **named: Any) -> Any:
            return self._loop.run_until_complete(
                getattr(self._client, name)(*args, **named)
            )

        return call

    def __enter__(self) -> "Awaited":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
        self._loop.close()


@pytest.fixture(scope="package")
def places(tmp_path_factory: Any) -> Iterator[dict[str, str]]:
    """A service of four experiments with keys: its address, and a key for everything
    and one for little."""
    folder = tmp_path_factory.mktemp("served")
    files = [
        policy_file(folder, "news"),
        policy_file(
            folder,
            "loyal",
            'sticky = true\nreward_rule = "sum"\nwindow_s = 3600\n',
            "[reward]\nhigh = 20.0\n",
        ),
        policy_file(folder, "watched", "shadow = true\n"),
        folder / "site.toml",
    ]
    files[-1].write_text('seed = 5\n[policy]\nkind = "auto"\n')
    keys = folder / "keys.json"
    everything, little = (
        create(keys, "all", ["admin"]),
        create(keys, "few", ["decide"], ["news"]),
    )
    with service(*files, keys=keys) as url:
        yield {"url": url, "everything": everything, "little": little}


@pytest.fixture(params=[od.Client, Awaited])
def client(request: Any, places: dict[str, str]) -> Iterator[Callable[..., Any]]:
    """Makes clients of either kind, and closes them."""
    made: list[Any] = []

    def make(
        experiment: str | None = "news",
        key: str | None = places["everything"],
        **settings: Any,
    ) -> Any:
        # a busy machine makes no call a second one
        patient = {"timeout": 60.0} | settings
        made.append(
            request.param(places["url"], key=key, experiment=experiment, **patient)
        )
        return made[-1]

    yield make
    for one in made:
        one.__exit__(None, None, None)
