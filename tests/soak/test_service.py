"""The long versions of tests/service: thousands of schemathesis cases and wild bytes, a million extreme rewards."""

from pathlib import Path
from typing import Any

import pytest

from service.test_bytes import check
from service.test_faults import EXTREMES, extremes
from service.test_schema import check_all_phases

pytestmark = pytest.mark.soak


def test_five_thousand_cases_by_the_document(tmp_path: Path) -> None:
    check_all_phases(tmp_path, 400, least=5000)


def test_ten_thousand_times_wild_bytes(tmp_path: Path) -> None:
    check(tmp_path, 10_000)


@pytest.mark.parametrize(("loss", "eta", "share"), EXTREMES)
def test_a_million_rewards_at_the_extremes(loss: Any, eta: float, share: float) -> None:
    assert extremes(250_000, loss, eta, share, seed=9) < 250_000
