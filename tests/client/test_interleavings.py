"""Two pages ask with one id, answers get lost, rewards and reports come at any time: a
reward is learnt only for the decision that its page showed."""

from collections.abc import Iterator
from itertools import permutations, product
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import oddsmith as od
from client.conftest import Awaited
from client.serving import FATES, FatedProxy, events, policy_file, service
from oddsmith.agent.slate import slot_id
from oddsmith.client import tries

SHOPS = {"boots": {"price": 90}, "hat": {"price": 25}, "coat": {"price": 200}}
FORMS = ("one", "slate", "unit", "deferred")


class Case(NamedTuple):
    """Two pages, the second perhaps of another process, and one reward."""

    first: str
    second: str
    other: bool  # the second page is of another client
    earned: int  # by which page
    early: bool  # the reward is sent before the second page
    by_id: bool  # it names the id of the call, and not that of the answer
    between: bool  # reports are sent between the pages, too


def cases(form: str) -> list[Case]:
    """All interleavings of a form."""
    both = (False, True)
    everything = map(Case._make, product(FATES, FATES, both, (0, 1), both, both, both))
    return [case for case in everything if possible(form, case)]


def possible(form: str, case: Case) -> bool:
    """Whether the case can happen, and can be told from others by anybody."""
    if case.early and case.earned == 1:
        return False
    if not case.by_id:
        return True
    if form == "unit":
        return False
    # the id of a call does not say which process showed what
    unheard = ("unsent", "lost")
    same = case.first == "lost" or case.second not in unheard
    return not case.other or (same and case.first != "unsent")


class Page(NamedTuple):
    """What a page showed: the decision's id, and whether it was the fallback."""

    id: str
    fallback: bool
    new: bool


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    folder = tmp_path_factory.mktemp("interleavings")
    settings = {"one": "", "unit": "sticky = true\n", "deferred": ""}
    files = [policy_file(folder, name, more) for name, more in settings.items()]
    files.append(folder / "slate.toml")
    files[-1].write_text('seed = 5\n[policy]\nkind = "auto"\nsize = "small"\n')
    with service(*files) as url:
        yield url, folder


def ask(client: Any, form: str, name: str) -> Page:
    if form == "slate":
        page = client.decide_slate(
            {}, arms=SHOPS, slots=2, id=name, fallback=["hat", "coat"]
        )
        shown = page.slots[0]
        return Page(shown.id, shown.fallback, page.new)
    known: dict[str, Any] = {"unit": name} if form == "unit" else {"id": name}
    shown = client.decide([0.5, 1.0], fallback="tech", **known)
    return Page(shown.id, shown.fallback, shown.new)


def play(case: Case, form: str, name: str, proxy: FatedProxy, clients: Any) -> Page:
    """Let it happen; return the page that earned the reward."""
    both = clients[0], clients[case.other]

    def reward() -> None:
        id = pages[case.earned].id
        if case.by_id:
            id = slot_id(name, "1") if form == "slate" else name
        proxy.fates.clear()
        both[case.earned].reward(id, 1)

    pages = []
    for client, fate in zip(both, (case.first, case.second), strict=True):
        proxy.fates[:] = FATES[fate]
        pages.append(ask(client, form, name))
        proxy.fates.clear()
        if case.early and len(pages) == 1:
            reward()
        if case.between:
            client.report()
    if not case.early:
        reward()
    return pages[case.earned]


def check(served: tuple[str, Path], form: str, some: list[Case]) -> None:
    """Play the cases, and compare what was shown with what was learnt."""
    url, folder = served
    earned: dict[str, tuple[Case, Page]] = {}
    patience: dict[str, Any] = {"timeout": 60.0, "retries": 1, "experiment": form}
    with FatedProxy(url).running() as proxy:
        assert isinstance(proxy, FatedProxy)
        with (
            od.Client(proxy.url, **patience) as one,
            Awaited(proxy.url, **patience) as another,
        ):
            for number, case in enumerate(some):
                name = f"{form}-{len(some)}-{number}"
                earned[name] = case, play(case, form, name, proxy, (one, another))
            for client in (one, another):
                assert client.report()[1:] == (0, 0, 0)
    store = folder / f"{form}.sqlite"
    fallbacks = {page.id for _, page in earned.values() if page.fallback}
    counting = set(events(store, "activation")) | fallbacks
    learnt = set(events(store, "decision")) & set(events(store, "reward")) & counting
    for name, (case, page) in earned.items():
        by_the_service = {name, slot_id(name, "1")}
        if page.fallback:
            assert not by_the_service & learnt, case
        if case.by_id:
            continue
        # what this call decided, or the unit's, is learnt
        known = page.new or form == "unit"
        assert (page.id in learnt) == (page.fallback or known or heard_first(case)), (
            case
        )


def heard_first(case: Case) -> bool:
    """Whether the first page heard, and activated, the decision that both show."""
    return case.first in ("heard", "late")


@pytest.mark.parametrize("form", ["one", "slate", "unit"])
def test_a_reward_is_learnt_only_for_what_was_shown(
    served: tuple[str, Path], form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tries, "_FIRST", 1e-3)
    check(served, form, cases(form)[::41])


@pytest.mark.soak
@pytest.mark.parametrize("form", ["one", "slate", "unit"])
def test_in_every_interleaving(
    served: tuple[str, Path], form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tries, "_FIRST", 1e-3)
    check(served, form, cases(form))


def test_deferred_decisions_count_once_their_page_activates_them(
    served: tuple[str, Path],
) -> None:
    """The caller activates what was shown, in any order with reward and report."""
    url, folder = served
    shown, unseen = [], []
    with (
        FatedProxy(url).running() as proxy,
        od.Client(proxy.url, timeout=60, retries=0, experiment="deferred") as client,
    ):
        assert isinstance(proxy, FatedProxy)
        for fate, order in product(
            ("through", "before", "after"),
            permutations(("activate", "reward", "report")),
        ):
            proxy.fates[:] = [fate, fate]
            pages = [
                client.decide([0.5, 1.0], deferred=True, fallback="tech")
                for _ in range(2)
            ]
            shown.append(pages[0].id)
            unseen.append(pages[1].id)
            for step in order:
                if step == "activate":
                    client.activate(pages[0].id)
                elif step == "reward":
                    client.reward(pages[0].id, 1)
                    client.reward(pages[1].id, 1)
                else:
                    client.report()
        assert client.report()[1:] == (0, 0, 0)
    store = folder / "deferred.sqlite"
    assert sorted(events(store, "activation")) == sorted(shown)
    assert set(shown + unseen) <= set(events(store, "decision"))
