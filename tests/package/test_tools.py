"""What the tools of package indexes say: twine, the renderer of README files, and the
checker of CITATION.cff."""

import json
import re
from pathlib import Path

import pytest

from package.built import REPOSITORY, build, metadata
from package.clean import environment, run

pytestmark = pytest.mark.soak
RENDER = """
import json, sys
from readme_renderer.markdown import render
print(json.dumps(render(open(sys.argv[1], encoding="utf-8").read())))
"""


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tools that are installed apart, for they need other versions than our tests do;
    docopt has no wheel."""
    pinned = REPOSITORY / "requirements" / "package.txt"
    return environment(
        tmp_path_factory.mktemp("tools") / "clean", "-r", pinned, sources="docopt"
    )


def test_twine_would_upload_both(programs: Path, tmp_path: Path) -> None:
    files = [build(kind, tmp_path) for kind in ("wheel", "sdist")]
    assert (
        run([programs / "twine", "check", "--strict", *files], tmp_path).count("PASSED")
        == 2
    )


def test_the_readme_is_shown_whole(programs: Path, tmp_path: Path) -> None:
    text = metadata(build("wheel", tmp_path)).get_payload()
    assert isinstance(text, str)
    (tmp_path / "readme.md").write_text(text)
    html = json.loads(run([programs / "python", "-c", RENDER, "readme.md"], tmp_path))
    fences = len(re.findall(r"^```", text, re.MULTILINE)) // 2
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)
    assert html.count("<pre") == fences > 5
    assert html.count("<img") == len(re.findall(r"!\[|<img ", prose)) > 0
    assert len(re.findall(r"<h[1-6]", html)) == len(
        re.findall(r"^#{1,6} ", prose, re.MULTILINE)
    )
    assert html.count("<table") == len(
        re.findall(r"^\|(?:-+\|)+$", prose, re.MULTILINE)
    )
    addresses = re.findall(r'(?:href|src)="([^"]*)"', html)
    assert addresses
    assert all(re.match(r"https?://|#", address) for address in addresses), addresses
    assert "&lt;img" not in html  # nothing that was meant as HTML is shown as text


def test_the_citation_is_valid(programs: Path) -> None:
    said = run(
        [programs / "cffconvert", "--validate", "-i", "CITATION.cff"], REPOSITORY
    )
    assert "valid according to schema version 1.2.0" in said
    assert "@misc" in run(
        [programs / "cffconvert", "-f", "bibtex", "-i", "CITATION.cff"], REPOSITORY
    )
