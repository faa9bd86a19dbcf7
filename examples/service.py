"""A service from its first decision to its evaluation: late rewards, a correction, and
a proof.

Starts `oddsmith serve` on a free port in a temporary folder, with four models of what
visitors read: one knows them, the others do not. A client decides for simulated
visitors, whose clicks arrive late and out of order. Then the service is stopped, its
log verified, exported and asked what other policies would have earned.

Run it with `python examples/service.py`; it needs the extras service, client and logs.
"""

import argparse
import heapq
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

import oddsmith as od

ARMS = ("sports", "politics", "tech")
ODDSMITH = (sys.executable, "-m", "oddsmith")
POLICY = """
arms = ["sports", "politics", "tech"]
seed = 7

[policy]
gamma = 0.5  # much exploration: a short log can then be evaluated

[experts.models]
kind = "linear"
file = "models.npz"

[service]
store = "news.sqlite"
timeout_ms = 2000
"""
# for each arm: how likely a click is (in logits) for anyone, more so in the evening,
# more so on a phone
TRUTH = np.array([[-2.0, 3.0, 0.0], [-1.0, 0.0, -1.0], [-2.0, 0.0, 3.0]])


def write_policy(folder: Path) -> Path:
    """The policy file, and its models in one `.npz`."""
    models = {
        "knows visitors": TRUTH,
        "evenings only": TRUTH * [1, 1, 0],
        "popularity": TRUTH * [1, 0, 0],
        "upside down": -TRUTH,
    }
    np.savez(
        folder / "models.npz",
        weights=np.stack(list(models.values())),
        names=list(models),
    )
    path = folder / "news.toml"
    path.write_text(POLICY)
    return path


@contextmanager
def service(policy: Path) -> Iterator[str]:
    """The address of a running service; it is asked to stop at the end."""
    server = subprocess.Popen(
        [*ODDSMITH, "serve", str(policy), "--port", "0"],
        stderr=subprocess.PIPE,
        text=True,
    )
    assert server.stderr is not None
    try:
        said = ""
        while not (found := re.search(r"listening on (\S+)", said)):
            line = server.stderr.readline()
            if not line:
                sys.exit(f"the service did not start: {said}")
            said += line
        yield found[1]
    finally:
        server.terminate()
        server.communicate(timeout=30)


def live(client: od.Client, visits: int, world: np.random.Generator) -> str:
    """Decide for visitors; each click is reported up to 50 visits later. The id of a
    clicked decision."""
    due: list[tuple[int, str, float]] = []
    clicked = ""
    for visit in range(visits):
        context = [1.0, float(world.integers(2)), float(world.integers(2))]
        # else the client makes an id
        decided = client.decide(context, id=f"visit-{visit}")
        chance = 1 / (1 + np.exp(-TRUTH[ARMS.index(decided.arm)] @ context))
        click = float(world.random() < chance)
        heapq.heappush(due, (visit + int(world.integers(5, 50)), decided.id, click))
        while due and due[0][0] <= visit:
            _, id, reward = heapq.heappop(due)
            client.reward(id, reward)
            clicked = id if reward else clicked
    client.reward_batch([{"id": id, "reward": reward} for _, id, reward in due])
    return clicked


def show_posterior(client: od.Client, what: str, position: int = 0) -> None:
    """Whom the service trusts, once it has learnt all events up to a position."""
    while (now := client.posterior()).position < position:
        time.sleep(0.01)
    shares = ", ".join(f"{name} {weight:.3f}" for name, weight in now.posterior.items())
    print(f"{what} (position {now.position}): {shares}")


def command(*words: str) -> None:
    """Run a command of ours and show what it prints."""
    print(f"\n$ oddsmith {' '.join(words)}", flush=True)
    subprocess.run([*ODDSMITH, *words], check=True)


def walk(folder: Path, visits: int) -> None:
    """All of it, in a folder."""
    with service(write_policy(folder)) as url, od.Client(url) as client:
        print(
            f"serving {folder / 'news.toml'} on {url}, ready: {client.ready(wait=30)}"
        )
        show_posterior(client, "before")
        clicked = live(client, visits, np.random.default_rng(7))
        show_posterior(client, f"after {visits} visits", client.stats()["head"])
        corrected = client.correct(clicked, 0.0)  # it was a robot
        show_posterior(client, "after a correction", corrected.position or 0)
        record = client.decision(clicked, explain=True)
        print(
            f"the corrected decision: {record.arm!r} with odds "
            f"{record.propensity:.3f}, voted for by"
        )
        for part in record.experts or []:
            print(
                f"  {part.expert:15} weight {part.weight:.3f}, {', '.join(part.votes)}"
            )
    store, log = str(folder / "news.sqlite"), str(folder / "log.parquet")
    command("verify", store, "--models", str(folder / "news.toml"))
    command("export", store, "--out", log)
    command("evaluate", log, "--target", "uniform")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--visits", type=int, default=400, help="how many visitors come (at least 100)"
    )
    arguments = parser.parse_args()
    if arguments.visits < 100:
        parser.error(f"visits must be at least 100; got {arguments.visits}")
    with tempfile.TemporaryDirectory() as folder:
        walk(Path(folder), arguments.visits)


if __name__ == "__main__":
    main()
