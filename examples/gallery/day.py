"""A day of the service: the application on a port of this process, with a clock that
the script sets."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd
import uvicorn
from examples.gallery.world import ARMS, COLUMNS, chances

import oddsmith as od
from oddsmith.client import ServedDecision
from oddsmith.logs.progress import progress
from oddsmith.server.experiment.clock import Clock
from oddsmith.server.experiment.start import open_experiments
from oddsmith.server.http.app import make_app
from oddsmith.server.http.wire import server_config

MORNING, HOURS, VISITS, AT_ONCE = 1_794_805_200.0, 14, 4000, 10
"""2026-11-16, 6 o'clock in Berlin, in seconds since 1970; how long the day is, and who
comes."""
POLICY = f"""arms = {list(ARMS)}
seed = 7
policy.gamma = 0.1
policy.share = 0.002
[experts.models]
kind = "python"
factory = "examples.gallery.world:bank"
[experts.newcomer]
kind = "python"
factory = "examples.gallery.world:newcomer"
joins = true
[service]
timeout_ms = 60000
window_s = 600
default_reward = 0
store = "news.sqlite"
"""


class Hands:
    """A clock that goes on when it is told to."""

    def __init__(self) -> None:
        self.passed = 0.0

    def now(self) -> float:
        return MORNING + self.passed

    def clock(self) -> Clock:
        return Clock(wall=self.now, steady=lambda: self.passed)


def policy_file(folder: Path) -> Path:
    """The policy file of the site."""
    (folder / "news.toml").write_text(POLICY)
    return folder / "news.toml"


@contextmanager
def service(file: Path, hands: Hands) -> Iterator[str]:
    """The address of a running service."""
    app = make_app(open_experiments([file]), clock=hands.clock())
    server = uvicorn.Server(server_config(app, host="127.0.0.1", port=0))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not (server.started and server.servers):
            if not thread.is_alive():
                raise RuntimeError("the service did not start")
            time.sleep(0.05)
        host, port = server.servers[0].sockets[0].getsockname()[:2]
        yield f"http://{host}:{port}"
    finally:
        server.should_exit = True
        thread.join(60)


def visitors(rng: np.random.Generator, hour: int) -> pd.DataFrame:
    """Some visitors of an hour."""
    columns = [
        np.full(AT_ONCE, hour),
        rng.integers(2, size=AT_ONCE),
        rng.choice([20, 35, 50, 65], AT_ONCE),
    ]
    return pd.DataFrame(dict(zip(COLUMNS, columns, strict=True)))


def live(client: od.Client, hands: Hands, seed: int = 3) -> None:
    """A day of visitors, each with a click or none; a newcomer joins at noon."""
    rng, parts = np.random.default_rng(seed), VISITS // AT_ONCE
    for part in progress(range(parts), parts, "tens of visitors"):
        hands.passed = part / parts * HOURS * 3600
        who = visitors(rng, 6 + int(hands.passed // 3600))
        asked = [
            {"id": f"visit-{part * AT_ONCE + i}", "context": row}
            for i, row in enumerate(who.to_dict("records"))
        ]
        likely, chosen = (
            chances(who),
            [
                one
                for one in client.decide_batch(asked)
                if isinstance(one, ServedDecision)
            ],
        )
        clicked = [
            rng.random() < likely[i, ARMS.index(one.arm)]
            for i, one in enumerate(chosen)
        ]
        client.reward_batch(
            [
                {"id": one.id, "reward": int(yes)}
                for one, yes in zip(chosen, clicked, strict=True)
            ]
        )
        if part == parts * 6 // HOURS:
            client.add_expert("boosting, a year", share=0.05, key="noon")
