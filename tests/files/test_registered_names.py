"""What is on disk does not depend on where a class is in the source, nor on fields that
were added later."""

import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
import pytest

import oddsmith as od
from oddsmith.core.gts import GeneralizedThompsonSampling
from oddsmith.experts.answers import RecordedExperts
from oddsmith.experts.guard.guard import Guarded
from oddsmith.experts.guard.process import Isolated
from oddsmith.files.fingerprint import describe
from oddsmith.files.registered_names import REGISTERED
from oddsmith.server.fold.judge import judge


def bank() -> od.TableExperts:
    return od.TableExperts(np.array([[[0.2, 0.8], [0.6, 0.4]]]), names=("one", "other"))


def policy() -> GeneralizedThompsonSampling:
    return od.GeneralizedThompsonSampling(bank(), gamma=0.1)


def saved_agent(folder: Path) -> Path:
    agent = od.Agent(policy(), seed=7)
    agent.learn(agent.decide(0), 1.0)
    agent.save(folder / "agent.npz")
    return folder / "agent.npz"


@dataclass(frozen=True, eq=False)
class Wider(GeneralizedThompsonSampling):
    damping: float = 0.0


Wider.__module__ = GeneralizedThompsonSampling.__module__
Wider.__qualname__ = GeneralizedThompsonSampling.__qualname__


def test_a_module_can_be_renamed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = saved_agent(tmp_path)
    described = describe(judge(policy()))
    for moved in (
        GeneralizedThompsonSampling,
        od.TableExperts,
        RecordedExperts,
        od.log_loss,
    ):
        monkeypatch.setattr(moved, "__module__", "oddsmith.somewhere.new")
    assert od.Agent.load(path, policy()).steps == 1
    assert describe(judge(policy())) == described  # what a store contains


def test_a_field_with_a_default_can_be_added(tmp_path: Path) -> None:
    path = saved_agent(tmp_path)
    assert od.Agent.load(path, Wider(bank(), gamma=0.1)).steps == 1
    with pytest.raises(od.BadFile, match=r"policy\.damping was None, is 0\.5"):
        od.Agent.load(path, Wider(bank(), gamma=0.1, damping=0.5))


def own_classes() -> Iterator[type]:
    for module in pkgutil.walk_packages(od.__path__, "oddsmith."):
        for _, found in inspect.getmembers(
            importlib.import_module(module.name), inspect.isclass
        ):
            if found.__module__ == module.name:
                yield found


def test_every_policy_and_bank_is_registered_once() -> None:
    classes = list(own_classes())
    by_name: dict[str, set[type]] = {}
    for one in classes:
        by_name.setdefault(one.__qualname__, set()).add(one)
    for one in classes:
        is_saved = issubclass(
            one, (od.Policy, od.Experts)
        ) and not one.__module__.startswith("oddsmith.lab.")
        is_abstract = bool(one.__subclasses__()) or one.__name__.startswith("_")
        if is_saved and not is_abstract and one not in (Guarded, Isolated):
            assert one.__name__ in REGISTERED, (
                f"{one.__name__} needs a row in files/registered_names.py"
            )
    assert not [name for name in REGISTERED if len(by_name.get(name, ())) > 1]
    assert len({row.name for row in REGISTERED.values()}) == len(REGISTERED)
    for name, row in REGISTERED.items():
        (found,) = by_name.get(name, {None})
        if found is not None:
            assert set(row.fields.split()) <= {field.name for field in fields(found)}, (
                name
            )
