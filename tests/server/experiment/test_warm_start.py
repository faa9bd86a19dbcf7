"""A service that starts from the state of a log: exact decisions, restarts and proofs."""

from pathlib import Path

import numpy as np
import pytest

import oddsmith as od
from oddsmith.cli.main import main
from oddsmith.files.state import leaves_of
from server.served import here

POLICY = """\
name = "news"
seed = 7
arms = ["app", "site"]

[policy]
kind = "auto"
size = "small"

[service]
timeout_ms = 60000
"""
DEVICES = ("phone", "desktop")


def write_log(path: Path) -> None:
    """A log of a policy that shows the right arm in 95 % of 300 rows."""
    rng = np.random.default_rng(1)
    device = rng.integers(2, size=300)
    propensities = np.where(np.eye(2)[device] > 0, 0.95, 0.05)
    arm = np.where(rng.random(300) < 0.95, device, 1 - device)
    rate = np.where(arm == device, 0.3, 0.1)
    log = od.Log(
        arm=arm,
        reward=(rng.random(300) < rate).astype(float),
        propensities=propensities,
        context=[{"device": DEVICES[place]} for place in device],
        arms=["app", "site"],
    )
    od.write_log(log, path)


def test_it_is_cautious_restored_and_proved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = Path("news.toml")
    file.write_text(POLICY)
    write_log(Path("log.parquet"))
    arguments = ["fit", "log.parquet", "--policy", "news.toml", "--out", "start.npz"]
    assert main(arguments) == 0
    file.write_text(POLICY + 'start = "start.npz"\n')
    rng = np.random.default_rng(2)
    with here(file) as served:
        first = served.decide("first", context={"device": "phone"})
        assert first["odds"]["app"] > 0.9
        for place in range(30):
            context = {"device": DEVICES[int(rng.integers(2))]}
            served.decide(f"d{place}", context=context)
            served.reward(f"d{place}", float(rng.random() < 0.2))
        before = leaves_of(served.state())
    with here(file) as served:
        after = leaves_of(served.state())
    assert any("warm_start" in name for name, _ in before)
    assert [name for name, _ in before] == [name for name, _ in after]
    for (_, one), (_, other) in zip(before, after, strict=True):
        np.testing.assert_array_equal(one, other)
    assert main(["verify", "news.sqlite", "--models", "news.toml", "--strict"]) == 0
