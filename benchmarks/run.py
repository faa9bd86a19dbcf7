"""Run all benchmarks, and write README.md, RESULTS.md, BAKEOFF.md and their figures:
`make bench`.

    python -m benchmarks.run              # what is not measured yet for these sources; then the pages
    python -m benchmarks.run step offers  # these parts anew; no page is written
    python -m benchmarks.run --keep       # parts of earlier sources hold, and the pages say so
    python -m benchmarks.run --fresh      # everything anew

A part that is finished is kept in benchmarks/results/parts; a run that was stopped goes
on from there. A part that fails does not stop the others: it is told at the end, the
exit status is 1, and the next run tries it again.
"""

import argparse
import compileall
import sys
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path

import oddsmith
from benchmarks import front, kept, quote
from benchmarks.kept import Kept
from benchmarks.parts import FIGURES, HERE, PARTS, Part

FOLDER = HERE / "results" / "parts"


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def held(name: str, part: Part, folder: Path, asked: argparse.Namespace) -> Kept | None:
    """What is kept of a part, if it need not be measured."""
    one = kept.read(folder, name)
    if one is None or asked.fresh or name in asked.parts:
        return None
    return one if asked.keep or one.key == kept.key(part) else None


def run(
    parts: Mapping[str, Part], folder: Path, asked: argparse.Namespace
) -> tuple[list[Kept], dict[str, str]]:
    """The parts asked for, kept or measured now, and why others failed."""
    found, failed = [], {}
    wanted = {
        name: part
        for name, part in parts.items()
        if not asked.parts or name in asked.parts
    }
    for place, (name, part) in enumerate(wanted.items(), start=1):
        number, before = f"[{place}/{len(wanted)}] {name}", kept.read(folder, name)
        if (one := held(name, part, folder, asked)) is None:
            say(
                f"{number} …"
                + (f" (last time {before.seconds:,.0f} s)" if before else "")
            )
            try:
                one = kept.measure(name, part)
            except (Exception, SystemExit) as error:
                say(f"{number} failed:\n{traceback.format_exc()}")
                failed[name] = f"{type(error).__name__}: {error}".partition("\n")[0]
                continue
            kept.write(folder, one)
            say(f"{number}: {one.seconds:,.0f} s")
        else:
            say(f"{number}: kept, of source {one.source}")
        found.append(one)
    return found, failed


def pages(found: Sequence[Kept], failed: Mapping[str, str], folder: Path) -> None:
    """Write the front page and what is behind it."""
    (folder / "README.md").write_text(front.front(found, failed), encoding="utf-8")
    (folder / "RESULTS.md").write_text(front.results(found), encoding="utf-8")


def parsed(
    words: Sequence[str] | None = None, names: Sequence[str] = tuple(PARTS)
) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "parts",
        nargs="*",
        help=f"parts to measure anew and print, of {', '.join(names)}",
    )
    parser.add_argument("--fresh", action="store_true", help="measure everything anew")
    parser.add_argument(
        "--keep",
        action="store_true",
        help="parts that were measured on earlier sources hold",
    )
    asked = parser.parse_args(words)
    if unknown := [part for part in asked.parts if part not in names]:
        parser.error(f"parts must be of {', '.join(names)}; got {unknown[0]!r}")
    if asked.fresh and asked.keep:
        parser.error(
            "--fresh measures everything, --keep as little as possible: give one of "
            "them"
        )
    return asked


def main() -> int:
    """Measure, write, and say what failed."""
    asked = parsed()
    FIGURES.mkdir(exist_ok=True)
    # as an installed package is
    compileall.compile_dir(Path(oddsmith.__file__).parent, quiet=1)
    found, failed = run(PARTS, FOLDER, asked)
    if asked.parts:
        print("\n".join(one.text for one in found))
    elif found:
        pages(found, failed, HERE)
        say("\n".join(quote.refresh()))
        print((HERE / "README.md").read_text())
    if failed:
        say(f"failed: {', '.join(failed)}; the next run tries them again")
    different = [
        one.what
        for part in found
        for one in part.compared
        if one.verdict == "DIFFERENT"
    ]
    if different:
        say(f"not the same as the peer's: {', '.join(different)}")
    return int(bool(failed or different))


if __name__ == "__main__":
    sys.exit(main())
