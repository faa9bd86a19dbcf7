"""doctor of a store to which only clicks are sent, and whose windows give all else a
default."""

from pathlib import Path

from server.audit.served import Served, policy
from server.audit.test_doctor import found


def clicks_alone(path: Path, *, closed: bool) -> Served:
    """160 decisions, one in eight clicked, the others' windows closed or not; then 10
    clicks in open windows."""
    service = Served(path, policy(), window_s=30.0)
    for i in range(160):
        service.decide(f"d{i}", [0.1, 0.2])
        if i % 8 == 0:
            service.reward(f"d{i}", 1.0)
        elif closed:
            service.default(f"d{i}")
    service.time += 40
    for i in range(160, 170):
        service.decide(f"d{i}", [0.1, 0.2])
        service.reward(f"d{i}", 1.0)
    return service


def test_defaults_are_rewards_that_differ(tmp_path: Path) -> None:
    findings = found(clicks_alone(tmp_path / "s", closed=True))
    assert findings["rewards"].what == "160 rewards, 0.125 on average, nothing unusual"
    assert {finding.level for finding in findings.values()} == {"ok"}


def test_clicks_without_defaults_never_differ(tmp_path: Path) -> None:
    service = clicks_alone(tmp_path / "s", closed=False)
    for i in range(100):
        service.decide(f"more{i}", [0.1, 0.2])
        service.reward(f"more{i}", 1.0)
    service.time += 40
    service.decide("last", [0.1, 0.2])
    finding = found(service)["rewards"]
    assert (finding.level, finding.what) == (
        "problem",
        "all 130 rewards are 1 (of 0 to 1)",
    )
