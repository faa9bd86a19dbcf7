"""The parts of the benchmarks, in the order of RESULTS.md: what is fast first, the
bake-off last."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from benchmarks import (
    algorithms,
    bakeoff_again,
    coverage,
    fitting,
    growth,
    idle,
    imports,
    learners,
    obp_parity,
    offers,
    offers_on_disk,
    offers_served,
    ope,
    page,
    paired,
    personalizer,
    restart,
    served,
    service_load,
    service_replicas,
    simulation,
    step,
    strangers,
)
from benchmarks.told import Told

HERE = Path(__file__).parent
FIGURES = HERE / "figures"
DATA = HERE.parents[1] / "shared" / "data"

Part = Callable[[], str | Told]

PARTS: dict[str, Part] = {
    "step": step.report,
    "growth": partial(growth.report, FIGURES),
    "simulation": partial(simulation.report, FIGURES),
    "algorithms": algorithms.report,
    "learners": partial(learners.report, FIGURES),
    "offers": offers.report,
    "imports": imports.report,
    "fitting": partial(fitting.report, FIGURES),
    "coverage": partial(coverage.report, 120),  # by hand 500 logs a world, 25 minutes
    "paired": partial(paired.report, 400),
    "served": served.report,
    "ope": partial(ope.report, FIGURES, DATA),
    "obp_parity": partial(obp_parity.report, DATA),
    "service": service_load.report,
    "offers served": offers_served.report,
    "rank": personalizer.report,
    "offers on disk": offers_on_disk.report,
    "replicas": service_replicas.report,
    "restart": restart.report,
    "page": page.report,
    "strangers": strangers.report,
    "idle": idle.report,
    "bakeoff": partial(bakeoff_again.report, DATA),
}
"""By name, what measures a part and gives its section."""

BY_HAND = (
    "ablation",
    "checks",
    "choice_models",
    "crossings",
    "drift",
    "flood",
    "late_rewards",
    "late_rules",
    "model_study",
    "proofs",
    "rare_clicks",
    "refusals",
    "scales",
    "stores",
    "warm_start",
)
"""Studies without a peer, which `make bench` leaves out: `python -m benchmarks.NAME
--help` says what each is."""
