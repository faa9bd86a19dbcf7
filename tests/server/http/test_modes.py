"""What is served is what the formulas say: odds, eligible arms, bounds, sticky units,
shadows, experts that change."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oddsmith as od
from oddsmith.cli.main import main
from oddsmith.server.store.events import DecisionMade
from server.offering import ARMS, said, weights
from server.served import BENCH, CONTEXT, EXPERTS, Here, here, place
from server.store.samples import bits, stored

# then a posterior is a product, which can be computed by hand
PLAIN = "policy.share = 0.0\n"
GAMMA = 0.1


def odds_of(weights: Any, predictions: Any, eligible: Any = (True, True, True)) -> Any:
    """(1 - γ) Σ w_i [a is the best eligible arm of i] + γ / K_t."""
    free = np.array(eligible)
    best = np.where(free, predictions, -1).argmax(axis=1)
    votes = np.array([np.sum(weights[best == arm]) for arm in range(3)])
    return (1 - GAMMA) * votes + GAMMA * free / free.sum()


def after(weights: Any, advice: Any, reward: float, eta: float) -> Any:
    """w_i · exp(-η · log loss), normalised."""
    loss = -(reward * np.log(advice) + (1 - reward) * np.log(1 - advice))
    heavier = weights * np.exp(-eta * loss)
    return heavier / heavier.sum()


def posterior(served: Here, name: str = "news") -> Any:
    served.state(name)
    return np.array(
        list(served.get(f"/v1/posterior?experiment={name}")["posterior"].values())
    )


def eta(served: Here) -> float:
    policy: Any = served.experiment().setup.policy
    return float(policy.eta)


@pytest.mark.usefixtures("arms")
def test_odds_draws_and_posterior_by_hand(tmp_path: Path) -> None:
    with here(place(tmp_path, top=PLAIN)) as served:
        rng, weights = np.random.default_rng(0), np.full(4, 0.25)
        for i in range(15):
            context = rng.normal(size=2).tolist()
            answer = served.post("decide", {"id": f"i{i}", "context": context})
            expected = odds_of(weights, said(context))
            np.testing.assert_allclose(
                [answer["odds"][arm] for arm in ARMS], expected, atol=1e-12
            )
            number = int(
                np.searchsorted(
                    expected.cumsum(), od.Uniforms(5)(f"i{i}"), side="right"
                )
            )
            assert answer["arm"] == ARMS[number]
            assert answer["propensity"] == answer["odds"][answer["arm"]]
            assert (answer["step"], answer["position"], answer["seen"]) == (
                i + 1,
                2 * i + 1,
                2 * i,
            )
            reward = round(float(rng.random()), 2)
            served.reward(f"i{i}", reward)
            weights = after(weights, said(context)[:, number], reward, eta(served))
            np.testing.assert_allclose(posterior(served), weights, atol=1e-12)
        stats = served.get("/v1/stats")
        assert sum(arm["decided"] for arm in stats["arms"].values()) == 15
        assert sum(arm["rewarded"] for arm in stats["arms"].values()) == 15


@pytest.mark.usefixtures("arms")
def test_ids_are_made_and_differ(tmp_path: Path) -> None:
    with here(place(tmp_path)) as served:
        batch = served.post("decide/batch", {"decisions": [{"context": CONTEXT}] * 50})[
            "results"
        ]
        assert len({one["id"] for one in batch}) == 50
        assert all(one["new"] and one["odds"] == batch[0]["odds"] for one in batch)


@pytest.mark.usefixtures("arms")
def test_a_batch_of_contexts_is_no_context(tmp_path: Path) -> None:
    with here(place(tmp_path)) as served:
        for wrong in ([CONTEXT, CONTEXT], [CONTEXT], [[[0.1, 0.2]]]):
            said = served.post("decide", {"context": wrong}, status=422)["error"]
            assert (
                "context must be a single one" in said
                or "context must be one context for all arms" in said
            )
            found = served.post(
                "decide/batch",
                {"decisions": [{"context": wrong}, {"context": CONTEXT}]},
            )["results"]
            assert (found[0]["code"], found[1]["new"]) == ("invalid", True)
        assert served.get("/v1/stats")["events"] == {"decision": 3}


@pytest.mark.usefixtures("arms")
def test_experts_vote_among_eligible_arms(tmp_path: Path) -> None:
    with here(place(tmp_path)) as served:
        for mask in ((True, True, False), (False, True, True), (False, False, True)):
            free = [arm for arm, allowed in zip(ARMS, mask, strict=True) if allowed]
            answer = served.post("decide", {"context": CONTEXT, "eligible": free})
            expected = odds_of(np.full(4, 0.25), said(CONTEXT), mask)
            np.testing.assert_allclose(
                [answer["odds"][arm] for arm in ARMS], expected, atol=1e-12
            )
            assert answer["arm"] in free
            assert served.get(f"/v1/decisions/{answer['id']}")["eligible"] == free
        wrong = served.post(
            "decide", {"context": CONTEXT, "eligible": ["weather"]}, status=422
        )
        assert "eligible must be among the arms" in wrong["error"]
        served.post("decide", {"context": CONTEXT, "eligible": []}, status=422)


@pytest.mark.usefixtures("arms")
def test_floors_and_caps_hold(tmp_path: Path) -> None:
    file = place(tmp_path, top="floors = { tech = 0.3 }\ncaps = { sports = 0.35 }\n")
    with here(file) as served:
        for i in range(8):
            answer = served.decide(f"i{i}")
            served.reward(f"i{i}", i % 2)
            served.state()
            odds = answer["odds"]
            assert sum(odds.values()) == pytest.approx(1, abs=1e-12)
            assert odds["tech"] >= 0.3 - 1e-12
            assert odds["sports"] <= 0.35 + 1e-12
        assert bits(served.state()) == bits(served.defined())


@pytest.mark.usefixtures("arms")
def test_a_unit_keeps_its_arm_while_that_is_eligible(tmp_path: Path) -> None:
    file = place(tmp_path, service="sticky = true\n")
    with here(file) as served:
        served.post("decide", {"context": CONTEXT}, status=422)
        first = served.post("decide", {"context": CONTEXT, "unit": "ann@home"})
        again = served.post(
            "decide",
            {"context": [9.0, 9.0], "unit": "ann@home", "eligible": [first["arm"]]},
        )
        assert again == first | {"new": False}
        others = [arm for arm in ARMS if arm != first["arm"]]
        second = served.post(
            "decide", {"context": CONTEXT, "unit": "ann@home", "eligible": others}
        )
        assert second["id"] != first["id"]
        assert second["arm"] in others
        assert second["new"]
        served.reward(first["id"], 1)
        served.reward(second["id"], 0)
        state = bits(served.state())
        assert state == bits(served.defined())
        batch = [
            {"context": CONTEXT, "unit": unit} for unit in ("bob", "ann@home", "bob")
        ]
        results = served.post("decide/batch", {"decisions": batch})["results"]
        assert results[1] == first | {"new": False}
        assert results[0]["arm"] == results[2]["arm"]
        assert sorted(one["new"] for one in results) == [False, False, True]
    with here(file) as served:
        assert served.post(
            "decide", {"context": [0, 0], "unit": "ann@home"}
        ) == first | {"new": False}


@pytest.mark.usefixtures("arms")
def test_in_the_shadow_the_incumbent_acts_and_we_learn(tmp_path: Path) -> None:
    with here(place(tmp_path, top=PLAIN, service="shadow = true\n")) as served:
        served.post("decide", {"context": CONTEXT}, status=422)
        asked = {
            "context": CONTEXT,
            "id": "s",
            "incumbent": "tech",
            "incumbent_odds": {"tech": 0.75, "sports": 0.25},
        }
        answer = served.post("decide", asked)
        ours = odds_of(np.full(4, 0.25), said(CONTEXT))
        assert (
            answer["would"]
            == ARMS[
                int(np.searchsorted(ours.cumsum(), od.Uniforms(5)("s"), side="right"))
            ]
        )
        assert (answer["arm"], answer["propensity"]) == ("tech", 0.75)
        assert answer["odds"] == {"sports": 0.25, "politics": 0.0, "tech": 0.75}
        served.reward("s", 1)
        np.testing.assert_allclose(
            posterior(served),
            after(np.full(4, 0.25), said(CONTEXT)[:, 2], 1, eta(served)),
        )
        sure = served.post("decide", {"context": CONTEXT, "incumbent": "politics"})
        assert (sure["arm"], sure["propensity"]) == ("politics", 1.0)
        assert served.get("/v1/decisions/s")["shadow"] is True
        for odds in ({"tech": 0.5}, {"sports": 1.0}, {"tech": 0.5, "weather": 0.5}):
            wrong = served.post(
                "decide", asked | {"id": "t", "incumbent_odds": odds}, status=422
            )
            assert "incumbent_odds must" in wrong["error"]


def test_in_the_shadow_what_a_policy_computes_is_of_the_incumbents_odds(
    tmp_path: Path,
) -> None:
    code = "import numpy as np\nimport oddsmith as od\n\n\ndef policy(arms):\n"
    code += (
        "    table = od.TableExperts(np.array([[[0.9, 0.1], [0.1, 0.9]]]))\n"
        "    return od.policies.EXP4P(table, steps=1000)\n"
    )
    (tmp_path / "shadowed.py").write_text(code)
    file = tmp_path / "news.toml"
    text = (
        "arms = ['x', 'y']\nseed = 5\n[policy]\nkind = 'python'\n"
        "factory = 'shadowed:policy'\n"
    )
    file.write_text(text + "[service]\nshadow = true\n")
    with here(file) as served:
        served.post(
            "decide",
            {
                "context": 0,
                "id": "s",
                "incumbent": "y",
                "incumbent_odds": {"x": 0.8, "y": 0.2},
            },
        )
        [(_, event)] = stored(served.experiment().store)
        assert isinstance(event, DecisionMade)
        np.testing.assert_allclose(np.asarray(event.decision.bonus), [1 / 0.8, 1 / 0.2])


@pytest.mark.usefixtures("arms")
def test_an_explanation_adds_up_to_the_odds(tmp_path: Path) -> None:
    with here(place(tmp_path)) as served:
        for i in range(6):
            served.decide(f"i{i}")
            served.reward(f"i{i}", i % 2)
        before = dict(zip(EXPERTS, posterior(served).tolist(), strict=True))
        served.decide("asked")
        for i in range(6):
            served.post("correct", {"id": f"i{i}", "reward": 0.5, "key": "later"})
        assert posterior(served).tolist() != list(before.values())
        record = served.get("/v1/decisions/asked?explain=true")
        total = dict.fromkeys(ARMS, GAMMA / 3)
        for row in record["experts"]:
            for arm, part in row["votes"].items():
                total[arm] += (1 - GAMMA) * row["weight"] * part
        assert total == pytest.approx(record["odds"], abs=1e-12)
        assert {
            row["expert"]: row["weight"] for row in record["experts"]
        } == pytest.approx(before, abs=1e-12)
        predicted = dict(
            zip(
                EXPERTS,
                said(record["context"])[:, ARMS.index(record["arm"])],
                strict=True,
            )
        )
        assert {
            row["expert"]: row["predicted"] for row in record["experts"]
        } == pytest.approx(predicted, abs=1e-12)


@pytest.mark.usefixtures("arms")
def test_experts_join_and_retire_while_it_runs(tmp_path: Path) -> None:
    file = place(tmp_path, top=PLAIN)
    late = said(CONTEXT, np.vstack([weights(), weights()[::-1][:1]]))
    joins = {"expert": "late", "change": "added", "share": 0.3, "key": "one"}
    with here(file) as served:
        arm = ARMS.index(
            served.post("decide", {"context": CONTEXT, "id": "old"})["arm"]
        )
        assert (
            "must be on the policy file's bench, which is empty"
            in served.post("experts", joins, status=422)["error"]
        )
        place(tmp_path, top=PLAIN, experts=BENCH)  # the file is read again
        assert served.post("experts", joins)["new"]
        assert not served.post("experts", joins)["new"]
        served.post("experts", joins | {"key": "two"}, status=409)
        np.testing.assert_allclose(posterior(served), [0.175] * 4 + [0.3], atol=1e-15)
        answer = served.post("decide", {"context": CONTEXT, "id": "new"})
        expected = odds_of(np.array([0.175] * 4 + [0.3]), late)
        np.testing.assert_allclose(
            [answer["odds"][a] for a in ARMS], expected, atol=1e-12
        )
        # the newcomer slept then: it is charged what the others lose on average
        served.reward("old", 1)
        eta_ = eta(served)
        four = after(np.full(4, 0.25), late[:4, arm], 1, eta_)
        np.testing.assert_allclose(
            posterior(served), np.append(0.7 * four, 0.3), atol=1e-12
        )
        retires = {"expert": "a", "change": "retired", "key": "three"}
        assert served.post("experts", retires)["new"]
        rest = np.append(0.7 * four, 0.3) * [0, 1, 1, 1, 1]
        rest /= rest.sum()
        np.testing.assert_allclose(posterior(served), rest, atol=1e-12)
        assert served.get("/v1/posterior")["retired"] == ["a"]
        served.post("experts", retires | {"key": "four"}, status=409)
        served.reward("new", 0)
        rest = after(rest, late[:, ARMS.index(answer["arm"])], 0, eta_)
        np.testing.assert_allclose(posterior(served), rest, atol=1e-12)
        served.post(
            "experts", {"expert": "a", "change": "added", "share": 0.5, "key": "five"}
        )
        np.testing.assert_allclose(
            posterior(served), rest / 2 + [0.5, 0, 0, 0, 0], atol=1e-12
        )
        state = bits(served.state())
    with here(file) as served:
        assert bits(served.state()) == state


@pytest.mark.usefixtures("arms")
def test_learners_are_served(tmp_path: Path) -> None:
    auto = (
        'policy.kind = "auto"\npolicy.size = "small"\n[schema]\nnumbers = ["age"]\n'
        'categories = ["city"]\n'
    )
    file = place(tmp_path, top="", experts=auto)
    with here(file) as served:
        for i in range(25):
            context = {"age": i / 10, "city": "Rome" if i % 2 else "Oslo"}
            answer = served.post("decide", {"id": f"i{i}", "context": context})
            assert sum(answer["odds"].values()) == pytest.approx(1, abs=1e-12)
            served.reward(f"i{i}", float(answer["arm"] == "tech"))
        served.post("correct", {"id": "i3", "reward": 1, "key": "k"})
        state = bits(served.state())
        assert state == bits(served.defined())
        assert served.get("/v1/decisions/i24?explain=true")["context"] == context
    with here(file) as served:
        assert bits(served.state()) == state


@pytest.mark.usefixtures("arms")
def test_experiments_do_not_meet(tmp_path: Path) -> None:
    files = [place(tmp_path, name) for name in ("news", "shop-2")]
    with here(*files) as served:
        served.post("decide", {"context": CONTEXT}, status=422)
        served.get("/v1/posterior", status=422)
        served.post("decide", {"context": CONTEXT, "experiment": "absent"}, status=404)
        for name in ("news", "shop-2"):
            answer = served.post(
                "decide", {"context": CONTEXT, "id": "same", "experiment": name}
            )
            assert (answer["experiment"], answer["position"], answer["new"]) == (
                name,
                1,
                True,
            )
        served.reward("same", 1, experiment="shop-2")
        # a batch is about one experiment
        entries = [{"context": CONTEXT, "experiment": "news"}]
        served.post(
            "decide/batch", {"decisions": entries, "experiment": "shop-2"}, status=422
        )
        rewards = [{"id": "same", "reward": 1, "experiment": "news"}]
        served.post(
            "reward/batch", {"rewards": rewards, "experiment": "shop-2"}, status=422
        )
        assert posterior(served, "news").tolist() == [0.25] * 4
        assert posterior(served, "shop-2").tolist() != [0.25] * 4
        assert bits(served.state("shop-2")) == bits(served.defined("shop-2"))


def test_a_fitted_state_is_the_start(tmp_path: Path, capsys: Any) -> None:
    rng = np.random.default_rng(2)
    arm, context = rng.integers(0, 3, 300), rng.normal(size=(300, 2))
    log = od.Log(
        arm=arm,
        reward=rng.random(300),
        propensities=np.full((300, 3), 1 / 3),
        context=context,
        arms=ARMS,
    )
    od.write_log(log, tmp_path / "log.parquet")
    file = place(tmp_path, top=PLAIN)
    fit = [
        "fit",
        str(tmp_path / "log.parquet"),
        "--policy",
        str(file),
        "--out",
        str(tmp_path / "state.npz"),
    ]
    assert main(fit) == 0
    file = place(tmp_path, top=PLAIN, service='start = "state.npz"\n')
    fitted = od.Agent.load(
        tmp_path / "state.npz", od.read_policy(file).policy
    ).posterior()
    assert max(fitted.values()) > 0.5
    for _ in range(2):
        with here(file) as served:
            before = posterior(served)
            np.testing.assert_allclose(before, list(fitted.values()), atol=1e-12)
            answer = served.post("decide", {"context": CONTEXT})
            np.testing.assert_allclose(
                list(answer["odds"].values()),
                odds_of(before, said(CONTEXT)),
                atol=1e-12,
            )
    with here(file) as served:
        served.reward(answer["id"], 1)
        advice = said(CONTEXT)[:, ARMS.index(answer["arm"])]
        np.testing.assert_allclose(
            posterior(served), after(before, advice, 1, eta(served)), atol=1e-12
        )
