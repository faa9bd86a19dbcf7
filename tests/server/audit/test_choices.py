"""Doctor on experts that predict well and choose badly: from recorded votes and rewards
alone."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from oddsmith.policies.parts.choices import Choices
from oddsmith.server.audit.chart import chart_of
from oddsmith.server.audit.doctor import AILMENTS
from server.audit.served import Served, policy


def test_what_policies_would_have_earned_is_told_from_votes(tmp_path: Path) -> None:
    service, rng = Served(tmp_path / "s", policy()), np.random.default_rng(1)
    earned, seen, n = np.zeros(3), np.zeros(3), 120
    for i in range(n):
        service.follow()
        context, reward = np.abs(rng.normal(size=2)).tolist(), float(rng.integers(2))
        decision = service.decide(f"d{i}", context)
        service.reward(f"d{i}", reward)
        inner = service.folded.policy
        ballots = inner.bank.advise(service.folded.state.experts, context, None)[1]  # type: ignore[union-attr]
        voted = ballots[:, decision.number] / decision.propensity
        weight = np.where(ballots.any(axis=1), voted, 1.0)
        earned, seen = earned + weight * reward, seen + weight
    with service.store as store:
        chart = chart_of(store, str(store.path), service.time)
    values = np.where(seen >= n / 2, earned / seen, 0.0)
    assert chart.choices is not None
    assert chart.choices.n == n
    assert chart.choices.policy == chart.names[int(values.argmax())]
    assert chart.choices.hidden == tuple(np.array(chart.names)[seen < n / 2])
    gap = values.max() - values[chart.names.index(chart.choices.predictor)]
    np.testing.assert_allclose(chart.choices.gap, gap, atol=1e-12)
    assert AILMENTS["choices"](chart).level == "ok"
    found = AILMENTS["choices"](
        replace(
            chart,
            choices=Choices(chart.names[1], chart.names[0], 0.08, 0.02, 0.14, 900),
        )
    )
    assert found.level == "notice"
    assert "your experts predict well and choose badly" in found.what
    assert "earns 0.08 more than that of the best predictor" in found.what
    assert 'kind = "hedged"' in found.advice
