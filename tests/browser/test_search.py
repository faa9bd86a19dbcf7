"""The search of the site: thirty questions of new users, each answered on the first
screen, by mouse or by keyboard."""

from typing import Any

import pytest

from browser.chromium import Chromium

pytestmark = pytest.mark.soak
RESULT = ".md-search-result__item > .md-search-result__link"
# what a new user types, and the pages that answer: one of them must be on the first
# screen
QUESTIONS = {
    # what people look for first
    "late rewards": ["howto/rewards/"],
    "new arm": ["howto/add-an-arm/"],
    "how much exploration": ["howto/exploration/"],
    "propensity": ["explanation/why-exact-odds/"],
    "off-policy evaluation csv": ["tutorial/from-a-log-to-a-decision/"],
    "scikit-learn model": ["tutorial/first-agent/"],
    "missing values": ["howto/contexts/"],
    "docker": ["howto/containers/"],
    "vowpal wabbit": ["comparison/vowpal-wabbit/"],
    "personalizer": ["howto/from-personalizer/"],
    "feature flag": ["howto/feature-flags/"],
    "A/B test": ["explanation/when-not-to-use-this/"],
    "reward in euros": ["howto/rewards/"],
    "reproducible seed": ["explanation/concepts/"],
    "save and load": ["tutorial/first-agent/", "tutorial/nothing-but-clicks/"],
    # what users of other libraries and services ask for
    "holdout": ["howto/better-than-today/", "reference/policy-file/"],
    "control group": ["howto/better-than-today/"],
    "guardrail metric": ["howto/better-than-today/", "reference/policy-file/"],
    "lift": ["howto/better-than-today/"],
    "kubernetes": ["howto/containers/"],
    "typescript": ["howto/curl/"],
    "cold start": ["howto/no-models/", "tutorial/nothing-but-clicks/"],
    "warm start": ["howto/logs/"],
    "slate recommendation": ["howto/several-slots/"],
    "non-stationary drift": ["howto/choose-a-policy/"],
    "sample ratio mismatch": ["explanation/why-exact-odds/"],
    "shadow mode": ["howto/better-than-today/"],
    "postgres replicas": ["howto/run-the-service/"],
    "minimum traffic per arm": ["howto/floors-and-caps/", "howto/exploration/"],
    "is it learning": ["howto/see-it-at-work/", "tutorial/nothing-but-clicks/"],
}


def found(page: Any, address: str, question: str) -> list[str]:
    """Paths of the pages that a question finds, those that are seen without scrolling,
    the first first."""
    page.goto(address)
    page.locator(".md-search__input").click()
    page.locator(".md-search__input").fill(question)
    # what was filled in is one question, asked once
    page.locator(".md-search__input").press("End")
    page.locator(".md-search-result__meta", has_text="matching document").wait_for()
    seen = """links => links.filter(one => one.querySelector('h1, h2').getBoundingClientRect().bottom
        <= document.querySelector('.md-search__scrollwrap').getBoundingClientRect().bottom)
        .map(one => new URL(one.href).pathname.slice(1))"""
    return [str(path) for path in page.locator(RESULT).evaluate_all(seen)]


def test_thirty_questions(chromium: Chromium, docs_address: str) -> None:
    assert len(QUESTIONS) == 30
    missed = {}
    with chromium.page() as page:
        page.set_viewport_size({"width": 1280, "height": 800})
        for question, pages in QUESTIONS.items():
            shown = found(page, docs_address, question)
            if not set(shown) & set(pages):
                missed[question] = shown
    assert missed == {}
