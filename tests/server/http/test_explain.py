"""What a decision's explanation says of offers, of all arms, and of clipped
predictions."""

from copy import deepcopy
from pathlib import Path

import numpy as np
import pytest

import oddsmith as od
from server.http.test_offers import articles, news, visits
from server.offering import ARMS, said, weights
from server.served import BENCH, EXPERTS, here, place

LINES = '[experts.lines]\nkind = "linear"\nfile = "lines.npz"\nclip = [0.45, 0.55]\n'


def test_predictions_of_all_arms_are_those_of_the_state_it_was_made_with(
    tmp_path: Path,
) -> None:
    """Experts that learn, whose state has gone on since."""
    with here(news(tmp_path)) as served:
        visits(served, 20)
        state = deepcopy(served.state())
        policy = served.experiment().follower.now.policy
        offered = articles(2, age=3.5)
        asked = {"context": {"hour": 5}, "arms": offered, "id": "asked"}
        answer = served.post("decide", asked)
        visits(served, 20, seed=2)
        served.state()
        record = served.get("/v1/decisions/asked?explain=true")
        assert record["features"] == offered
        assert served.get("/v1/decisions/asked")["features"] == offered
        bank = policy.bank
        assert bank is not None
        means = bank.predict(state.experts, od.make_offer({"hour": 5}, offered))
        rows = {row["expert"]: row for row in record["experts"]}
        for name, row in zip(bank.names, means, strict=True):
            predictions = rows[name]["predictions"]
            assert list(predictions) == list(offered)
            assert list(predictions.values()) == pytest.approx(row.tolist())
            assert rows[name]["predicted"] == predictions[answer["arm"]]


def test_experts_that_joined_and_retired_since_change_nothing(tmp_path: Path) -> None:
    with here(place(tmp_path, experts=BENCH)) as served:
        served.decide("early")
        late = {"expert": "late", "change": "added", "share": 0.2, "key": "1"}
        served.post("experts", late)
        served.post("experts", {"expert": "a", "change": "retired", "key": "2"})
        served.decide("after")
        early, after = (
            served.get(f"/v1/decisions/{id}?explain=true") for id in ("early", "after")
        )
        wanted = said(early["context"])
        rows = {row["expert"]: row["predictions"] for row in early["experts"]}
        assert set(rows) == set(EXPERTS)
        for name, row in zip(EXPERTS, wanted, strict=True):
            assert rows[name] == pytest.approx(dict(zip(ARMS, row, strict=True)))
        rows = {row["expert"]: row["predictions"] for row in after["experts"]}
        late = said(after["context"], weights()[::-1][:1])[0]
        assert rows["late"] == pytest.approx(dict(zip(ARMS, late, strict=True)))
        assert early["features"] is None
        assert early["notes"] == []


def test_clipped_predictions_are_reported(tmp_path: Path) -> None:
    """In an explanation by all arms, in checks by the drawn arms of the last
    decisions."""
    with here(place(tmp_path, experts=LINES)) as served:
        assert served.get("/v1/checks")["clipped"] == {}
        clipped = np.zeros(len(EXPERTS), dtype=int)
        for i in range(30):
            answer = served.decide(f"d{i}")
            context = served.get(f"/v1/decisions/d{i}")["context"]
            drawn = said(context)[:, ARMS.index(answer["arm"])]
            clipped += (drawn < 0.45) | (drawn > 0.55)
        checks = served.get("/v1/checks")
        assert checks["clipped"] == {
            name: {"clipped": n, "n": 30, "low": 0.45, "high": 0.55}
            for name, n in zip(EXPERTS, clipped.tolist(), strict=True)
            if n
        }
        worst = f"{clipped.max()} of 30 predictions of "
        assert (
            f"Of the last predictions of drawn arms, {worst}"
            in (checks["clipped_sentence"])
        )
        record = served.get("/v1/decisions/d0?explain=true")
        means = said(record["context"])
        outside = ((means < 0.45) | (means > 0.55)).sum(axis=1)
        assert len(record["notes"]) == np.count_nonzero(outside)
        assert record["notes"][0].startswith(f"{outside.max()} of 3 predictions of ")
