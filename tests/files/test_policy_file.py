"""Policy files: what they make is what one would build by hand, and what they refuse is
named."""

import importlib
import re
import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oddsmith as od
from files.broken_policies import AUTO, BROKEN, COLUMNS, LINEAR, ONNX, OWN, PYTHON, TOP
from oddsmith.files.kinds import KINDS, parameters, settings
from oddsmith.policies.auto import SIZES

ARMS = ("sports", "politics", "tech")
SCHEMA = od.Schema(numbers=("age",), categories=("city",), buckets=3)
CONTEXT = {"age": 0.4, "city": "Rome", "unread": "x"}
WEIGHTS = np.random.default_rng(0).normal(size=(2, 3, 4))
FACTORY = """
import oddsmith as od

def night_owl(context, arm):
    return 0.7 if arm == "tech" and context["age"] < 1 else 0.3

def bank(arms, names=("owl",)):
    return od.FunctionExperts({name: night_owl for name in names}, arms)

def policy(arms, gamma=0.1):
    return od.GeneralizedThompsonSampling(bank(arms), gamma=gamma)

def reversed_bank(arms):
    return bank(arms[::-1])

def number(arms):
    return 7

constant = 3
"""
PAGE = (
    Path(od.__file__).parents[2] / "docs" / "reference" / "policy-file.md"
).read_text()


def onnx_model(width: int = 4, n_arms: int = 3) -> bytes:
    """sigmoid(x W) as an ONNX file, W[i, a] = (i - a) / 10."""
    onnx = pytest.importorskip("onnx")
    h, t = onnx.helper, onnx.TensorProto
    matrix = (np.arange(width)[:, None] - np.arange(n_arms)) / 10
    graph = h.make_graph(
        [
            h.make_node("MatMul", ["x", "w"], ["s"]),
            h.make_node("Sigmoid", ["s"], ["y"]),
        ],
        "net",
        [h.make_tensor_value_info("x", t.FLOAT, [None, width])],
        [h.make_tensor_value_info("y", t.FLOAT, [None, n_arms])],
        [h.make_tensor("w", t.FLOAT, matrix.shape, matrix.ravel().tolist())],
    )
    content: bytes = h.make_model(
        graph, ir_version=8, opset_imports=[h.make_opsetid("", 17)]
    ).SerializeToString()
    return content


@pytest.fixture(scope="module")
def folder(tmp_path_factory: Any) -> Path:
    """A folder with one file of every kind; its module has a name that no other test
    uses."""
    path = Path(tmp_path_factory.mktemp("policy"))
    np.savez(path / "lines.npz", weights=WEIGHTS)
    np.savez(path / "named.npz", weights=WEIGHTS, names=np.array(["flat", "steep"]))
    np.savez(path / "rows.npz", weights=WEIGHTS[:, 0])
    np.savez(path / "narrow.npz", weights=WEIGHTS[..., :2])
    np.savez(path / "two-arms.npz", weights=WEIGHTS[:, :2])
    np.savez(path / "stranger.npz", theta=WEIGHTS)
    np.savez(path / "names.npz", weights=WEIGHTS, names=np.array(["a", "b", "c"]))
    np.savez(path / "objects.npz", weights=np.array([{"a": 1}], dtype=object))
    np.savez(path / "nan.npz", weights=WEIGHTS * np.nan)
    (path / "text.npz").write_text("weights = 3")
    (path / "net.onnx").write_bytes(onnx_model())
    (path / "wide.onnx").write_bytes(onnx_model(width=9))
    (path / "two-arms.onnx").write_bytes(onnx_model(n_arms=2))
    (path / "text.onnx").write_text("not a model")
    (path / "policy_file_rules.py").write_text(FACTORY)
    (path / "policy_file_broken.py").write_text("import policy_file_absent")
    (path / "json.py").write_text("def bank(arms): return None")
    return path


