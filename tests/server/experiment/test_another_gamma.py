"""Another gamma is another policy: the refusal names the way out, and following it
keeps what was learnt."""

import re
from pathlib import Path

import pytest

import oddsmith as od
from oddsmith.cli.main import main
from oddsmith.server.experiment.start import open_experiments
from server.served import here

POLICY = (
    'name = "{name}"\nseed = 7\n[policy]\nkind = "auto"\ngamma = {gamma}\n[service]\n'
    "timeout_ms = 60000\n{more}"
)


def written(name: str, gamma: float, more: str = "") -> Path:
    path = Path(f"{name}.toml")
    path.write_text(POLICY.format(name=name, gamma=gamma, more=more))
    return path


def test_the_way_out_of_another_gamma(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with here(written("news", 0.5)) as served:
        for i in range(60):
            arm = served.decide(
                f"d{i}", context={"hour": i % 24}, arms=["good", "bad"]
            )["arm"]
            served.reward(f"d{i}", float(arm == "good"))
        served.state()
    with pytest.raises(
        od.BadFile, match=r"policy\.gamma was 0\.5, is 0\.01"
    ) as refused:
        open_experiments([written("news", 0.01)])
    told = str(refused.value)
    commands = re.findall(r"oddsmith (export .*?\.parquet|fit .*?\.npz)", told)
    assert [command.split()[0] for command in commands] == ["export", "fit"]
    assert 'start = "start.npz"' in told
    assert re.sub(r"[^a-z]+", "-", re.findall(r'see "(.*?)"', told)[0].lower()) in (
        "another-policy-or-another-gamma",
    )
    written("changed", 0.01)
    for command in commands:
        files = {"STORE": "news.sqlite", "FILE": "changed.toml"}
        assert (
            main(
                [
                    files.get(word, word.replace(".parquet", ".jsonl"))
                    for word in command.split()
                ]
            )
            == 0
        )
    with here(written("changed", 0.01, 'start = "start.npz"\n')) as served:
        odds = served.decide("new", context={"hour": 3}, arms=["good", "bad"])["odds"]
        assert odds["good"] > 0.9  # a store that begins with nothing has 0.5
