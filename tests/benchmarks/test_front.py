"""One command for all benchmarks: what is finished is kept, what failed is told; the
front page has their numbers."""

import argparse
import inspect
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from benchmarks.front import front, results
from benchmarks.kept import files, key
from benchmarks.parts import BY_HAND, HERE, PARTS, Part
from benchmarks.told import Compared, Told

from benchmarks import front as pages
from benchmarks import kept, run

FAST = Compared("a step", "a peer 1.0", 30.0, 40.0, "µs")
SLOW = Compared("an import", "a peer 1.0", 200.0, 100.0, "ms")
ASKED = argparse.Namespace(parts=[], fresh=False, keep=False)


class Small:
    """Parts that count how often they are measured; each is as quick as can be."""

    def __init__(self) -> None:
        self.measured: list[str] = []
        self.broken = False

    def part(self, name: str, *compared: Compared) -> Told:
        self.measured.append(name)
        if self.broken and name == "imports":
            raise RuntimeError("no such peer\nand more")
        return Told(f"## About {name}\n\nText of {name}.\n", compared)

    def parts(self) -> dict[str, Part]:
        told = {"step": (FAST,), "imports": (SLOW,), "idle": ()}
        return {
            name: partial(self.part, name, *compared) for name, compared in told.items()
        }


def test_what_is_finished_is_kept(tmp_path: Path) -> None:
    small = Small()
    first, failed = run.run(small.parts(), tmp_path, ASKED)
    assert not failed
    assert small.measured == ["step", "imports", "idle"]
    again, _ = run.run(small.parts(), tmp_path, ASKED)
    assert again == first
    assert len(small.measured) == 3  # nothing was measured again
    run.run(
        small.parts(),
        tmp_path,
        argparse.Namespace(parts=["imports"], fresh=False, keep=False),
    )
    assert small.measured[3:] == ["imports"]  # asked for by name
    run.run(
        small.parts(), tmp_path, argparse.Namespace(parts=[], fresh=True, keep=False)
    )
    assert small.measured[4:] == ["step", "imports", "idle"]


def test_another_source_is_measured_again_unless_it_may_be_kept(tmp_path: Path) -> None:
    small = Small()
    (first, *_), _ = run.run(small.parts(), tmp_path, ASKED)
    kept.write(tmp_path, first._replace(key="of another source", source="0ld50urc"))
    found, _ = run.run(
        small.parts(), tmp_path, argparse.Namespace(parts=[], fresh=False, keep=True)
    )
    assert len(small.measured) == 3
    assert (
        f"Source `{kept.source()}`, but for step of source 0ld50urc ({first.date})"
        in front(found, {})
    )
    assert "source `0ld50urc`.*" in results(found)
    found, _ = run.run(small.parts(), tmp_path, ASKED)
    assert small.measured[3:] == ["step"]
    assert f"All of source `{kept.source()}`" in front(found, {})


def test_a_part_that_fails_stops_no_other_and_is_tried_again(tmp_path: Path) -> None:
    small = Small()
    small.broken = True
    found, failed = run.run(small.parts(), tmp_path, ASKED)
    assert [one.name for one in found] == ["step", "idle"]
    assert failed == {"imports": "RuntimeError: no such peer"}
    assert (
        "**Not measured**, for it failed: imports: RuntimeError: no such peer"
        in front(found, failed)
    )
    small.broken = False
    found, failed = run.run(small.parts(), tmp_path, ASKED)
    assert not failed
    assert small.measured[3:] == ["imports"]


def test_the_front_page_has_the_numbers_of_the_parts(tmp_path: Path) -> None:
    found, _ = run.run(Small().parts(), tmp_path, ASKED)
    run.pages(found, {}, tmp_path)
    text = (tmp_path / "README.md").read_text()
    assert "1 won, 1 lost. `make bench`" in text
    assert (
        "| a step (µs) | a peer 1.0 | 30.0 | 40.0 | 0.75 | won | "
        "[step](RESULTS.md#about-step) |"
    ) in text
    assert (
        "| an import (ms) | a peer 1.0 | 200 | 100 | 2.00 | **lost** | "
        "[imports](RESULTS.md#about-imports) |"
    ) in text
    assert "without a comparison: [idle](RESULTS.md#about-idle)" in text
    behind = (tmp_path / "RESULTS.md").read_text()
    assert [line[3:] for line in behind.splitlines() if line[:3] == "## "] == [
        pages.title(one) for one in found
    ]
    for one in found:
        assert f"*{one.name}: {one.seconds:,.0f} s on {one.date}" in behind


def test_who_has_won() -> None:
    assert [replace(FAST, ours=x).verdict for x in (37.9, 38.1, 41.9, 42.1)] == [
        "won",
        "level",
        "level",
        "lost",
    ]
    more = replace(FAST, better="higher")
    assert [replace(more, ours=x).verdict for x in (37.9, 38.1, 41.9, 42.1)] == [
        "lost",
        "level",
        "level",
        "won",
    ]
    same = Compared("values", "a peer", 1e-12, 1e-10, "apart", "same")
    assert [same.verdict, replace(same, ours=1e-9).verdict] == ["the same", "DIFFERENT"]
    assert Compared("faults", "a peer", 0.0, 3.0, "").verdict == "won"
    assert Compared("faults", "a peer", 3.0, 0.0, "").verdict == "lost"
    assert Compared("faults", "a peer", 0.0, 0.0, "").verdict == "level"
    with pytest.raises(ValueError, match="ours and theirs must be at least 0; got nan"):
        Compared("a step", "a peer", float("nan"), 1.0, "µs")


def test_a_part_depends_on_what_its_module_imports() -> None:
    assert {"coverage.py", "coverage_batch.py", "coverage_worlds.py", "told.py"} <= {
        path.name for path in files(HERE / "coverage.py")
    }
    assert len({key(part) for part in PARTS.values()}) == len(PARTS)
    assert key(PARTS["step"]) == key(PARTS["step"])


def test_every_benchmark_is_a_part_or_run_by_hand() -> None:
    used = {path.stem for part in PARTS.values() for path in files(Path(_file(part)))}
    commands = {
        path.stem
        for path in HERE.glob("*.py")
        if '__name__ == "__main__"' in path.read_text()
    }
    assert commands - used - set(BY_HAND) == {"house", "run"}
    assert not set(BY_HAND) & used


def _file(part: Part) -> str:
    return inspect.getfile(part.func if isinstance(part, partial) else part)


def test_wrong_words_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for words, said in (
        (["stp"], "got 'stp'"),
        (["--fresh", "--keep"], "give one of them"),
    ):
        with pytest.raises(SystemExit):
            run.parsed(words)
        assert said in capsys.readouterr().err