def read(folder: Path, text: str) -> od.PolicyFile:
    path = folder / "news.toml"
    path.write_text(text)
    return od.read_policy(path)


def linear() -> od.Experts:
    return od.experts.Encoded(
        od.experts.Clipped(
            od.LinearExperts(WEIGHTS, names=("lines 0", "lines 1"), arms=ARMS)
        ),
        SCHEMA,
    )


def by_name(folder: Path) -> Any:
    return importlib.import_module("policy_file_rules")


def test_values_of_categories(folder: Path) -> None:
    lists = '[schema.values]\ncity = ["Rome", 7]\n'
    file = read(
        folder,
        'arms = ["a", "b"]\npolicy.kind = "linucb"\n[schema]\ncategories = ["city"]\n'
        + lists,
    )
    assert file.schema == od.Schema(
        categories=("city",), values={"city": ["Rome", "7"]}
    )
    assert file.schema is not None
    assert file.schema.columns == ("city=Rome", "city=7", "city other")
    with pytest.raises(
        od.InvalidInput,
        match=r"schema.*values must be given for categories; 'town' is not",
    ):
        read(
            folder,
            'arms = ["a", "b"]\npolicy.kind = "linucb"\n[schema.values]\n'
            'town = ["Rome"]\n',
        )


def same(one: object, other: object) -> bool:
    return od.fingerprint(one) == od.fingerprint(other)


def test_linear_weights(folder: Path) -> None:
    file = read(folder, TOP + COLUMNS + LINEAR)
    assert same(
        file.policy,
        od.GeneralizedThompsonSampling(linear(), od.log_loss, eta=0.5, gamma=0.02),
    )
    assert (file.name, file.arms, file.schema, file.seed) == (
        "news",
        ARMS,
        SCHEMA,
        None,
    )
    assert file.reward_scale == od.RewardScale(0.0, 1.0)
    assert (file.path, file.table["arms"]) == (folder / "news.toml", list(ARMS))
    odds = file.policy.odds(file.policy.init(), CONTEXT).propensities
    x = SCHEMA.encode(CONTEXT)
    votes = [np.eye(3)[(weights @ x).argmax()] for weights in WEIGHTS]
    np.testing.assert_allclose(odds, 0.98 * np.mean(votes, axis=0) + 0.02 / 3)


def test_linear_weights_with_settings(folder: Path) -> None:
    text = (
        LINEAR.replace("lines.npz", "named.npz")
        + 'link = "probit"\nclip = [0.1, 0.8]\n'
    )
    bank = od.experts.Clipped(
        od.LinearExperts(WEIGHTS, "probit", ("flat", "steep"), ARMS), 0.1, 0.8
    )
    settings = (
        '[policy]\nloss = "square"\neta = 1\nshare = 0.01\ndiscount = 0.9\n'
        "gamma = { scale = 0.5, power = 0.5 }\n"
    )
    made = od.GeneralizedThompsonSampling(
        bank,
        od.square_loss,
        eta=1.0,
        gamma=od.policies.PowerSchedule(0.5, 0.5),
        share=0.01,
        discount=0.9,
    )
    assert same(read(folder, TOP + settings + text).policy, made)
    rows = od.experts.Clipped(
        od.LinearExperts(WEIGHTS[:, 0], names=("lines 0", "lines 1"), arms=ARMS)
    )
    made = od.GeneralizedThompsonSampling(rows, eta=0.2, gamma=0.0)
    per_row = read(
        folder,
        TOP
        + "policy.eta = 0.2\npolicy.gamma = 0\n"
        + LINEAR.replace("lines.npz", "rows.npz"),
    )
    assert same(per_row.policy, made)


