"""Makes the pictures of docs/gallery: `make gallery`, or `python -m examples.gallery
[NAME ...]` for some of them.

A day of a news site is lived through in a minute, by the service with a clock that is
set by hand; its page, and the evaluation of its log, are pictures of a browser, which
needs Chromium and Playwright. All seeds are fixed.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from examples.gallery import browser, day, drawn

import oddsmith as od

ROOT = Path(__file__).parents[2]
PICTURES = (
    "idea.svg",
    "page.png",
    "page-dark.png",
    "evaluation.png",
    "explain.svg",
    "bakeoff.svg",
)
OF_THE_DAY = ("page.png", "page-dark.png", "evaluation.png")
_PANELS = (
    "sentence",
    "well",
    "follow",
    "serve",
    "worth",
    "reward",
    "decisions",
    "experts",
    "guarantee",
)


def main() -> None:
    """Make what is asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help=f"of {', '.join(PICTURES)} (default: all)",
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=ROOT / "docs" / "gallery",
        help="folder for the pictures",
    )
    asked = parser.parse_args()
    names = asked.names or PICTURES
    if unknown := [name for name in names if name not in PICTURES]:
        parser.error(f"pictures must be of {', '.join(PICTURES)}; got {unknown[0]!r}")
    asked.out.mkdir(parents=True, exist_ok=True)
    for name in names:
        if name in OF_THE_DAY:
            continue
        make(name, asked.out / name)
        print(asked.out / name)
    if wanted := [name for name in names if name in OF_THE_DAY]:
        with tempfile.TemporaryDirectory() as folder:
            of_the_day(wanted, Path(folder), asked.out)


def make(name: str, path: Path) -> None:
    """A picture without a browser; that of the bake-off is the one that the benchmarks
    have drawn."""
    if name == "bakeoff.svg":
        shutil.copyfile(ROOT / "benchmarks" / "figures" / "bakeoff.svg", path)
    else:
        {"idea.svg": drawn.idea, "explain.svg": drawn.explain}[name](path)


def of_the_day(wanted: list[str], folder: Path, out: Path) -> None:
    """Live through the day, and take pictures of its page and of what its log says."""
    hands = day.Hands()
    with day.service(day.policy_file(folder), hands) as url:
        with od.Client(url, timeout=60) as client:
            client.ready(wait=60)
            day.live(client, hands)
        for name in [name for name in wanted if name.startswith("page")]:
            page_of(url, "dark" if "dark" in name else "light", hands.now(), out / name)
            print(out / name)
    if "evaluation.png" in wanted:
        evaluation(folder, out / "evaluation.png")
        print(out / "evaluation.png")


def page_of(url: str, theme: str, now: float, path: Path) -> None:
    """The service's page."""
    with browser.opened(f"{url}/dashboard/#range=day", theme=theme, now=now) as page:
        for panel in _PANELS:
            page.locator(f"#{panel} [data-slot] > *").first.wait_for(state="attached")
        page.get_by_text("Asking the service").wait_for(state="detached")
        browser.keep(browser.above(page, "#decisions"), path)


def evaluation(folder: Path, path: Path) -> None:
    """The report of `oddsmith evaluate` on the log of the day."""
    oddsmith = [sys.executable, "-m", "oddsmith"]
    log, report = folder / "log.parquet", folder / "report"
    targets = [
        word
        for name in ("uniform", "arm:sports", "arm:tech")
        for word in ("--target", name)
    ]
    for words in (
        ["export", str(folder / "news.sqlite"), "--out", str(log)],
        ["evaluate", str(log), *targets, "--out", str(report)],
    ):
        subprocess.run(
            [*oddsmith, *words], check=True, stdout=subprocess.DEVNULL, cwd=ROOT
        )
    with browser.opened((report / "index.html").as_uri()) as page:
        browser.keep(
            browser.above(page, 'nav[aria-label="More on this page"]', "main"), path
        )


if __name__ == "__main__":
    main()
