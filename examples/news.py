"""Articles come and go: a service that chooses the top of a front page, and finds the
best article of the day.

Starts `oddsmith serve` on a free port, with a policy file that names no arms. Articles
come with each call, with their topic and age; the best of them is not there in the
morning. Told only of clicks, the service finds it.

Run it with `make demo`; it prints a table and writes a picture (news.html). It needs
the extras service and client.
"""

import argparse
import random
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

import oddsmith as od
from oddsmith.files.reports import Figure, Section, Table, write
from oddsmith.files.reports.style import (
    COLOURS,
    DASHES,
    EDGE,
    SOFT,
    legend,
    panels,
    svg,
)
from oddsmith.logs.progress import progress

POLICY = (
    'seed = 7\n[policy]\nkind = "auto"\ngamma = 0.1\n[service]\ntimeout_ms = 2000\n'
)
VISITS, PART = 400, 80
# topic, the visits between which it is there, how likely a click is (which only this
# program knows)
ARTICLES = {
    "budget-vote": ("politics", 0, 200, 0.10),
    "cup-final": ("sports", 0, 200, 0.30),
    "new-phone": ("tech", 0, 400, 0.20),
    "storm-warning": ("weather", 130, 400, 0.60),
    "city-marathon": ("sports", 200, 400, 0.25),
}
BEST = max(ARTICLES, key=lambda name: ARTICLES[name][3])


def front_page(visit: int) -> dict[str, dict[str, object]]:
    """The articles that are there, with what is known of each."""
    return {
        name: {"topic": topic, "age_h": (visit - first) / 30}
        for name, (topic, first, last, _) in ARTICLES.items()
        if first <= visit < last
    }


@contextmanager
def service(folder: Path) -> Iterator[str]:
    """The address of a running service; it is asked to stop at the end."""
    (folder / "news.toml").write_text(POLICY)
    command = [
        sys.executable,
        "-m",
        "oddsmith",
        "serve",
        str(folder / "news.toml"),
        "--port",
        "0",
    ]
    server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert server.stderr is not None
    try:
        lines = iter(server.stderr.readline, "")
        url = next(
            (
                found[1]
                for line in lines
                if (found := re.search(r"listening on (\S+)", line))
            ),
            None,
        )
        yield url or sys.exit(
            "the service did not start: see `oddsmith serve` by itself"
        )
    finally:
        server.terminate()
        server.communicate(timeout=30)


def day(client: od.Client, seed: int) -> list[tuple[str, bool]]:
    """What each visitor was shown, and whether it was clicked."""
    world, seen = random.Random(seed), []
    for visit in progress(range(VISITS), VISITS, "visitors"):
        visitor = {"hour": 8 + visit // 30, "device": world.choice(["phone", "laptop"])}
        decided = client.decide(visitor, arms=front_page(visit), id=f"visit-{visit}")
        click = world.random() < ARTICLES[decided.arm][3]
        client.reward(decided.id, int(click))
        seen.append((decided.arm, click))
    return seen


def verdict(seen: list[tuple[str, bool]]) -> str:
    """What became of the best article, and of the clicks, in one sentence."""
    first, came = seen[:100], ARTICLES[BEST][1]
    last = [arm for arm, _ in seen[-100:]].count(BEST)
    clicks = [sum(click for _, click in part) for part in (first, seen[-100:])]
    return (
        f"{BEST}, unknown until visit {came}, was shown to {last} of the last 100 "
        f"visitors; they clicked {clicks[1]} times, the first 100 {clicks[0]} times."
    )


def results(seen: list[tuple[str, bool]]) -> Table:
    """How often each article was shown, part by part of the day; a dash where it was
    not there."""
    parts = [seen[start : start + PART] for start in range(0, VISITS, PART)]
    rows = []
    for name, (_, first, last, chance) in ARTICLES.items():
        counts = [str([arm for arm, _ in part].count(name)) for part in parts]
        there = [first < (i + 1) * PART and last > i * PART for i in range(len(parts))]
        rows.append(
            (
                name,
                f"{chance:.0%}",
                *(
                    n if is_there else "-"
                    for n, is_there in zip(counts, there, strict=True)
                ),
            )
        )
    rows.append(
        ("clicks", "", *(str(sum(click for _, click in part)) for part in parts))
    )
    visits = [f"{start + 1}-{start + PART}" for start in range(0, VISITS, PART)]
    return Table(
        ("article", "clicked by", *visits),
        tuple(rows),
        "How often each article was shown, by visits",
    )


def picture(seen: list[tuple[str, bool]], width: int = 40) -> Figure:
    """The share of front pages that each article had, in the last `width` visits."""
    figure, (panel,) = panels()
    for i, (name, (_, first, last, chance)) in enumerate(ARTICLES.items()):
        shown = np.array([arm == name for arm, _ in seen], dtype=float)
        share = np.convolve(shown, np.ones(width))[: len(shown)] / np.minimum(
            np.arange(1, len(shown) + 1), width
        )
        # before that, a share of few is a wild line
        there = np.arange(max(first, width // 2), last)
        style = (
            {"ls": "-", "lw": 3.0} if name == BEST else {"ls": DASHES[i + 1], "lw": 1.5}
        )
        panel.plot(
            there + 1,
            share[there],
            color=COLOURS[i],
            label=f"{name} ({chance:.0%})",
            **style,
        )
    panel.axvline(ARTICLES[BEST][1], color=EDGE, lw=1)
    panel.annotate(
        f"{BEST} comes ", (ARTICLES[BEST][1], 1.0), ha="right", va="top", color=SOFT
    )
    panel.set(
        xlabel="visitors",
        ylabel=f"share of the last {width} front pages",
        xlim=(0, VISITS),
        ylim=(0, 1.02),
    )
    legend(panel)
    return Figure(
        svg(figure),
        "Who had the top of the front page. In brackets: how likely a click is, which "
        "the service is not told.",
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--out", type=Path, default=Path("report"), help="folder for the page"
    )
    parser.add_argument("--seed", type=int, default=3, help="seed of the visitors")
    arguments = parser.parse_args()
    print("Articles come and go on a front page, chosen by `oddsmith serve` …")
    with (
        tempfile.TemporaryDirectory() as folder,
        service(Path(folder)) as url,
        od.Client(url, timeout=60) as client,
    ):
        client.ready(wait=60)
        seen = day(client, arguments.seed)
        experts = ", ".join(
            f"{name} {weight:.2f}"
            for name, weight in client.posterior().posterior.items()
        )
    said, table, figure = verdict(seen), results(seen), picture(seen)
    print(f"\n{said}\n\n{table}\n\nwhom it trusts: {experts}")
    told = (
        "Every call brings the articles that are there, with topic and age; the policy "
        "file names none. One front page in ten is drawn at random, which finds what "
        "is new and lets the log be evaluated."
    )
    sections = [
        Section("The top of the front page", figures=(figure,), tables=(table,)),
        Section("How it was played", told, folded=True),
    ]
    page = write(arguments.out / "news.html", "Articles come and go", said, sections)
    (arguments.out / "news.svg").write_text(figure.file())
    print(f"\nreport: {page}")


if __name__ == "__main__":
    main()