def test_onnx(folder: Path) -> None:
    content = (folder / "net.onnx").read_bytes()
    made = od.GeneralizedThompsonSampling(
        od.experts.Encoded(od.OnnxExperts({"net": content}, ARMS), SCHEMA), gamma=0.02
    )
    policy: Any = read(folder, TOP + COLUMNS + ONNX).policy
    assert same(policy, made)
    apart: Any = read(folder, TOP + COLUMNS + ONNX + "isolate = true\n").policy
    assert same(apart, made)
    np.testing.assert_array_equal(
        apart.experts.predict((), CONTEXT), policy.experts.predict((), CONTEXT)
    )
    apart.experts.close()
    x = SCHEMA.encode(CONTEXT)
    expected = 1 / (1 + np.exp(-x @ ((np.arange(4)[:, None] - np.arange(3)) / 10)))
    np.testing.assert_allclose(
        policy.odds(policy.init(), CONTEXT).advice, expected[None], atol=1e-6
    )
    features = od.OnnxExperts({"net": content}, ARMS, [[0.0], [1.0], [2.0]], (0.2, 0.9))
    plain = read(
        folder, TOP + ONNX + "arm_features = [[0.0], [1.0], [2.0]]\nclip = [0.2, 0.9]\n"
    )
    assert same(plain.policy, od.GeneralizedThompsonSampling(features, gamma=0.02))


def test_a_factory_gets_the_arms_and_its_arguments(folder: Path) -> None:
    policy: Any = read(
        folder, TOP + COLUMNS + PYTHON + 'args = { names = ["owl", "bat"] }\n'
    ).policy
    assert policy.experts.names == ("owl", "bat")
    assert same(
        policy,
        od.GeneralizedThompsonSampling(
            by_name(folder).bank(ARMS, ["owl", "bat"]), gamma=0.02
        ),
    )
    np.testing.assert_allclose(
        policy.odds(policy.init(), CONTEXT).propensities,
        [0.02 / 3, 0.02 / 3, 1 - 0.04 / 3],
    )


def test_a_factory_makes_a_whole_policy(folder: Path) -> None:
    text = (
        TOP
        + "floors = 0.1\n[policy]\nkind = 'python'\n"
        + OWN
        + "args = { gamma = 0.3 }\n"
    )
    made = od.Bounded(by_name(folder).policy(ARMS, gamma=0.3), floors=0.1)
    assert same(read(folder, text).policy, made)


def test_auto(folder: Path) -> None:
    for size in SIZES:
        file = read(
            folder, TOP + COLUMNS + f"[policy]\nkind = 'auto'\nsize = '{size}'\n"
        )
        assert same(file.policy, od.auto(ARMS, schema=SCHEMA, size=size))
    settings = "gamma = 0.1\nshare = 0.01\nrows_per_arm = true\n"
    rows = read(folder, TOP + "[policy]\nkind = 'auto'\n" + settings)
    assert same(rows.policy, od.auto(ARMS, gamma=0.1, share=0.01, rows_per_arm=True))
    made = od.auto(ARMS, size="small", share=0.01)
    weighed = od.GeneralizedThompsonSampling(made.experts, prior=made.prior, share=0.01)
    assert same(read(folder, TOP + "policy.share = 0.01\n" + AUTO).policy, weighed)


def test_all_tables_stand_side_by_side(folder: Path) -> None:
    content = (folder / "net.onnx").read_bytes()
    text = (
        'name = "front-page"\nseed = 7\n'
        + TOP
        + "guard = true\ntimeout_ms = 50\n"
        + COLUMNS
    )
    text += (
        "[reward]\nlow = -5\nhigh = 15\n"
        + ONNX
        + LINEAR
        + PYTHON
        + AUTO.replace("small", "normal")
    )
    bank = od.stack(
        od.experts.Encoded(od.OnnxExperts({"net": content}, ARMS), SCHEMA),
        linear(),
        by_name(folder).bank(ARMS),
        od.auto(ARMS, schema=SCHEMA).experts,
    )
    prior = np.array([1, 1 / 2, 1 / 2, 1, 0.1, 0.1, 0.8]) / 4
    file = read(folder, text)
    assert same(
        file.policy,
        od.GeneralizedThompsonSampling(od.Guarded(bank, 0.05), gamma=0.02, prior=prior),
    )
    assert (file.name, file.seed, file.reward_scale) == (
        "front-page",
        7,
        od.RewardScale(-5.0, 15.0),
    )
    agent = od.Agent(
        read(folder, text.replace("timeout_ms = 50\n", "")).policy,
        seed=7,
        arms=file.arms,
    )
    for _ in range(5):
        agent.learn(agent.decide(CONTEXT, eligible=["sports", "tech"]), 1.0)
    assert sum(agent.posterior().values()) == pytest.approx(1)


