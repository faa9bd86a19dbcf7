"""One real use of each extra, for an environment that has nothing else: `python
lines.py EXTRA FOLDER [URL]`.

FOLDER has `page.py` (the Python of the README), `model.onnx` and `experiment.toml`; URL
is that of a service, or of a PostgreSQL server.
"""

import runpy
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

import oddsmith as od
from oddsmith.core import kernels


class Tiny:
    """A model for the README's example."""

    def predict(self, rows: Any) -> Any:
        return np.tile([0.2, 0.3, 0.5], (len(rows), 1))


def core(folder: Path, _: str) -> None:
    assert not [
        name
        for name in ("numba", "sklearn", "pyarrow", "uvicorn", "httpx", "matplotlib")
        if find_spec(name)
    ]
    _readme(folder, Tiny(), Tiny(), Tiny())
    agent = od.Agent(od.auto(["sports", "tech"]), seed=1)
    agent.learn(agent.decide({"hour": 9, "device": "phone"}), 1)


def fast(folder: Path, _: str) -> None:
    kernels.use("numba")
    assert kernels.compiled() is not None
    agent = od.Agent(od.auto(["sports", "tech"]), seed=1)
    agent.learn(agent.decide({"hour": 9, "device": "phone"}), 1)


def models(folder: Path, _: str) -> None:
    from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(1)
    rows, arms = rng.normal(size=(60, 4)), np.tile(["sports", "politics", "tech"], 20)
    kinds = (
        LogisticRegression(),
        RandomForestClassifier(5),
        GradientBoostingClassifier(n_estimators=3),
    )
    _readme(folder, *(model.fit(rows, arms) for model in kinds))
    bank = od.OnnxExperts({"m": folder / "model.onnx"}, ("sports", "politics", "tech"))
    np.testing.assert_allclose(bank.predict((), rows).sum(axis=-1), 1.0, atol=1e-5)


def lab(folder: Path, _: str, engine: str = "local") -> None:
    from oddsmith.cli.main import main

    where = ["simulate", str(folder / "experiment.toml"), "--out", str(folder / "mine")]
    assert main([*where, "--engine", engine, "--workers", "2"]) == 0
    assert "<figure>" in (folder / "mine" / "index.html").read_text()
    bound = [
        "bound",
        "--arms",
        "3",
        "--steps",
        "100",
        "--experts",
        "4",
        "--bounds-only",
    ]
    assert main([*bound, "--plot", str(folder / "bound.svg")]) == 0


def dask(folder: Path, _: str) -> None:
    lab(folder, "", "dask")


def ray(folder: Path, _: str) -> None:
    lab(folder, "", "ray")


def spark(folder: Path, _: str) -> None:
    lab(folder, "", "spark")


def logs(folder: Path, _: str) -> None:
    odds = np.full((4, 2), 0.5)
    arm, reward = np.array([0, 1, 1, 0]), np.array([0.0, 1.0, 1.0, 0.0])
    log = od.Log(arm=arm, reward=reward, propensities=odds, arms=("sports", "tech"))
    od.write_log(log, folder / "log.parquet")
    assert list(od.read_log(folder / "log.parquet").reward) == [0.0, 1.0, 1.0, 0.0]


def service(folder: Path, _: str) -> None:
    """The test starts `oddsmith serve` and asks it; keys are made here."""
    from oddsmith.cli.main import main

    assert (
        main(
            [
                "keys",
                "create",
                "shop",
                "--scope",
                "decide",
                "--keys",
                str(folder / "keys.json"),
            ]
        )
        == 0
    )


def postgres(folder: Path, url: str) -> None:
    from oddsmith.server.store import PostgresStore, Reward

    policy = od.GeneralizedThompsonSampling(
        od.TableExperts(np.full((1, 2, 3), 0.5)), gamma=0.1
    )
    with PostgresStore(url, policy, experiment="clean") as store:
        (receipt,) = store.append([Reward("visit-1", 1.0, time=1e9)]).result(60)
        assert receipt.position == store.head()


def client(folder: Path, url: str) -> None:
    with od.Client(url) as caller:
        decided = caller.decide({"hour": 9}, unit="ann")
        assert caller.reward(decided.id, 1).new


def openfeature(folder: Path, url: str) -> None:
    from openfeature import api
    from openfeature.evaluation_context import EvaluationContext

    from oddsmith.client.openfeature import OddsmithProvider

    api.set_provider_and_wait(OddsmithProvider(url, timeout=30))
    found = api.get_client().get_string_details(
        "news", "none", EvaluationContext("ann", {"hour": 9})
    )
    assert found.value in ("sports", "tech"), found
    assert found.error_code is None


def gymnasium(folder: Path, _: str) -> None:
    from gymnasium import make

    from oddsmith.lab.episodes import EpisodeAgent, TabularPosteriorSampling
    from oddsmith.lab.episodes.gymnasium import play_episode

    agent = EpisodeAgent(TabularPosteriorSampling(17, 4, horizon=15, draws=2), seed=1)
    assert play_episode(agent, make("FrozenLake-v1"), seed=1).steps <= 15


def all_of_them(folder: Path, _: str) -> None:
    for use in (fast, models, lab, logs, service, dask):
        use(folder, "")


def _readme(folder: Path, logistic: Any, forest: Any, boosting: Any) -> None:
    """The README's five lines, as they stand there."""
    given = {
        "logistic": logistic,
        "forest": forest,
        "boosting": boosting,
        "newer": boosting,
        "context": np.zeros(4),
    }
    runpy.run_path(str(folder / "page.py"), init_globals=given)


USES = {"all": all_of_them} | {
    use.__name__: use
    for use in (
        core,
        fast,
        models,
        lab,
        logs,
        service,
        postgres,
        client,
        openfeature,
        dask,
        ray,
        spark,
        gymnasium,
    )
}

if __name__ == "__main__":
    USES[sys.argv[1]](Path(sys.argv[2]), sys.argv[3] if len(sys.argv) > 3 else "")
