"""The bar: on a terminal only, and only for work that takes a while."""

import io

import pytest

from oddsmith.logs.progress import Bar, progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_lines_now_and_then_where_no_terminal_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = iter(range(0, 100, 10))
    monkeypatch.setattr(
        "oddsmith.logs.progress.time.monotonic", lambda: float(next(clock))
    )
    file = io.StringIO()
    assert list(progress(range(7), 7, "experts", file, every=30.0)) == list(range(7))
    first, second = file.getvalue().splitlines()
    assert first.endswith("3 of 7, 30 s, 40 s to go ")
    assert second.endswith("6 of 7, 60 s, 10 s to go ")


def test_silent_where_nobody_watches(capsys: pytest.CaptureFixture[str]) -> None:
    assert list(progress(range(5), 5, "steps")) == list(range(5))
    assert capsys.readouterr() == ("", "")


def test_short_work_is_silent_on_a_terminal_too() -> None:
    screen = Terminal()
    assert list(progress("abc", 3, "letters", screen)) == ["a", "b", "c"]
    assert screen.getvalue() == ""


def test_long_work_shows_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(1000))
    monkeypatch.setattr(
        "oddsmith.logs.progress.time.monotonic", lambda: float(next(clock))
    )
    screen = Terminal()
    list(progress(range(4), 4, "cells", screen))
    shown = screen.getvalue()
    assert "1 of 4" in shown
    assert shown.endswith("4 of 4, 5 s, 0 s to go \n")
    assert shown.count("\n") == 1


def test_an_interrupted_bar_ends_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(1000))
    monkeypatch.setattr(
        "oddsmith.logs.progress.time.monotonic", lambda: float(next(clock))
    )
    screen = Terminal()
    bar = progress(range(9), 9, "cells", screen)
    next(bar)
    next(bar)
    bar.close()
    assert screen.getvalue().endswith("\n")


def test_work_of_unknown_length_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(1000))
    monkeypatch.setattr(
        "oddsmith.logs.progress.time.monotonic", lambda: float(next(clock))
    )
    screen = Terminal()
    list(progress(range(4), None, "batches", screen))
    assert screen.getvalue().endswith("batches 4, 5 s \n")


def test_a_bar_is_told_how_far_the_work_is(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(1000))
    monkeypatch.setattr(
        "oddsmith.logs.progress.time.monotonic", lambda: float(next(clock))
    )
    screen = Terminal()
    monkeypatch.setattr("oddsmith.logs.progress.sys.stderr", screen)
    bar = Bar("copying")  # its total comes with its steps
    for done in (2, 2, 7):
        bar.reach(done, 10)
    assert "2 of 10" in screen.getvalue()
    bar.close()
    bar.close()
    assert "7 of 10" in screen.getvalue().splitlines()[-1]
    assert screen.getvalue().count("\n") == 1
