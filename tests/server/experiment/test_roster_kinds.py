"""Experts that join and retire in a service, under policies other than GTS."""

from pathlib import Path

import numpy as np
import pytest

import oddsmith as od
from oddsmith.files.policy import read_policy
from oddsmith.server.audit import export, verify
from oddsmith.server.fold.fold import restore, roster_change
from oddsmith.server.store import SQLiteReader
from server.served import BENCH, EXPERTS, here, place
from server.store.samples import WithoutSnapshots, bits


@pytest.mark.parametrize("kind", ["hedged", "rate_mixture", "exp4"])
def test_experts_join_and_retire(kind: str, tmp_path: Path) -> None:
    eta = "policy.eta = 0.1\n" if kind == "exp4" else ""
    file = place(tmp_path, top=f'policy.kind = "{kind}"\n{eta}', experts=BENCH)
    if kind == "hedged":
        file.write_text(file.read_text().replace("policy.gamma = 0.1\n", ""))
    with here(file) as served:
        for i in range(8):
            served.decide(f"early{i}")
            if i % 2:
                served.reward(f"early{i}", i % 3 / 2)
        joins = {"expert": "late", "change": "added", "share": 0.2, "key": "1"}
        served.post("experts", joins)
        served.post("experts", {"expert": "a", "change": "retired", "key": "2"})
        for i in range(8):  # rewards of decisions that were made before, too
            served.decide(f"late{i}")
            served.reward(f"late{i}", i % 2)
            served.reward(f"early{i}", i % 3 / 2) if i % 2 == 0 else None
        live = bits(served.state())
        answer = served.get("/v1/posterior")
        assert list(answer["posterior"]) == [*EXPERTS, "late"]
        assert answer["retired"] == ["a"]
        assert answer["posterior"]["a"] == 0
        assert answer["posterior"]["late"] > 0
    with here(file) as served:
        assert bits(served.state()) == live
    read = read_policy(file)
    with SQLiteReader(tmp_path / "news.sqlite") as reader:
        change = roster_change(read.bench)
        whole = restore(WithoutSnapshots(reader), read.policy, change=change).state
        assert bits(whole) == live
        assert verify(reader, policy=read.policy, bench=read.bench).holds
        assert export(reader, tmp_path / "log.parquet").rows == 16
    assert od.read_log(tmp_path / "log.parquet").advice is None
    assert np.isfinite(answer["posterior"]["late"])
