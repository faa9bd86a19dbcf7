"""The page of metrics and the alert rules are about what a running service exports, no
more and no less."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

import oddsmith as od
from server.served import here, place

REFERENCE = Path(od.__file__).parents[2] / "docs" / "reference"
PAGE = (REFERENCE / "metrics.md").read_text()
RULES: list[dict[str, Any]] = [
    rule
    for group in yaml.safe_load((REFERENCE / "alerts.yml").read_text())["groups"]
    for rule in group["rules"]
]
METRIC = re.compile(r"\b(?:oddsmith|process)_[a-z_]+\b")


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The types of the metrics of a running service, by the names that they have in a
    query."""
    with here(place(tmp_path_factory.mktemp("served"))) as served:
        families = text_string_to_metric_families(served.ask("GET", "/metrics").text)
        return {
            one.name + "_total" * (one.type == "counter"): one.type for one in families
        }


def described() -> list[str]:
    """What the first cells of the page's tables name."""
    cells = re.findall(r"^\| (`.*?) \|", PAGE, re.MULTILINE)
    return [name for cell in cells for name in re.findall(r"`([a-z_]+)`", cell)]


def sections() -> dict[str, str]:
    """The page's sections by their anchors."""
    parts = re.findall(r"^## (.+)\n((?:(?!## ).*\n)*)", PAGE, re.MULTILINE)
    return {title.lower().replace(" ", "-"): text for title, text in parts}


def test_every_metric_is_described_and_nothing_else(exported: dict[str, str]) -> None:
    names = [name for name in exported if not name.endswith("_created")]
    assert sorted(described()) == sorted(names)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_rules_are_whole_and_about_metrics_that_there_are(
    rule: dict[str, Any], exported: dict[str, str]
) -> None:
    assert set(rule) == {"alert", "expr", "for", "labels", "annotations"}
    assert re.fullmatch(r"Oddsmith[A-Z][A-Za-z]+", rule["alert"])
    assert re.fullmatch(r"\d+[smh]", rule["for"])
    assert rule["labels"]["severity"] in ("page", "ticket")
    assert rule["annotations"]["summary"]
    page, _, anchor = rule["annotations"]["runbook"].partition("#")
    assert page == "metrics.md"
    assert anchor in sections()
    for name in METRIC.findall(rule["expr"]):
        base = name.removesuffix("_bucket")
        assert base in exported
        assert (exported[base] == "histogram") == (base != name)
        assert f"`{base}`" in sections()[anchor]
    assert METRIC.search(rule["expr"]) or rule["expr"].startswith("up{")


def test_names_of_alerts_are_their_own() -> None:
    assert len({rule["alert"] for rule in RULES}) == len(RULES) >= 15
