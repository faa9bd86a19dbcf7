"""What wheel and sdist hold, what they say of themselves, and a README whose links lead
somewhere from an index."""

import re
import shutil
import subprocess
from email.message import Message
from pathlib import Path
from typing import Any

import pytest
import yaml

import oddsmith as od
from package.built import REPOSITORY, build, metadata, names_in

SOURCE = "https://github.com/oddsmith/oddsmith"
RAW = "https://raw.githubusercontent.com/oddsmith/oddsmith"
TARGET = re.compile(r'\]\(([^)]+)\)|(?:src|href)="([^"]+)"')
FENCED = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
CITATION: dict[str, Any] = yaml.safe_load((REPOSITORY / "CITATION.cff").read_text())


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("wheel", tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def told(wheel: Path) -> Message:
    return metadata(wheel)


def test_the_wheel_is_the_package_and_nothing_else(wheel: Path) -> None:
    source = REPOSITORY / "src"
    files = {
        str(path.relative_to(source)) for path in source.rglob("*") if path.is_file()
    }
    wanted = {
        name for name in files if "__pycache__" not in name and ".egg-info" not in name
    }
    assert {
        "oddsmith/py.typed",
        "oddsmith/server/dashboard/index.html",
        "oddsmith/server/store/sqlite/schema.sql",
    } <= wanted
    info = f"oddsmith-{od.__version__}.dist-info"
    about = {
        f"{info}/{name}"
        for name in (
            "METADATA",
            "WHEEL",
            "RECORD",
            "entry_points.txt",
            "licenses/LICENSE",
        )
    }
    assert names_in(wheel) == wanted | about
    assert wheel.name.endswith("-py3-none-any.whl")


@pytest.mark.skipif(
    shutil.which("git") is None or not (REPOSITORY / ".git").exists(),
    reason="git does not say what belongs here",
)
def test_the_sdist_is_the_repository(tmp_path: Path) -> None:
    """So it can build itself, run its tests, write its pages and its benchmarks."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    ).stdout.split("\0")
    wanted = {
        name
        for name in listed
        if name and (REPOSITORY / name).is_file() and not name.startswith(".ci/")
    }
    assert {
        "Makefile",
        "requirements/dev.txt",
        "mkdocs.yml",
        "examples/models.py",
        "pyproject.toml",
    } <= wanted
    assert names_in(build("sdist", tmp_path)) == wanted | {"PKG-INFO"}


def test_the_version_is_one(told: Message) -> None:
    changes = (REPOSITORY / "CHANGELOG.md").read_text()
    assert told["Version"] == od.__version__ == CITATION["version"]
    assert re.findall(r"^## (\d\S*)", changes, re.MULTILINE)[0] == od.__version__
    assert (
        f'version = "{od.__version__}"'
        not in (REPOSITORY / "pyproject.toml").read_text()
    )


def test_the_index_is_told_where_things_are(told: Message) -> None:
    urls = dict(line.split(", ") for line in told.get_all("Project-URL", []))
    assert urls.keys() == {"Documentation", "Source", "Issues", "Changelog"}
    assert urls["Source"] == SOURCE == CITATION["repository-code"]
    assert urls["Documentation"] == CITATION["url"]
    assert told["License-Expression"] == CITATION["license"] == "Apache-2.0"
    assert set(CITATION["keywords"]) == set(told["Keywords"].split(","))


def test_the_readme_on_an_index_is_ours_with_whole_addresses(told: Message) -> None:
    assert told["Description-Content-Type"] == "text/markdown"
    shown, ours = told.get_payload(), (REPOSITORY / "README.md").read_text()
    assert isinstance(shown, str)
    assert FENCED.findall(shown) == FENCED.findall(ours)
    places = (f"{SOURCE}/blob/v{od.__version__}/", f"{RAW}/v{od.__version__}/")
    found = 0
    for target in (
        one or other for one, other in TARGET.findall(FENCED.sub("", shown))
    ):
        assert re.match(r"https?://", target), target
        for place in places:
            if target.startswith(place):
                found += 1
                assert (
                    REPOSITORY / target.removeprefix(place).partition("#")[0]
                ).exists(), target
    relative = [
        one or other
        for one, other in TARGET.findall(FENCED.sub("", ours))
        if "://" not in (one or other)
    ]
    assert found == len(relative) > 10
    pictures = re.findall(r"!\[[^\]]*\]\(([^)]+)\)", shown) + re.findall(
        r'<img [^>]*src="([^"]+)"', shown
    )
    assert pictures
    assert all(picture.startswith(RAW) for picture in pictures)
