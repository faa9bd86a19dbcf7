"""What a log was begun with is what it goes on with; settings that mean nothing are
refused in a sentence."""

import asyncio
import re
from pathlib import Path

import pytest

import oddsmith as od
from oddsmith.files.policy import read_policy
from oddsmith.server.experiment.clock import Clock
from oddsmith.server.experiment.experiment import Experiment
from oddsmith.server.experiment.settings import Settings, read_settings
from oddsmith.server.experiment.start import open_experiments
from oddsmith.server.store.meta import check_owner, meta_of
from server.served import place


class Model:
    """Never asked."""

    predict = staticmethod(len)


def edited(path: Path, old: str, new: str) -> Path:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    return path


CHANGES = {
    "seed": ("seed = 5", "seed = 6"),
    "reward": ("[service]", "[reward]\nhigh = 2.0\n[service]"),
}


@pytest.mark.parametrize("what", CHANGES)
def test_seed_and_units_stay(tmp_path: Path, what: str) -> None:
    path = place(tmp_path)
    open_experiments([path])[0].store.close()
    with pytest.raises(
        od.BadFile,
        match=f"{what} must be as the log was begun with|is the log of another policy",
    ) as refused:
        open_experiments([edited(path, *CHANGES[what])])[0]
    assert re.search(
        r"\. Undo the change, or .*begin a new (log|one): another store",
        str(refused.value),
    )
    # and nothing was harmed
    open_experiments([edited(path, *reversed(CHANGES[what]))])[0].store.close()


def test_retrained_models_are_told_to_join() -> None:
    def meta(version: str, gamma: float) -> dict[str, str]:
        experts = od.ModelExperts({"trees": Model()}, arms=["a", "b"], version=version)
        policy = od.GeneralizedThompsonSampling(od.stack(experts), gamma=gamma)
        return meta_of(policy, "first", "arrives", {})

    with pytest.raises(
        od.BadFile,
        match=(
            r"version was 'nov', is 'dec'\. Undo .* joins = true "
            r"\(docs/reference/service"
        ),
    ):
        check_owner("shop.sqlite", meta("nov", 0.1), meta("dec", 0.1))
    with pytest.raises(od.BadFile, match=r"gamma was 0\.1, is 0\.2\. Undo") as refused:
        check_owner("shop.sqlite", meta("nov", 0.1), meta("nov", 0.2))
    assert "joins" not in str(refused.value)


def test_a_seed_of_its_own_is_kept(tmp_path: Path) -> None:
    path = edited(place(tmp_path), "seed = 5\n", "")
    first, second = open_experiments([path])[0], None
    first.store.close()
    second = open_experiments([path])[0]
    second.store.close()
    assert first.seed == second.seed
    assert first.seed != 0


def test_experiments_have_names_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    paths = [place(tmp_path), place(tmp_path / "b")]
    with pytest.raises(
        od.InvalidInput, match="must have names of their own; got 'news' twice"
    ):
        open_experiments(paths)
    for opened in open_experiments(paths[:1]):  # the first was let go
        opened.store.close()


WRONG = {
    "late_reward = 'never'\n": (
        r"service.late_reward must be one of arrives, rewrites; got 'never'"
    ),
    "reward_rule = 'first_at_close'\n": (
        r"service.window_s must be given with reward_rule = \"first_at_close\""
    ),
    "reward_rule = 'sum'\n": (
        r"service.window_s must be given with reward_rule = \"sum\""
    ),
    "default_reward = 0.5\n": "service.default_reward must be given together with",
    "window_s = 0\n": "service.window_s must be",
    "window = 3\n": r"service.window is not a key; did you mean window_s\?",
    "sticky = 1\n": "service.sticky must be true or false",
    "default_reward = 7\nwindow_s = 5\n": "service.default_reward must be",
}


@pytest.mark.parametrize("lines", WRONG)
def test_settings_that_mean_nothing_are_refused(tmp_path: Path, lines: str) -> None:
    with pytest.raises(od.InvalidInput, match=WRONG[lines]):
        read_settings(read_policy(place(tmp_path, service=lines)))


def test_an_end_that_comes_with_news_is_an_end(tmp_path: Path) -> None:
    """A cancellation in the turn in which the learner is woken must not be lost."""

    async def end() -> bool:
        experiment = Experiment(open_experiments([place(tmp_path)])[0], Clock())
        await experiment.begin()
        await asyncio.sleep(0.01)
        experiment.follower.wake()
        (task,) = experiment._tasks
        task.cancel()
        done, _ = await asyncio.wait({task}, timeout=20)
        await experiment.end()
        return task in done

    assert asyncio.run(end())


def test_stores_are_not_shared_and_other_databases_not_known(tmp_path: Path) -> None:
    first, second = (
        place(tmp_path, "one", service="store = 's.sqlite'\n"),
        place(tmp_path, "two", service="store = 's.sqlite'\n"),
    )
    with pytest.raises(
        od.InvalidInput, match=r"must have stores of their own; got '.*s\.sqlite' twice"
    ):
        open_experiments([first, second])
    with pytest.raises(
        od.InvalidInput,
        match=r"service.store must be a file, or postgresql://…; got mysql://…",
    ):
        open_experiments([edited(first, "s.sqlite", "mysql://root:secret@host/db")])[0]


def test_a_store_is_for_its_owner_alone(tmp_path: Path) -> None:
    open_experiments([place(tmp_path)])[0].store.close()
    assert (tmp_path / "news.sqlite").stat().st_mode & 0o077 == 0


def test_lambdas_cannot_be_served_and_the_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "lambda_bank.py").write_text(
        "import oddsmith as od\ndef bank(arms):\n    return od.FunctionExperts({'x': "
        "lambda c: [1, 0, 0]}, arms)\n"
    )
    path = place(
        tmp_path, experts='[experts.x]\nkind = "python"\nfactory = "lambda_bank:bank"\n'
    )
    with pytest.raises(od.errors.NotPortable, match=r"news.toml: .*lambda"):
        open_experiments([path])[0]


def test_passwords_are_not_shown() -> None:
    assert (
        Settings("postgresql://ann:secret@host/db").place
        == "postgresql://ann:…@host/db"
    )
    assert Settings("/tmp/news.sqlite").place == "/tmp/news.sqlite"
