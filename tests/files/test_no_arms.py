"""Policy files without `arms`: they make what one would build by hand, and refuse in a
sentence what needs arms."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oddsmith as od
from files.test_policy_file import onnx_model
from oddsmith.files.build import bank_of
from oddsmith.files.experts import _KINDS
from oddsmith.files.kinds import KINDS, parameters

SCHEMAS = (
    '[schema]\nnumbers = ["age"]\n[schema.arms]\nnumbers = ["price"]\n'
    'categories = ["topic"]\nbuckets = 3\n'
)
SCHEMA, ARM_SCHEMA = (
    od.Schema(numbers=("age",)),
    od.Schema(numbers=("price",), categories=("topic",), buckets=3),
)
WEIGHTS = np.random.default_rng(0).normal(size=(2, 5))
ARMS = {
    "a": {"price": 1.0, "topic": "tech"},
    "b": {"price": 0.2, "topic": "sports"},
    "c": None,
}
LINEAR = '[experts.lines]\nkind = "linear"\nfile = "rows.npz"\n'
ONNX = '[experts.net]\nkind = "onnx"\nfile = "one.onnx"\n'
PYTHON = '[experts.rules]\nkind = "python"\nfactory = "no_arms_rules:bank"\n'
FACTORY = """
import oddsmith as od

def cheap(context, arm, features):
    return 0.5 if features is None else 1 / (1 + features["price"])

def bank(arms):
    assert arms is None
    return od.FunctionExperts({"cheap": cheap})

def fixed(arms):
    return od.FunctionExperts({"even": lambda context, arm: 0.5}, ["a", "b"])

def table(arms):
    return od.TableExperts([[[0.2, 0.8]]])
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: Any) -> Path:
    path = Path(tmp_path_factory.mktemp("no_arms"))
    np.savez(path / "rows.npz", weights=WEIGHTS)
    np.savez(path / "narrow.npz", weights=WEIGHTS[:, :2])
    np.savez(path / "arms.npz", weights=np.zeros((2, 3, 5)))
    (path / "no_arms_rules.py").write_text(FACTORY)
    return path


def read(folder: Path, text: str) -> od.PolicyFile:
    (folder / "news.toml").write_text(text)
    return od.read_policy(folder / "news.toml")


def odds(policy: od.Policy, context: Any = None) -> Any:
    offer = od.Offer({"age": 3.0} if context is None else context, tuple(ARMS), ARMS)
    return policy.odds(policy.init(), offer).propensities


def test_linear_weights_are_one_row_for_all_arms(folder: Path) -> None:
    file = read(folder, SCHEMAS + LINEAR)
    assert (file.arms, file.schema, file.arm_schema) == (None, SCHEMA, ARM_SCHEMA)
    bank = od.experts.Clipped(od.LinearExperts(WEIGHTS, names=("lines 0", "lines 1")))
    made = od.GeneralizedThompsonSampling(
        od.experts.Encoded(bank, SCHEMA, ARM_SCHEMA), od.log_loss, eta=0.5, gamma=0.02
    )
    assert od.fingerprint(file.policy) == od.fingerprint(made)
    np.testing.assert_array_equal(odds(file.policy), odds(made))


def test_auto_learns_by_schemas(folder: Path) -> None:
    file = read(
        folder, SCHEMAS + '[policy]\nkind = "auto"\nsize = "small"\nmost_arms = 50\n'
    )
    made = od.auto(schema=SCHEMA, arm_schema=ARM_SCHEMA, size="small", most_arms=50)
    assert od.fingerprint(file.policy) == od.fingerprint(made)
    table = read(
        folder, SCHEMAS + '[experts.learners]\nkind = "auto"\nsize = "small"\n'
    ).policy
    assert od.fingerprint(table.bank) == od.fingerprint(
        od.auto(schema=SCHEMA, arm_schema=ARM_SCHEMA, size="small").bank
    )


def test_factories_are_called_without_arms(folder: Path) -> None:
    file = read(folder, PYTHON)
    np.testing.assert_allclose(odds(file.policy), [0.02 / 3, 0.98 + 0.02 / 3, 0.02 / 3])


def test_onnx_models_have_one_output(folder: Path) -> None:
    (folder / "one.onnx").write_bytes(onnx_model(width=5, n_arms=1))
    policy = read(folder, SCHEMAS + ONNX).policy
    x = np.concatenate(
        [SCHEMA.encode([{"age": 3.0}] * 2), ARM_SCHEMA.encode([ARMS["a"], ARMS["b"]])],
        axis=1,
    )
    state = policy.bank.init()  # type: ignore[union-attr]
    asked = policy.bank.predict(state, od.Offer({"age": 3.0}, ("a", "b"), ARMS))  # type: ignore[union-attr]
    np.testing.assert_allclose(
        asked[0],
        (1 / (1 + np.exp(-x @ (np.arange(5) / 10)))).clip(1e-4, 1 - 1e-4),
        rtol=1e-6,
    )


