"""The same numbers as Open Bandit Pipeline, to 1e-10, on the Open Bandit logs: `python
-m benchmarks.obp_parity`.

Its package asks for pins of 2022, and for torch, which its estimators of discrete arms
name in annotations only. So it is installed without dependencies
(requirements/obp.txt), and its two modules are loaded without the rest, with a module
that holds nothing but that name where torch is absent.
"""

import argparse
import importlib
import sys
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from benchmarks.timing import table
from benchmarks.told import Compared, Told, release, told
from oddsmith.evaluation import dm, dr, ips, snips, switch_dr
from oddsmith.logs import Log

LOGS = {"random_men": 34, "random_women": 46, "bts_men": 34, "bts_women": 46}
TAU, POSITIONS = 5.0, 3
APART = 1e-10
"""The largest difference of two estimates that are the same."""
ESTIMATORS = {
    "ips": "InverseProbabilityWeighting",
    "snips": "SelfNormalizedInverseProbabilityWeighting",
    "dm": "DirectMethod",
    "dr": "DoublyRobust",
    "switch_dr": "SwitchDoublyRobust",
}


def their_estimators() -> Any:
    """The module obp.ope.estimators; ImportError where obp is not installed."""
    import obp

    placed = {}
    if "obp.ope" not in sys.modules:
        placed["obp.ope"] = ModuleType("obp.ope")
        placed["obp.ope"].__path__ = [str(Path(obp.__file__).parent / "ope")]
    try:
        importlib.import_module("torch")
    except ImportError:
        placed["torch"] = ModuleType("torch")
        placed["torch"].Tensor = type("Tensor", (), {})  # type: ignore[attr-defined]
    sys.modules.update(placed)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return importlib.import_module("obp.ope.estimators")
    finally:
        for name in placed:
            del sys.modules[name]


def read(data: Path, name: str) -> tuple[Log, Any]:
    """One of the logs, and each row's position on the page, 0 to 2."""
    import pyarrow.parquet as pq

    columns = pq.read_table(
        data / "logged" / f"obd_{name}.parquet",
        columns=["action", "reward", "propensity", "position"],
    )
    arm, reward, propensity, position = (
        columns[c].to_numpy().astype(np.float64) for c in columns.column_names
    )
    return Log(
        arm=arm.astype(np.int64), reward=reward, propensity=propensity
    ), position.astype(np.int64) - 1


def pairs(
    log: Log, position: Any, n_arms: int, seed: int = 0
) -> dict[str, tuple[float, float]]:
    """Our number and theirs by estimator, of a random target and random predictions
    that differ by position."""
    rng, rows = np.random.default_rng(seed), np.arange(len(log))
    odds = rng.dirichlet(np.ones(n_arms), size=(len(log), POSITIONS)).transpose(0, 2, 1)
    predicted = rng.uniform(0, 0.02, odds.shape)
    target, model = odds[rows, :, position], predicted[rows, :, position]
    module = their_estimators()
    ours = {
        "ips": ips(log, target),
        "snips": snips(log, target),
        "dm": dm(log, target, model),
        "dr": dr(log, target, model),
        "switch_dr": switch_dr(log, target, model, TAU),
    }
    given = {
        "reward": log.reward,
        "action": log.arm,
        "pscore": log.propensity,
        "action_dist": odds,
        "position": position,
    }
    given["estimated_rewards_by_reg_model"] = predicted
    found = {}
    for name, theirs in ESTIMATORS.items():
        estimator = getattr(module, theirs)(
            **({"tau": TAU} if name == "switch_dr" else {})
        )
        found[name] = (
            float(ours[name].values.mean()),
            float(estimator.estimate_policy_value(**given)),
        )
    return found


def report(data: Path) -> str | Told:
    if not (data / "logged").exists():
        return (
            "## The same numbers as Open Bandit Pipeline\n\n"
            f"Skipped: {data / 'logged'} is not there (see --data).\n"
        )
    rows, apart = [], 0.0
    for name, n_arms in LOGS.items():
        log, position = read(data, name)
        for estimator, (our, their) in pairs(log, position, n_arms).items():
            rows.append(
                [
                    f"{name}: {estimator}",
                    f"{our:.12g}",
                    f"{their:.12g}",
                    f"{abs(our - their):.1e}",
                ]
            )
            apart = max(apart, abs(our - their))
    compared = Compared(
        f"{len(rows)} values by {len(ESTIMATORS)} estimators",
        release("obp", "Open Bandit Pipeline"),
        apart,
        APART,
        "apart, at most",
        "same",
    )
    text = f"""## The same numbers as Open Bandit Pipeline

Its 10,000-row logs, a random target and random predictions by row, arm and position, switch-DR at τ = {TAU:g}.

{table(["log", "oddsmith", "obp", "difference"], rows)}
"""
    return Told(text, (compared,))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    print(told(report(parser.parse_args().data)).text)


if __name__ == "__main__":
    main()
