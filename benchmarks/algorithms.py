"""A step of every algorithm, next to the peers that have the same one: 10 arms, 20
features, decide and learn."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import oddsmith as od
from benchmarks.timing import interleaved, table
from benchmarks.told import Compared, Told, release
from oddsmith.core import kernels

ARMS, DIM, STEPS = 10, 20, 200
RNG = np.random.default_rng(0)
CONTEXTS, ROWS = RNG.normal(size=(STEPS, DIM)), RNG.normal(size=(STEPS, ARMS, DIM))
UNIFORMS, REWARDS = (
    RNG.random(STEPS).tolist(),
    (RNG.random(STEPS) < 0.5).astype(float).tolist(),
)
DICTS = [{f"x{i}": float(v) for i, v in enumerate(row)} for row in CONTEXTS]

Loop = Callable[[], int]


def ours(policy: Any, contexts: Any) -> Loop:
    state = [policy.init()]

    def run() -> int:
        kernels.use("auto")
        for t in range(STEPS):
            decision = od.decide(policy, state[0], contexts[t], UNIFORMS[t], step=t + 1)
            state[0] = policy.update(state[0], decision, REWARDS[t])
        return STEPS

    return run


def mabwiser(name: str, contextual: bool) -> Loop:
    from mabwiser.mab import MAB, LearningPolicy

    bandit = MAB(list(range(ARMS)), getattr(LearningPolicy, name)(), seed=1)
    bandit.fit(
        list(range(ARMS)),
        [0.0, 1.0] * (ARMS // 2),
        **({"contexts": CONTEXTS[:ARMS]} if contextual else {}),
    )

    def run() -> int:
        for t in range(STEPS):
            given = {"contexts": CONTEXTS[t : t + 1]} if contextual else {}
            arm = bandit.predict(**given)
            bandit.partial_fit([arm], [REWARDS[t]], **given)
        return STEPS

    return run


def river(name: str) -> Loop:
    from river import bandit, proba

    arms: list[Any] = list(range(ARMS))
    kinds: dict[str, Callable[[], Any]] = {
        "UCB": lambda: bandit.UCB(delta=1, seed=1),
        "ThompsonSampling": lambda: bandit.ThompsonSampling(
            reward_obj=proba.Beta(), seed=1
        ),
        "LinUCBDisjoint": lambda: bandit.LinUCBDisjoint(seed=1),
    }
    policy, contextual = kinds[name](), name == "LinUCBDisjoint"

    def run() -> int:
        for t in range(STEPS):
            if contextual:
                arm = policy.pull(arms, context=DICTS[t])
                policy.update(arm, DICTS[t], REWARDS[t])
            else:
                policy.update(policy.pull(arms), REWARDS[t])
        return STEPS

    return run


def river_ad_predictor() -> Loop:
    """Predicting each arm's clicks and learning one; it does not choose, and sees only
    which features are there."""
    from river.linear_model import AdPredictor

    models = [AdPredictor() for _ in range(ARMS)]

    def run() -> int:
        for t in range(STEPS):
            for model in models:
                model.predict_proba_one(DICTS[t])
            models[t % ARMS].learn_one(DICTS[t], bool(REWARDS[t]))
        return STEPS

    return run


def contextualbandits(name: str) -> Loop:
    from contextualbandits import online

    model = getattr(online, name)(nchoices=ARMS, random_state=1)
    arms = np.arange(STEPS) % ARMS
    model.fit(CONTEXTS, arms, np.array(REWARDS))

    def run() -> int:
        for t in range(STEPS):
            arm = model.predict(CONTEXTS[t : t + 1])
            model.partial_fit(CONTEXTS[t : t + 1], arm, np.array([REWARDS[t]]))
        return STEPS

    return run


def contenders() -> dict[str, dict[str, Loop]]:
    """By algorithm: ours first, then the peers' own."""
    experts = od.LinearExperts(RNG.normal(size=(64, DIM)) / np.sqrt(DIM))
    over = {
        "GTS": od.GeneralizedThompsonSampling(experts, gamma=0.02),
        "EXP4": od.policies.EXP4(experts, eta=0.05, gamma=0.02),
        "EXP4.P": od.policies.EXP4P(experts, steps=10_000),
        "SquareCB": od.policies.SquareCB(experts, sharpness=50.0),
        "FastCB": od.policies.FastCB(experts, sharpness=100.0),
        "Epoch-Greedy": od.policies.EpochGreedy(experts),
        "elimination": od.policies.RegressorElimination(experts, ROWS[:50]),
    }
    rows: dict[str, dict[str, Loop]] = {
        f"{name}, 64 experts": {"oddsmith": ours(p, ROWS)} for name, p in over.items()
    }
    rows |= {
        "UCB1": {
            "mabwiser": mabwiser("UCB1", False),
            "river": river("UCB"),
            "oddsmith": ours(od.policies.UCB1(ARMS), CONTEXTS),
        },
        "KL-UCB": {"oddsmith": ours(od.policies.KLUCB(ARMS), CONTEXTS)},
        "Beta Thompson": {
            "mabwiser": mabwiser("ThompsonSampling", False),
            "river": river("ThompsonSampling"),
            "oddsmith": ours(od.BetaThompsonSampling(ARMS), CONTEXTS),
        },
        "LinUCB, disjoint": {
            "mabwiser": mabwiser("LinUCB", True),
            "river": river("LinUCBDisjoint"),
            "contextualbandits": contextualbandits("LinUCB"),
            "oddsmith": ours(od.LinUCB(DIM, ARMS), CONTEXTS),
        },
        "LinUCB, shared": {"oddsmith": ours(od.LinUCB(DIM), ROWS)},
        "linear Thompson, disjoint": {
            "mabwiser": mabwiser("LinTS", True),
            "contextualbandits": contextualbandits("LinTS"),
            "oddsmith": ours(od.LinearThompsonSampling(DIM, ARMS), CONTEXTS),
        },
        "linear Thompson, shared": {
            "oddsmith": ours(od.LinearThompsonSampling(DIM), ROWS)
        },
        "logistic Thompson": {
            "oddsmith": ours(od.policies.LogisticThompsonSampling(DIM, ARMS), CONTEXTS)
        },
        "GLM-UCB": {"oddsmith": ours(od.policies.GLMUCB(DIM, ARMS), CONTEXTS)},
        "adPredictor": {
            "river (predicts only)": river_ad_predictor(),
            "oddsmith": ours(od.policies.ProbitThompsonSampling(DIM, ARMS), CONTEXTS),
        },
    }
    return rows


