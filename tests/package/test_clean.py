"""Wheel and sdist, installed where nothing else is: the README's five lines, and one
real use of each extra alone.

These tests install packages with pip, from wherever it is set up to take them (`make
package`).
"""

import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import oddsmith as od
from containers.files import health_command
from package.built import REPOSITORY, build
from package.clean import NotInstalled, answer, environment, run, serving
from package.lines import USES
from server.served import process

if TYPE_CHECKING:
    from server.store.postgres_server import Server

pytestmark = pytest.mark.soak
BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
LINES = Path(__file__).with_name("lines.py")
EXTRAS = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"][
    "optional-dependencies"
]
HEAVY = ("ray", "spark")  # not to be had everywhere
SOURCES = {"spark": "pyspark"}  # what has no wheels, by extra; it is not compiled
POLICY = (
    'name = "news"\narms = ["sports", "tech"]\n[policy]\nkind = "auto"\n'
    'size = "small"\n'
)
STICKY = "[service]\nsticky = true\ntimeout_ms = 60000\n"
EXPERIMENT = """steps = 50
runs = 2
[worlds.benign]
kind = "random"
contexts = 4
experts = 4
arms = 3
[policies.log]
loss = "log"
gamma = 0.05
[policies.square]
loss = "square"
gamma = 0.05
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("wheel", tmp_path_factory.mktemp("dist"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """What the lines read."""
    blocks = BLOCK.findall((REPOSITORY / "README.md").read_text())
    assert any("models=models" in block for block in blocks)
    (tmp_path / "page.py").write_text("\n".join(blocks))
    (tmp_path / "experiment.toml").write_text(EXPERIMENT)
    (tmp_path / "news.toml").write_text(POLICY + STICKY)
    return tmp_path


def onnx(path: Path) -> None:
    import numpy as np
    from skl2onnx import to_onnx
    from sklearn.linear_model import LogisticRegression

    rows = np.random.default_rng(1).normal(size=(60, 4))
    model = LogisticRegression().fit(rows, np.tile([0, 1, 2], 20))
    made = to_onnx(model, np.zeros((1, 4), np.float32), options={"zipmap": False})
    path.write_bytes(made.SerializeToString())


def test_every_extra_has_a_use() -> None:
    assert USES.keys() == EXTRAS.keys() | {"core"}


@contextmanager
def other_end(
    extra: str, folder: Path, request: pytest.FixtureRequest
) -> Iterator[str]:
    """What an extra talks to: a service of this environment, or a PostgreSQL server."""
    if extra in ("client", "openfeature"):
        with process(folder / "news.toml") as served:
            yield f"http://127.0.0.1:{served.port}"
    elif extra == "postgres":
        server: Server = request.getfixturevalue("server")
        yield server.url()
    else:
        yield ""


@pytest.mark.parametrize("extra", USES)
def test_an_extra_alone(
    extra: str, wheel: Path, folder: Path, request: pytest.FixtureRequest
) -> None:
    if extra == "spark" and shutil.which("java") is None:
        pytest.skip("extra spark: no Java runtime (java) on this machine")
    try:
        asked = f"{wheel}[{extra}]" if extra in EXTRAS else wheel
        programs = environment(
            folder / "clean", asked, sources=SOURCES.get(extra, ":none:")
        )
    except NotInstalled as error:
        if extra in HEAVY:
            pytest.skip(
                f"extra {extra}: it could not be installed: {str(error)[-200:]}"
            )
        raise
    if extra in ("models", "all"):
        onnx(folder / "model.onnx")
    with other_end(extra, folder, request) as url:
        run([programs / "python", "-I", LINES, extra, folder, url], folder)
    assert (
        run([programs / "oddsmith", "--version"], folder)
        == f"oddsmith {od.__version__}\n"
    )
    if extra in ("service", "all"):
        with serving(
            [programs / "oddsmith", "serve", "news.toml", "--port", "0"], folder
        ) as address:
            assert [
                answer(f"{address}{path}") for path in ("/healthz", "/v1/stats", "/")
            ] == [200, 200, 200]


def test_the_versions_of_the_image(wheel: Path, folder: Path) -> None:
    """requirements/service.txt is all that the image installs beside us, and enough to
    serve."""
    pinned = REPOSITORY / "requirements" / "service.txt"
    programs = environment(
        folder / "clean", "-r", pinned, f"{wheel}[service,postgres,fast]"
    )
    frozen = run([programs / "python", "-m", "pip", "freeze"], folder).splitlines()
    others = {line.lower() for line in frozen if not line.startswith("oddsmith @")}
    assert others == set(pinned.read_text().lower().split())
    with serving(
        [programs / "oddsmith", "serve", "news.toml", "--port", "0"], folder
    ) as address:
        health = {"ODDSMITH_PORT": address.rpartition(":")[2]}
        subprocess.run(
            [programs / "python", *health_command()[1:]],
            env=health,
            check=True,
            timeout=60,
        )


def test_the_sdist_installs_and_runs_its_own_tests(
    tmp_path: Path, folder: Path
) -> None:
    sdist = build("sdist", tmp_path)
    programs = environment(tmp_path / "clean", sdist, sources="oddsmith")
    run([programs / "python", "-I", LINES, "core", folder], tmp_path)
    with tarfile.open(sdist) as file:
        file.extractall(tmp_path, filter="data")
    (tree,) = tmp_path.glob("oddsmith-*/")
    source = (
        f"import sys; sys.path.insert(0, {str(tree / 'src')!r}); import oddsmith, "
        "pytest; "
    )
    source += (
        f"assert oddsmith.__file__.startswith({str(tree)!r}); "
        "sys.exit(pytest.main(sys.argv[1:]))"
    )
    tests = [
        "tests/core/test_decision.py",
        "tests/docs/test_pages.py",
        "tests/package/test_contents.py",
        "tests/theory",
    ]
    run([sys.executable, "-c", source, *tests], tree)
