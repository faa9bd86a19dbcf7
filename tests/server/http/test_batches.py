"""Batches: a store that fails is the whole batch's failure, and entries times arms have
a limit; odds on request."""

from pathlib import Path
from typing import Any

import pytest

from server.experiment.test_faults import fill_up, make_room
from server.served import CONTEXT, Here, here, place

CONSTANT = '[experts.any]\nkind = "python"\nfactory = "many_arms_{arms}:bank"\n'
CODE = """
import oddsmith as od


def says(context):
    return [0.5] * {arms}


def bank(arms):
    return od.FunctionExperts({{"one": says}}, arms)
"""


def place_with(folder: Path, arms: int) -> Path:
    """The policy file of an experiment with so many arms."""
    (folder / f"many_arms_{arms}.py").write_text(CODE.format(arms=arms))
    path = place(folder, experts=CONSTANT.format(arms=arms))
    names = [f"arm-{number}" for number in range(arms)]
    lines = [
        f"arms = {names}" if line.startswith("arms") else line
        for line in path.read_text().splitlines()
    ]
    path.write_text("\n".join(lines).replace("policy.share = 0.05\n", ""))
    return path


def batch(served: Here, size: int, status: int, **more: Any) -> Any:
    return served.post(
        "decide/batch", {"decisions": [{"context": CONTEXT} | more] * size}, status
    )


@pytest.mark.usefixtures("any_arms")
@pytest.mark.parametrize("sticky", [False, True])
def test_a_batch_on_a_full_disk_is_refused_as_a_whole(
    tmp_path: Path, sticky: bool
) -> None:
    with here(place(tmp_path, service=f"sticky = {str(sticky).lower()}\n")) as served:
        store = fill_up(served, 1)
        entries = [
            {"context": CONTEXT} | ({"unit": f"u{i}"} if sticky else {"id": f"u{i}"})
            for i in range(900)
        ]
        refused = served.post("decide/batch", {"decisions": entries}, 507)
        assert refused["code"] == "disk_full"
        make_room(store)
        # as a client would send it again
        again = served.post("decide/batch", {"decisions": entries})["results"]
        assert all("arm" in entry for entry in again)


def test_entries_times_arms_have_a_limit(tmp_path: Path) -> None:
    with here(place_with(tmp_path, 1500)) as served:
        before = served.experiment().store.head()
        refused = batch(served, 67, 422)
        assert refused["error"].startswith(
            "a batch must have at most 100,000 arms in all its entries; got 100,500 in "
            "67"
        )
        assert served.experiment().store.head() == before
        answered = batch(served, 2, 200)["results"]
        assert all("arm" in entry and "odds" not in entry for entry in answered)
        with_odds = batch(served, 2, 200, odds=True)["results"]
        assert all(
            sum(entry["odds"].values()) == pytest.approx(1) for entry in with_odds
        )


@pytest.mark.parametrize(("arms", "there"), [(100, True), (101, False)])
def test_odds_come_by_default_up_to_a_hundred_arms(
    tmp_path: Path, arms: int, there: bool
) -> None:
    with here(place_with(tmp_path, arms)) as served:
        for id in ("a", "a", "b"):  # a repeat is answered as it is asked for
            assert ("odds" in served.decide(id)) is there
        assert len(served.decide("a", odds=True)["odds"]) == arms
        assert "odds" not in served.decide("a", odds=False)
        assert len(served.get("/v1/decisions/a")["odds"]) == arms