def fastest(name: str, mine: float, peers: dict[str, float]) -> Compared:
    """An algorithm of ours beside the fastest of those who have the same one."""
    theirs, peer = min((us, peer) for peer, us in peers.items())
    package, _, more = peer.partition(" ")
    others = f", the fastest of {len(peers)}" if len(peers) > 1 else ""
    return Compared(
        f"decide and learn, {name}",
        f"{release(package)} {more}".strip() + others,
        mine,
        theirs,
        "µs",
    )


def report() -> Told:
    rows, compared = [], []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # those of the peers
        for name, loops in contenders().items():
            timings = interleaved(loops, rounds=5)
            mine = timings.pop("oddsmith").cpu
            rows.append([name, f"{mine:,.1f}", "", ""])
            for peer, timing in timings.items():
                rows.append(
                    [f"— {peer}", "", f"{timing.cpu:,.1f}", f"{timing.cpu / mine:.1f}×"]
                )
            if timings:
                compared.append(
                    fastest(
                        name,
                        mine,
                        {peer: timing.cpu for peer, timing in timings.items()},
                    )
                )
    text = f"""## Every algorithm, compared with other libraries

{ARMS} arms, {DIM} features, µs of CPU per decision and reward, bare policies, interleaved. oddsmith returns exact propensities
with every decision, the other libraries return an arm. If *times slower* is below 1, the other library is faster: river's
Beta Thompson sampling draws and does not integrate, and its adPredictor only predicts.

{table(["algorithm", "oddsmith, µs", "peer, µs", "times slower"], rows)}
"""
    return Told(text, tuple(compared))
