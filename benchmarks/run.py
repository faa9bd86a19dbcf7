"""Run all benchmarks and write RESULTS.md and its figures: `make bench`, or `python -m benchmarks.run step`."""

import argparse
import datetime
import sys
from collections.abc import Callable
from pathlib import Path

from benchmarks import (
    algorithms,
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
    personalizer,
    quote,
    restart,
    served,
    service_load,
    service_replicas,
    simulation,
    step,
    strangers,
)
from benchmarks.timing import machine

HERE = Path(__file__).parent
DATA = HERE.parents[1] / "shared" / "data"
PACKAGES = ("oddsmith", "numpy", "scipy", "numba", "vowpalwabbit", "mabwiser", "river", "contextualbandits")
PARTS: dict[str, Callable[[], str]] = {
    "step": step.report,
    "growth": lambda: growth.report(HERE / "figures"),
    "simulation": lambda: simulation.report(HERE / "figures"),
    "algorithms": algorithms.report,
    "learners": lambda: learners.report(HERE / "figures"),
    "offers": offers.report,
    "imports": imports.report,
    "fitting": lambda: fitting.report(HERE / "figures"),
    "coverage": coverage.report,
    "served": served.report,
    "ope": lambda: ope.report(HERE / "figures", DATA),
    "obp_parity": lambda: obp_parity.report(DATA),
    "service": service_load.report,
    "offers served": offers_served.report,
    "rank": personalizer.report,
    "offers on disk": offers_on_disk.report,
    "replicas": service_replicas.report,
    "restart": restart.report,
    "page": page.report,
    "strangers": strangers.report,
    "idle": idle.report,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", help=f"parts to run and print, of {', '.join(PARTS)}; none: all, written")
    arguments = parser.parse_args()
    if unknown := [part for part in arguments.parts if part not in PARTS]:
        parser.error(f"parts must be of {', '.join(PARTS)}; got {unknown[0]!r}")
    (HERE / "figures").mkdir(exist_ok=True)
    sections = []
    for name in arguments.parts or PARTS:
        print(f"{name} …", file=sys.stderr, flush=True)
        sections.append(PARTS[name]())
        print(sections[-1])
    if arguments.parts:
        return
    head = f"# Benchmarks\n\n`make bench`, {datetime.date.today():%Y-%m-%d}. {machine(PACKAGES)}.\n"
    (HERE / "RESULTS.md").write_text("\n".join([head, *sections]))
    print("\n".join(quote.refresh()), file=sys.stderr)


if __name__ == "__main__":
    main()