@pytest.mark.parametrize(
    ("prior", "expected"),
    [
        ('policy.prior = "uniform"\n', [1 / 3, 1 / 3, 1 / 3]),
        ("policy.prior = [0.5, 0.2, 0.3]\n", [0.5, 0.2, 0.3]),
        ('policy.prior = "tables"\n', [1 / 4, 1 / 4, 1 / 2]),
        ("policy.prior = { lines = 0.2, rules = 0.8 }\n", [0.1, 0.1, 0.8]),
        (
            (
                "policy.prior = { lines = { 'lines 0' = 0.3, 'lines 1' = 0 }, rules = "
                "0.7 }\n"
            ),
            [0.3, 0.0, 0.7],
        ),
    ],
)
def test_prior(folder: Path, prior: str, expected: list[float]) -> None:
    policy: Any = read(folder, TOP + prior + LINEAR + PYTHON).policy
    np.testing.assert_allclose(policy.prior, expected)


def test_floors_and_caps(folder: Path) -> None:
    text = TOP + "floors = { tech = 0.2 }\ncaps = 0.7\n" + PYTHON
    policy = read(folder, text).policy
    made = od.Bounded(
        od.GeneralizedThompsonSampling(by_name(folder).bank(ARMS), gamma=0.02),
        [0, 0, 0.2],
        0.7,
    )
    assert same(policy, made)
    voted = policy.odds(policy.init(), CONTEXT).propensities[2]
    assert voted == pytest.approx(0.98 * 0.7 + 0.02 / 3)


def test_caps_on_groups(folder: Path) -> None:
    group = '[[cap_groups]]\narms = ["tech", "sports"]\nat_most = 0.4\n'
    policy: Any = read(folder, TOP + PYTHON + group).policy
    assert same(
        policy,
        od.Bounded(
            od.GeneralizedThompsonSampling(by_name(folder).bank(ARMS), gamma=0.02),
            np.zeros(()),
            np.ones(()),
            [od.policies.CapGroup(0.4, ["tech", "sports"])],
        ),
    )
    odds = policy.odds(policy.init(), CONTEXT).propensities
    np.testing.assert_allclose(odds, [0.006, 0.6, 0.394], atol=1e-2)
    # arms by number, for a policy that does not know their names
    linucb: Any = read(
        folder, f'{TOP}[policy]\nkind = "linucb"\ndim = 1\n{group}'
    ).policy
    assert linucb.odds(linucb.init(), np.ones(1)).propensities[[0, 2]].sum() <= 0.4
    for wrong, message in (
        (group.replace("sports", "sport"), "got 'sport'"),
        (group.replace("at_most = 0.4", "at_most = 2"), "cap_groups 1.at_most must be"),
        (group + "more = 1\n", "cap_groups 1.more is not a key"),
        (group + 'feature = "x"\n', "cap_groups 1: a group must have"),
        (group + group.replace("tech", "politics"), "nested or disjoint"),
        (group.replace('"tech"', '"politics", "tech"'), ""),
    ):
        if message:
            with pytest.raises(od.OddsmithError, match=message):
                read(folder, TOP + PYTHON + wrong)
            continue
        read(folder, TOP + PYTHON + wrong)  # a group of all arms has no cap


