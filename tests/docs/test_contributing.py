"""CONTRIBUTING is true: its map is the import rule, its walks are those of a decision,
its files exist."""

import re
import tomllib
from pathlib import Path

from benchmarks.house import Walk, library_walks, service_walks

import oddsmith as od

REPOSITORY = Path(od.__file__).parents[2]
PAGE = (REPOSITORY / "CONTRIBUTING.md").read_text()


def import_map() -> str:
    """The layers of the import rule, the highest first."""
    rules = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["tool"][
        "importlinter"
    ]["contracts"]
    layers = next(rule["layers"] for rule in rules if rule["type"] == "layers")
    return "\n".join(layer.replace(" : ", "  ") for layer in layers)


def walk_of(name: str) -> list[str]:
    """The files that the page lists for a walk."""
    found = re.search(rf"<!-- walk: {name} -->\n(.*?)<!-- /walk -->", PAGE, re.DOTALL)
    assert found, name
    return re.findall(r"^\| `([^`]+)` \|", found[1], re.MULTILINE)


def files(walk: Walk) -> list[str]:
    return list(dict.fromkeys(file for file, _ in walk.hops))


def test_the_map_is_the_import_rule() -> None:
    assert f"<!-- map -->\n```text\n{import_map()}\n```\n<!-- /map -->" in PAGE, (
        import_map()
    )


def test_the_walk_of_a_decision_in_the_library() -> None:
    assert walk_of("library: decide") == files(library_walks()["library: decide"])


def test_the_walk_of_a_decision_in_the_service(tmp_path: Path) -> None:
    for turn in range(3):  # what was learnt late on a busy machine may fall into it
        (folder := tmp_path / str(turn)).mkdir()
        walk = service_walks(folder)["service: decide"]
        if walk.files == len(walk_of("service: decide")):
            break
    assert sorted(walk_of("service: decide")) == sorted(files(walk))
    assert walk.functions <= 52
    assert walk.files <= 25


def test_every_file_that_is_named_exists() -> None:
    for name in re.findall(r"`((?:[\w]+/)*[\w]+(?:\.py|\.sql|/))`", PAGE):
        places = (
            REPOSITORY / "src" / "oddsmith" / name,
            REPOSITORY / name,
            *(REPOSITORY / "src").rglob(name),
        )
        assert any(place.exists() for place in places), name
