"""Which policy leads: the sentence for one, two and many policies, and how often it is
wrong."""

import numpy as np

from oddsmith.lab.leaders import leader, regrets


def test_two_policies_are_paired() -> None:
    # what runs have in common does not hide the difference
    shared = np.array([10.0, 40.0, 20.0, 30.0])
    said = leader({"slow": shared + np.array([2, 3, 2, 3]), "fast": shared}, steps=1000)
    assert said == (
        "fast earns 2.50 more in 1,000 steps than slow, [1.58, 3.42] (95 % interval "
        "over 4 paired runs)"
    )


def test_of_many_the_best_is_compared_with_the_next() -> None:
    runs = np.linspace(0, 1, 20)
    said = leader(
        {"c": runs + 9, "a": runs[::-1].copy(), "b": runs + 5}, steps=50, unit="seeds"
    )
    assert said.startswith(
        "a, the best of 3, earns 5.00 more in 50 steps than b, the next, ["
    )
    assert said.endswith("(95 % interval over 20 paired seeds)")


def test_one_policy_and_one_run() -> None:
    runs = np.array([3.0, 5.0])
    assert leader({"a": runs}, steps=50).startswith(
        "a loses 4 rewards to the best arm in 50 steps, [-9, 17] (95 %"
    )
    assert leader({"a": runs[:1]}, steps=50).startswith(
        "a has a regret of 3.00 in 50 steps; one run gives no"
    )
    said = leader({"a": runs[:1], "b": runs[1:]}, steps=50)
    assert said.startswith(
        "a has the smallest regret of 2 policies, 3.00 in 50 steps; one run gives no "
        "measure of chance"
    )
    assert regrets({"a": runs[:1], "b": runs[1:]}) == ""


def test_five_equal_policies_are_told_apart_in_at_most_one_study_of_twenty() -> None:
    """The best of several is chosen by its result: the level holds all the same."""
    rng, studies = np.random.default_rng(5), 1000
    wrong = 0
    for _ in range(studies):
        totals = {str(i): rng.normal(size=12) for i in range(5)}
        wrong += not leader(totals, steps=1).startswith(
            "No difference is shown between"
        )
    assert wrong / studies < 0.05 + 3 * np.sqrt(0.05 * 0.95 / studies)


def test_one_bad_policy_does_not_set_the_axis() -> None:
    spread = np.linspace(-1, 1, 30)
    lines = regrets(
        {"bad": spread + 900, "good": spread + 10, "fair": spread + 20}
    ).splitlines()
    assert [line.split()[0] for line in lines[1:4]] == ["good", "fair", "bad"]
    assert lines[3].endswith("> 900.0")
    assert float(lines[0].split()[1]) < 70
    assert lines[2].index("o") - lines[1].index("o") > 5
