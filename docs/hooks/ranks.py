"""A hook of mkdocs: which pages come first in the search, and words that people type
and pages do not say.

Blocks of code are not searched: `seed=7` stands on every page. Names in the text, and
those of the API, are.
"""

import re
from typing import Any

__all__ = ["BOOSTS", "WORDS", "boost", "on_page_content", "on_page_markdown"]

BOOSTS = {  # by how a path begins; the longest beginning counts
    "index.md": 2,
    "tutorial/": 3,
    "howto/": 3,
    "howto/add-a": 0.5,
    "howto/add-an-arm.md": 3,
    "howto/index.md": 1,
    "explanation/": 3,
    "comparison/": 2,
    "comparison/index.md": 1,
    "reference/": 1,
    "math/": 0.5,
    "api/": 0.5,
    "benchmarks/": 0.2,
    "decisions/": 0.05,
    "changelog.md": 0.05,
    "contributing.md": 0.2,
}
WORDS: dict[str, list[str]] = {  # by page: found by these words, too
    "index.md": ["install", "getting started", "quick start", "picture"],
    "howto/better-than-today.md": [
        "holdout",
        "control group",
        "lift",
        "uplift",
        "guardrail metric",
        "champion challenger",
        "shadow mode",
        "segments",
    ],
    "howto/choose-a-policy.md": [
        "which algorithm",
        "which policy",
        "epsilon greedy",
        "UCB",
        "Thompson sampling",
        "non-stationary",
        "drift",
        "forgetting",
    ],
    "howto/exploration.md": [
        "how much exploration",
        "epsilon",
        "exploration rate",
        "minimum traffic",
    ],
    "howto/floors-and-caps.md": [
        "guardrail",
        "minimum traffic",
        "maximum share",
        "floors",
        "caps",
    ],
    "howto/rewards.md": [
        "late rewards",
        "delayed reward",
        "conversion",
        "attribution window",
        "money",
        "euros",
    ],
    "explanation/concepts.md": ["FAQ", "reproducible", "seed"],
    "howto/contexts.md": ["data frame", "pandas", "polars", "missing values", "batch"],
    "howto/containers.md": ["Docker", "compose", "image", "Kubernetes", "Helm"],
    "howto/curl.md": ["TypeScript", "JavaScript", "fetch", "HTTP", "REST", "curl"],
    "howto/run-the-service.md": [
        "production",
        "deploy",
        "replicas",
        "PostgreSQL",
        "backup",
        "monitoring",
    ],
    "howto/pipelines.md": ["scikit-learn", "sklearn", "LightGBM", "XGBoost"],
    "howto/several-slots.md": ["ranking", "slate", "recommendation list", "top k"],
    "howto/no-models.md": ["cold start", "without training data"],
    "howto/arms-that-change.md": ["new items", "changing catalogue", "action features"],
    "howto/add-an-arm.md": ["new arm", "new variant"],
    "howto/secure-the-service.md": ["API key", "authentication", "TLS", "rate limit"],
    "howto/feature-flags.md": ["OpenFeature", "rollout", "OFREP"],
    "howto/logs.md": ["CSV", "Parquet", "dsjson", "warm start", "history"],
    "howto/prove-a-decision.md": ["audit", "reproducible", "verify"],
    "howto/see-it-at-work.md": ["dashboard", "is it learning", "health"],
    "tutorial/first-agent.md": ["scikit-learn", "sklearn", "ONNX", "save and load"],
    "tutorial/from-a-log-to-a-decision.md": [
        "off-policy evaluation",
        "counterfactual",
        "CSV",
        "A/B test",
    ],
    "tutorial/nothing-but-clicks.md": ["cold start", "web shop", "save and load"],
    "tutorial/run-a-service.md": ["production", "deploy", "replicas"],
    "explanation/why-exact-odds.md": [
        "propensity",
        "inverse propensity",
        "logging",
        "sample ratio mismatch",
    ],
    "explanation/when-not-to-use-this.md": [
        "A/B test",
        "limitations",
        "alternatives",
        "when to stop",
    ],
    "explanation/what-a-bound-says.md": ["regret", "guarantee"],
    "reference/deprecation.md": ["deprecated", "compatibility", "semantic versioning"],
    "reference/policy-file.md": [
        "TOML",
        "configuration",
        "holdout",
        "guardrail metric",
    ],
    "reference/service.md": ["HTTP", "REST", "endpoints"],
    "reference/glossary.md": [
        "definition",
        "control group",
        "holdout",
        "guardrail",
        "lift",
        "Kubernetes",
        "TypeScript",
    ],
}
_BLOCK = re.compile(r'<div class="(?=[^"]*\bhighlight\b)')


def boost(page: str) -> float:
    """How much a match counts on a page."""
    keys = [key for key in BOOSTS if page.startswith(key)]
    return BOOSTS[max(keys, key=len)] if keys else 1


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Called by mkdocs for every page; what a page says of itself above its title is
    kept."""
    where = page.file.src_uri
    page.meta.setdefault("search", {}).setdefault("boost", boost(where))
    if where in WORDS:
        page.meta.setdefault("tags", WORDS[where])
    return markdown


def on_page_content(html: str, page: Any, **_: Any) -> str:
    """Called by mkdocs after Markdown."""
    return (
        html
        if page.file.src_uri.startswith("api/")
        else _BLOCK.sub('<div data-search-exclude class="', html)
    )
