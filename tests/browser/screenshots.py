"""Pictures of every panel, in both themes, wide and narrow: python -m
browser.screenshots FOLDER, from tests, by hand.

Four experiments are lived through first, thirty hours in a minute: fixed arms and an
expert that joins, arms that come with calls, shadow mode, and one that was not asked
yet.
"""

import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from browser.chromium import Chromium
from browser.look import open_page
from browser.site import Site, site
from server.offering import ARMS
from server.served import BENCH, Hands, place

PANELS = (
    "sentence",
    "well",
    "switch",
    "follow",
    "worth",
    "serve",
    "reward",
    "decisions",
    "experts",
    "guarantee",
)
STEPS, AT_ONCE = 180, 10
_AUTO = (
    'seed = 5\n[policy]\nkind = "auto"\n[service]\nwindow_s = 600\ndefault_reward = 0\n'
    'store = "shop.sqlite"\n'
)


def policies(folder: Path) -> list[Path]:
    """The policy files."""
    for name in ("news", "shop", "trial", "quiet"):
        (folder / name).mkdir()
    shop = folder / "shop" / "shop.toml"
    shop.write_text(f'name = "shop"\n{_AUTO}')
    return [
        place(folder / "news", "news", experts=BENCH),
        shop,
        place(folder / "trial", "trial", service="shadow = true\n"),
        place(folder / "quiet", "quiet"),
    ]


def live(served: Site, hands: Hands, rng: np.random.Generator) -> None:
    """Thirty hours, up to now."""
    hours = np.sort(rng.uniform(0, 30, STEPS))
    for step, pause in enumerate(np.diff(hours, prepend=0.0) * 30 / hours[-1]):
        hands.pass_by(3600 * float(pause))
        for name, entry, value in (
            ("news", _plain, _news),
            ("shop", _offer, _shop),
            ("trial", _shadow, _news),
        ):
            asked = [
                entry(rng, step) | {"id": f"{name}-{step}-{i}"} for i in range(AT_ONCE)
            ]
            drawn = served.post(
                "decide/batch", {"experiment": name, "decisions": asked}
            )["results"]
            came = [one for one in drawn if rng.random() < 0.85]
            rewards = [
                {"id": one["id"], "reward": float(rng.random() < value(one["arm"]))}
                for one in came
            ]
            served.post("reward/batch", {"experiment": name, "rewards": rewards})
        if step == STEPS // 2:
            served.post(
                "experts",
                {
                    "experiment": "news",
                    "expert": "late",
                    "change": "added",
                    "share": 0.05,
                    "key": "k",
                },
            )
    hands.wall = time.time()


def _plain(rng: np.random.Generator, step: int) -> dict[str, Any]:
    return {"context": rng.normal(size=2).round(3).tolist()}


def _shadow(rng: np.random.Generator, step: int) -> dict[str, Any]:
    odds = {"sports": 0.6, "politics": 0.2, "tech": 0.2}
    return _plain(rng, step) | {
        "incumbent": str(rng.choice(ARMS, p=[0.6, 0.2, 0.2])),
        "incumbent_odds": odds,
    }


def _offer(rng: np.random.Generator, step: int) -> dict[str, Any]:
    first = step // 8
    arms = {
        f"article-{i}": {"topic": ("tech", "sports", "culture")[i % 3]}
        for i in range(first, first + 8)
    }
    return {
        "context": {"hour": step % 24, "device": str(rng.choice(["phone", "desk"]))},
        "arms": arms,
    }


def _news(arm: str) -> float:
    return {"sports": 0.2, "politics": 0.35, "tech": 0.55}[arm]


def _shop(arm: str) -> float:
    return 0.1 + 0.4 * (int(arm[8:]) % 5 == 0)


def take(page: Any, folder: Path, name: str) -> None:
    """A picture of the whole page, and of each of its panels."""
    page.screenshot(path=folder / f"{name}.png", full_page=True)
    for panel in PANELS:
        if page.locator(f"#{panel}").is_visible():
            page.locator(f"#{panel}").screenshot(path=folder / f"{name}-{panel}.png")


def main(folder: Path) -> None:
    folder.mkdir(parents=True)
    hands, chromium = Hands(wall=time.time() - 30 * 3600), Chromium()
    with site(*policies(folder), clock=hands.clock()) as served:
        live(served, hands, np.random.default_rng(1))
        time.sleep(2)
        for theme in ("light", "dark"):
            for width in (1280, 400):
                for name in ("news", "shop", "trial", "quiet"):
                    with chromium.page(theme=theme, width=width) as page:
                        open_page(page, served, experiment=name, range="all")
                        take(page, folder, f"{name}-{theme}-{width}")
                        drawer(page, folder / f"{name}-{theme}-{width}-why.png")
                        page.goto("about:blank")
    chromium.close()


def drawer(page: Any, path: Path) -> None:
    """The drawer of the fourth decision."""
    if page.locator("#decisions tbody button").count() > 3:
        page.locator("#decisions tbody button").nth(3).click()
        page.locator("#why[open]").wait_for()
        page.screenshot(path=path)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
