"""What policies, banks and folds gave when they were recorded is what they give now, to
the last bit.

Where versions or processor are others than those of the recording, bits may be others
too (exp and log are made for the processor's features); then numbers must agree to
1e-12. A change that is meant is recorded anew: see `__main__`.
"""

from hashlib import sha256

import pytest

from oddsmith.experts.learners.protocol import RECIPE
from recorded.runs import NUMBERS, RUNS, path_of, recording, run
from recorded.trace import Trace, circumstances, differences

ELSEWHERE = 1e-12
RECIPES = {
    2: "c6e866ed1992822c",
    3: "9a38b452d3abcf45",
    4: "f49d9b7fd227c759",
    5: "2d7ba0a371a9a6a5",
}
"""By recipe of learners, a digest of what they gave when they were recorded."""


@pytest.mark.parametrize("name", RUNS)
def test_a_run_gives_what_was_recorded(name: str, any_kernels: str) -> None:
    assert path_of(name).exists(), (
        f"no recording; make one with `cd tests && python -m recorded {name!r}`"
    )
    made, lines = recording(name, any_kernels)
    changed = differences(
        lines, run(name), 0.0 if made == circumstances() else ELSEWHERE
    )
    assert not changed, f"{len(changed)} of {len(lines)} lines changed:\n" + "\n".join(
        changed[:5]
    )


def test_every_file_is_of_a_run() -> None:
    known = {path_of(name, kind) for name in RUNS for kind in ("numpy", "numba")}
    assert set(NUMBERS.glob("*.txt")) <= known
    assert len({path_of(name) for name in RUNS}) == len(RUNS)


def test_other_numbers_of_learners_are_another_recipe() -> None:
    lines = [
        line
        for name in RUNS
        if "auto" in name or "learners" in name
        for line in recording(name, "numpy")[1]
    ]
    digest = sha256("\n".join(lines).encode()).hexdigest()[:16]
    assert RECIPES.get(RECIPE) == digest, (
        f"raise RECIPE (learners/protocol.py), and note {digest!r} for it here"
    )


def test_one_bit_is_seen() -> None:
    """In a number that is written out, in one that is only in a digest, in a zero's
    sign, in a shape."""
    import numpy as np

    def lines(*values: object) -> list[str]:
        trace = Trace()
        for value in values:
            trace.note("x", value)
        return trace.lines

    many = np.linspace(0, 1, 1000).reshape(10, 100)
    other = many.copy()
    other[3, 7] = np.nextafter(other[3, 7], 2)
    assert differences(lines(many), lines(many.copy())) == []
    assert len(differences(lines(many, 0.1), lines(other, np.nextafter(0.1, 1)))) == 2
    assert (
        differences(lines(many, 0.1), lines(other, np.nextafter(0.1, 1)), 1e-12) == []
    )
    assert (
        len(differences(lines(many, 0.1), lines(many + 1e-9, 0.1 + 1e-9), 1e-12)) == 2
    )
    assert len(differences(lines(0.0), lines(-0.0))) == 1
    assert len(differences(lines(many), lines(many.T))) == 1
    assert (
        len(
            differences(
                lines(np.array([np.nan, 1.0])), lines(np.array([1.0, np.nan])), 1e-12
            )
        )
        == 1
    )
    assert differences(lines(1.0), []) != []
