"""The games of the bake-off: rounds by the rules, coins that fall alike, and worlds
that are the same everywhere."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.games import NOISES, choices, labelled

from benchmarks import click_worlds

SETS = Path(__file__).parents[3] / "shared" / "data" / "choices"


def written(folder: Path, name: str, about: dict[str, Any], **arrays: Any) -> Path:
    np.savez(folder / f"{name}.npz", **arrays)
    (folder / f"{name}.json").write_text(json.dumps(about))
    return folder / f"{name}.npz"


def rows_set(folder: Path) -> Path:
    x = np.random.default_rng(0).normal(size=(60, 3))
    return written(
        folder, "easy", {"columns": ["a", "b", "c"]}, X=x, y=(x[:, 0] > 0).astype(float)
    )


def groups_set(folder: Path, *, repeated: bool = False) -> Path:
    """Twenty groups of two or three, of brands that differ within a group, or not in
    the first one."""
    sizes = [2 + g % 2 for g in range(20)]
    brand = np.concatenate([np.arange(n) for n in sizes])
    brand[1] = 0 if repeated else 1
    group = np.repeat(np.arange(20), sizes)
    x = np.column_stack([*(brand == b for b in range(3)), group]).astype(np.float32)
    columns = ["brand=a", "brand=b", "brand=c", "income"]
    about = {"columns": columns, "same_within_group": ["income"]}
    return written(
        folder, "brands", about, X=x, y=(brand == 1).astype(np.float32), group=group
    )


def test_rows_come_as_ten_candidates_with_fresh_names(tmp_path: Path) -> None:
    found = choices(rows_set(tmp_path), "rows", shuffle=0, cap=30, standardised=False)
    assert len(found.rounds) == 30
    assert not found.lasting
    assert len({name for now in found.rounds for name in now.names}) == 300
    assert all(
        len(np.unique(now.own, axis=0)) == 10 and now.shared.shape == (0,)
        for now in found.rounds
    )
    assert all((now.rewards == (now.own[:, 0] > 0)).all() for now in found.rounds)
    other = choices(rows_set(tmp_path), "rows", shuffle=1, cap=30, standardised=False)
    assert not np.array_equal(found.rounds[0].own, other.rounds[0].own)


def test_groups_come_whole_with_the_choosers_columns_apart(tmp_path: Path) -> None:
    found = choices(
        groups_set(tmp_path), "groups", shuffle=0, cap=100, standardised=False
    )
    assert found.lasting
    assert sorted(len(now.names) for now in found.rounds) == [2] * 10 + [3] * 10
    assert sorted(now.shared[0] for now in found.rounds) == list(range(20))
    for now in found.rounds:
        assert [now.names[k] for k in range(len(now.names))] == [
            "brand=" + "abc"[k] for k in now.own.argmax(axis=1)
        ]
        assert [name == "brand=b" for name in now.names] == (now.rewards == 1).tolist()
    assert not choices(
        groups_set(tmp_path, repeated=True),
        "groups",
        shuffle=0,
        cap=9,
        standardised=False,
    ).lasting


def test_routing_takes_the_last_case_that_is_suggested(tmp_path: Path) -> None:
    cases = [
        {"models": "all", "cost_weight": 0},
        {"models": ["c", "a"], "cost_weight": 2},
    ]
    correct, cost = (
        np.array([[1, 1, 0], [0, 1, 1]]),
        np.array([[0.1, 0.1, 0.3], [0.2, 0.1, 0.6]]),
    )
    about = {"models": ["a", "b", "c"], "suggested": {"cases": cases}}
    path = written(
        tmp_path, "llm", about, X=np.array([[0.0], [1.0]]), correct=correct, cost=cost
    )
    found = {
        int(now.shared[0]): now
        for now in choices(path, "routing", shuffle=0, cap=9, standardised=False).rounds
    }
    assert found[0].names == ("c", "a")
    np.testing.assert_allclose(
        [found[0].rewards, found[1].rewards], [[0.0, 0.8], [0.0, 0.0]]
    )
    score = np.array([[0.1, 0.2], [0.3, 0.4]])
    path = written(
        tmp_path,
        "solvers",
        {"models": ["a", "b"]},
        X=np.array([[0.0], [1.0]]),
        score=score,
    )
    assert {
        tuple(now.rewards)
        for now in choices(path, "routing", shuffle=0, cap=9, standardised=True).rounds
    } == {
        (0.1, 0.2),
        (0.3, 0.4),
    }


def labelled_set(folder: Path) -> Path:
    rng = np.random.default_rng(0)
    np.savez(
        folder / "many.npz", X=rng.normal(size=(4000, 2)), y=rng.integers(0, 4, 4000)
    )
    return folder / "many.npz"


def test_labels_are_right_or_wrong(tmp_path: Path) -> None:
    path = labelled_set(tmp_path)
    found = labelled(path, "", shuffle=1, cap=50, standardised=False)
    with np.load(path) as arrays:
        answers = {tuple(x): y for x, y in zip(arrays["X"], arrays["y"], strict=True)}
    assert len(found.rounds) == 50
    assert all(
        now.rewards.argmax() == answers[tuple(now.shared)] for now in found.rounds
    )
    assert all(
        now.rewards.sum() == 1 and (now.means == now.rewards).all()
        for now in found.rounds
    )


@pytest.mark.parametrize("noise", NOISES)
def test_clicks_are_coins_of_the_labels(tmp_path: Path, noise: str) -> None:
    path, (high, low) = labelled_set(tmp_path), NOISES[noise]
    found = labelled(path, noise, shuffle=0, cap=4000, standardised=True)
    plain = labelled(path, "", shuffle=0, cap=4000, standardised=True)
    again = labelled(path, noise, shuffle=0, cap=4000, standardised=False)
    right = np.array([now.rewards for now in plain.rounds]) == 1
    rewards = np.array([now.rewards for now in found.rounds])
    assert (
        np.array([now.means for now in found.rounds]) == np.where(right, high, low)
    ).all()
    assert (rewards == [now.rewards for now in again.rounds]).all()
    for odds, share in (
        (high, rewards[right].mean()),
        (low, rewards[~right].reshape(-1, 3)[:, 0].mean()),
    ):
        # fails once in 10^5
        assert abs(share - odds) < 4.5 * np.sqrt(odds * (1 - odds) / 4000)


def test_worlds_are_the_same_in_every_process() -> None:
    names = ("categories-0", "missing-3", "interplay-1")
    code = f"from benchmarks.click_worlds import digest; print(*map(digest, {names}))"
    other = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert other.stdout.split() == [click_worlds.digest(name) for name in names]
    assert len({click_worlds.digest(name) for name in click_worlds.WORLDS}) == len(
        click_worlds.WORLDS
    )


@pytest.mark.parametrize("kind", click_worlds.KINDS)
def test_peers_know_what_the_dicts_say(kind: str) -> None:
    """Text and codes are one-hot columns, missing values have a column, amounts are
    standardised."""
    found = click_worlds.game(f"{kind}-1", shuffle=0, cap=400)
    amounts = sorted(
        {
            name
            for now in found.rounds
            for name in now.context
            if name.startswith("amount")
        }
    )
    values = {
        (name, v)
        for now in found.rounds
        for name, v in now.context.items()
        if name not in amounts
    }
    sizes = click_worlds.SIZES.get(kind, (3,))
    lacking = len(amounts) + len(sizes) if kind == "missing" else 0
    assert len(found.rounds[0].shared) == len(amounts) + sum(sizes) + lacking
    seen: dict[Any, int] = {}
    for now in found.rounds:
        blocks = np.split(now.shared[len(amounts) :], np.cumsum(sizes))
        for name, block in zip(sorted({n for n, _ in values}), blocks, strict=False):
            if (value := now.context.get(name)) is None:
                assert not block.any()
            else:
                assert (
                    seen.setdefault((name, value), int(block.argmax()))
                    == block.argmax()
                )
        for j, name in enumerate(amounts if kind == "missing" else ()):
            assert (now.context.get(name) is None) == (blocks[-1][j] == 1)
    assert len(set(seen.items())) == len([1 for _, v in values if v is not None])


def test_worlds_have_low_click_rates_and_something_to_win() -> None:
    for name in click_worlds.WORLDS:
        means = np.array(
            [now.means for now in click_worlds.game(name, shuffle=0, cap=500).rounds]
        )
        assert 4 <= means.shape[1] <= 10
        assert 0.02 < means.mean() < 0.2
        assert means.max(axis=1).mean() > 1.3 * means.mean()


def test_weights_drift_at_once_or_slowly() -> None:
    for number in range(4):
        turn = click_worlds._turn(click_worlds.world(f"drifting-{number}"), 1000)
        assert turn[0] == 0
        assert turn[-1] == pytest.approx(np.pi / 2)
        assert len(np.unique(turn)) == (2 if number % 2 else 1000)
    assert not click_worlds._turn(click_worlds.world("plain-0"), 10).any()


@pytest.mark.skipif(not SETS.is_dir(), reason="the sets of choices are not here")
def test_the_sets_whose_items_have_lasting_names() -> None:
    lasting = {
        path.stem
        for path in (SETS / "groups").glob("*.npz")
        if choices(path, "groups", shuffle=0, cap=1, standardised=False).lasting
    }
    assert lasting == {"crackers", "swissmetro", "tuna"}