@pytest.mark.parametrize(
    ("text", "message"), BROKEN, ids=[message[:40] for _, message in BROKEN]
)
def test_what_is_wrong_is_named(folder: Path, text: str, message: str) -> None:
    with pytest.raises(od.OddsmithError) as caught:
        read(folder, text)
    sentence = str(caught.value)
    assert message in sentence
    assert sentence.startswith(str(folder / "news.toml"))
    assert "\n" not in sentence
    assert len(sentence) < 450 + len(str(folder))  # 28 kinds of policies are named


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(od.InvalidInput, match=r"absent\.toml must be a readable file"):
        od.read_policy(str(tmp_path / "absent.toml"))


def test_the_example_of_the_page(tmp_path: Path, monkeypatch: Any) -> None:
    tables = re.findall(r"^```toml\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    experiment = next(one for one in tables if one.startswith("control"))
    tables.remove(experiment)
    tables = [one for one in tables if not one.startswith("[[rules]]")]
    (tmp_path / "front-page.toml").write_text("".join(tables))
    (tmp_path / "today.toml").write_text('arms = ["a"]\n[policy]\nkind = "ucb1"\n')
    (tmp_path / "shop.toml").write_text(
        'arms = ["a"]\n' + experiment + '[policy]\nkind = "auto"\n'
    )
    design = od.read_policy(tmp_path / "shop.toml").design
    assert [one.role for one in design.metrics.values()].count("guardrail") == 1
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    (tmp_path / "front_page_rules.py").write_text(
        next(b for b in blocks if b.startswith("# front_page_rules.py"))
    )
    (tmp_path / "make.py").write_text(next(b for b in blocks if "np.savez" in b))
    (tmp_path / "forest.onnx").write_bytes(onnx_model(width=10))
    monkeypatch.chdir(tmp_path)
    runpy.run_path("make.py")
    file = od.read_policy("front-page.toml")
    policy: Any = file.policy
    lines = tuple(f"line {i}" for i in range(5))
    assert policy.policy.experts.names[:8] == ("forest", *lines, "evening", "loyal")
    np.testing.assert_allclose(
        policy.policy.prior, [0.4, *[0.04] * 5, 0.1, 0.1, 0.02, 0.02, 0.16]
    )
    odds = policy.odds(
        policy.init(), {"age": 1, "visits": 12, "city": "Rome", "hour": 20}
    ).propensities
    assert odds[1] >= 0.05
    assert odds[0] <= 0.8
    assert file.reward_scale.value(0.5) == 10.0


@pytest.mark.parametrize("kind", KINDS)
def test_the_page_has_every_kind_and_setting(kind: str) -> None:
    (row,) = [
        line
        for line in PAGE.splitlines()
        if line.startswith(f"| `{kind}` | ") and line.count("|") == 4
    ]
    for key in settings(kind):
        assert f"`{key}`" in row or (
            key in ("dim", "rows_per_arm") and f"`{key}" in PAGE
        ), key
    for key, default in re.findall(r"`(\w+)` \((-?[\d.]+)\)", row):
        assert float(default) == parameters(kind)[key].default, key


@pytest.mark.parametrize(
    "text", [TOP + ONNX, TOP + LINEAR, TOP + PYTHON, TOP + AUTO, TOP + COLUMNS + LINEAR]
)
def test_the_page_has_every_key(folder: Path, text: str) -> None:
    # on top, and in the table of experts
    for strange in ("strange = 1\n" + text, text + "strange = 1\n"):
        with pytest.raises(od.InvalidInput, match="Allowed: ") as caught:
            read(folder, strange)
        for key in str(caught.value).split("Allowed: ")[1].split(", "):
            assert (
                f"`{key}`" in PAGE or f"`[{key}]`" in PAGE or f"`[{key}.NAME]`" in PAGE
            ), key