@pytest.mark.parametrize("kind", [kind for kind in KINDS if "dim" in parameters(kind)])
def test_policies_of_numbers_read_both_schemas(folder: Path, kind: str) -> None:
    policy = read(folder, SCHEMAS + f'[policy]\nkind = "{kind}"\n').policy
    assert policy.dim == 6  # type: ignore[attr-defined]
    assert odds(policy).sum() == pytest.approx(1)


def test_bounds_are_a_number_or_a_table_by_name(folder: Path) -> None:
    floors, caps = (
        read(folder, f"{text}\n{PYTHON}").policy
        for text in ("floors = 0.1", "caps = { b = 0.6, z = 0.1 }")
    )
    # a vote of 0.8 and two floors, and gamma's thirds; a and c tie for the rest of 0.6
    np.testing.assert_allclose(
        odds(floors), 0.98 * np.array([0.1, 0.8, 0.1]) + 0.02 / 3
    )
    np.testing.assert_allclose(odds(caps), 0.98 * np.array([0.2, 0.6, 0.2]) + 0.02 / 3)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            '[policy]\nkind = "ucb1"\n',
            ("policy.kind must support arms that are passed in the call"),
        ),
        (
            '[policy]\nkind = "beta_thompson"\n',
            "got 'beta_thompson', which counts by arm",
        ),
        (
            '[policy]\nkind = "regressor_elimination"\ncontexts = [1]\n' + PYTHON,
            "whose sample of contexts needs a fixed set of arms",
        ),
        (
            LINEAR.replace("rows", "arms"),
            r"weights \(N, d\) for arms that are passed in the call, one row for all arms; got \(N, K, d\)",
        ),
        (
            SCHEMAS + LINEAR.replace("rows", "narrow"),
            r"must be a model of 5 numbers \(the schemas'\)",
        ),
        (
            PYTHON.replace("bank", "table"),
            "experts.rules.kind python made experts that do not support arms that are passed",
        ),
        (
            PYTHON.replace("bank", "fixed"),
            "factory must create it without arms, because arms are passed in each call",
        ),
        (
            '[experts.l]\nkind = "auto"\nrows_per_arm = true\n',
            "rows_per_arm is for a fixed list of arms",
        ),
        (
            'arms = ["a", "b"]\n' + SCHEMAS + LINEAR,
            "schema.arms requires a file without arms",
        ),
        (
            "[schema.arms]\nnumber = ['x']\n" + PYTHON,
            "schema.arms.number is not a key; did you mean numbers",
        ),
        ("floors = { a = 2 }\n" + PYTHON, r"floors.a must be in \[0, 1\]"),
    ],
)
def test_what_needs_arms_says_so(folder: Path, text: str, message: str) -> None:
    with pytest.raises(od.OddsmithError, match=message):
        read(folder, text)


@pytest.mark.parametrize("table", [PYTHON, SCHEMAS + ONNX], ids=["python", "onnx"])
def test_isolated_experts_rate_arms_of_the_call(folder: Path, table: str) -> None:
    """In a process of their own they give the odds that they give in this one, one by
    one and in batches."""
    patient = "guard = true\ntimeout_ms = 20000\n"
    if table != PYTHON:
        (folder / "one.onnx").write_bytes(onnx_model(width=5, n_arms=1))
    policies: Any = [
        read(folder, patient + table + end).policy for end in ("", "isolate = true\n")
    ]
    inside, apart = policies
    one, other = od.Agent(inside, seed=3), od.Agent(apart, seed=3)
    for agent in (one, other):
        agent.learn(agent.decide({"age": 3.0}, arms=ARMS), 1)
    few = {"d": {"price": 0.7, "topic": "tech"}}
    first, second = (
        agent.decide_batch(
            [{"age": 1.0}, {"age": 2.0}, {"age": None}], arms=[ARMS, few, ARMS]
        )
        for agent in (one, other)
    )
    assert first.to_json() == second.to_json()
    assert other.decide({"age": 3.0}, arms=ARMS, eligible=["b", "c"]) == one.decide(
        {"age": 3.0}, arms=ARMS, eligible=["b", "c"]
    )
    assert apart.bank.failures() == {}
    assert od.fingerprint(inside) == od.fingerprint(apart)


@pytest.mark.parametrize("kind", [*_KINDS, "new"])
def test_every_kind_of_experts_is_refused_in_a_sentence(
    kind: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kind that is added to the table needs no entry in another one."""
    fixed = bank_of(od.TableExperts(np.array([[[0.2, 0.8]]])))
    monkeypatch.setitem(_KINDS, kind, lambda *_: fixed)
    with pytest.raises(
        od.InvalidInput, match=f"kind {kind} .*; give the file its arms"
    ):
        read(folder, f'[experts.own]\nkind = "{kind}"\n')
