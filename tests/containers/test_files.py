"""What Dockerfile, .dockerignore and compose file say: pinned, not root, no secrets,
nothing that does not exist."""

import json
import re
import shlex
import tomllib

import pytest

from containers.files import (
    COMPOSE,
    IMAGE,
    REPOSITORY,
    health_command,
    image_environment,
    last,
)
from oddsmith.cli.main import command_parser
from server.http.test_safe_files import needed

PINNED = re.compile(r"[a-z]+:\d+\.\d+(\.\d+)?-[a-z-]+")
PAGE = (REPOSITORY / "docs" / "howto" / "containers.md").read_text()
SERVICE, DATABASE = COMPOSE["services"]["service"], COMPOSE["services"]["database"]


def pins(name: str) -> dict[str, str]:
    lines = (REPOSITORY / "requirements" / name).read_text().splitlines()
    assert all(re.fullmatch(r"[\w.-]+==[\w.]+", line) for line in lines)
    return {
        key.lower().replace("_", "-"): value
        for key, value in (line.split("==") for line in lines)
    }


def test_every_stage_has_the_same_pinned_base() -> None:
    bases = [step.text.split()[0] for step in IMAGE if step.name == "FROM"]
    assert len(bases) == 2
    assert len(set(bases)) == 1
    assert PINNED.fullmatch(bases[0])
    minor = re.findall(r":(\d+\.\d+)", bases[0])[0]
    classifiers = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"][
        "classifiers"
    ]
    assert f"Programming Language :: Python :: {minor}" in classifiers


def test_the_image_runs_as_nobody_in_particular() -> None:
    (user,) = last("USER")
    assert int(user) > 1000
    assert [
        step.name for step in IMAGE if step.stage == 1 and step.name in ("RUN", "COPY")
    ] == ["RUN", "COPY"]
    at = [step.name for step in IMAGE]
    assert at.index("USER") < at.index("ENTRYPOINT")
    assert f"--uid {user} " in last("RUN")[0]


def test_ports_volumes_and_variables_fit_together() -> None:
    environment, (port,) = image_environment(), last("EXPOSE")
    (volume,) = json.loads(last("VOLUME")[0])
    assert environment["ODDSMITH_PORT"] == port
    assert last("WORKDIR") == [volume]
    assert f"--home-dir {volume} " in last("RUN")[0]
    assert all(
        environment[name].startswith(f"{volume}/")
        for name in ("ODDSMITH_KEYS", "NUMBA_CACHE_DIR")
    )
    code = "".join(
        path.read_text()
        for path in (REPOSITORY / "src" / "oddsmith" / "cli").glob("*.py")
    )
    assert all(name in code for name in environment if name.startswith("ODDSMITH_"))
    assert environment["PATH"].split(":")[0] == "/opt/oddsmith/bin"
    assert health_command()[0] == "python"


def test_what_is_copied_exists_and_is_let_in() -> None:
    ignored = (REPOSITORY / ".dockerignore").read_text().splitlines()
    assert ignored[0] == "*"
    let_in = {line[1:] for line in ignored if line.startswith("!")}
    own = [
        step.text.split()[:-1]
        for step in IMAGE
        if step.name == "COPY" and "--from" not in step.text
    ]
    copied = {name for names in own for name in names}
    assert copied == let_in
    assert all((REPOSITORY / name).exists() for name in copied)
    assert not [step for step in IMAGE if step.name == "ADD"]


def test_the_pinned_packages_are_those_of_the_extras() -> None:
    service, build, tests = pins("service.txt"), pins("build.txt"), pins("dev.txt")
    assert service.keys() == needed(("service", "postgres", "fast"))
    assert {"hatchling", "hatch-fancy-pypi-readme"} < build.keys()
    assert (service | build).items() <= tests.items()


@pytest.mark.parametrize("one", [SERVICE, DATABASE], ids=["service", "database"])
def test_a_service_of_the_compose_file(one: dict[str, object]) -> None:
    assert one["restart"] == "unless-stopped"
    assert one["image"] == "oddsmith:local" or PINNED.fullmatch(str(one["image"]))
    environment = one["environment"]
    assert isinstance(environment, dict)
    secret = [value for name, value in environment.items() if "PASSWORD" in name]
    assert secret
    assert all(
        re.fullmatch(r"\$\{ODDSMITH_DB_PASSWORD:\?[^}]+\}", value) for value in secret
    )


def test_the_services_mean_the_same_database_files_and_ports() -> None:
    theirs, ours = DATABASE["environment"], SERVICE["environment"]
    assert ours["PGHOST"] in COMPOSE["services"]
    assert (ours["PGDATABASE"], ours["PGUSER"]) == (
        theirs["POSTGRES_DB"],
        theirs["POSTGRES_USER"],
    )
    assert SERVICE["depends_on"] == {"database": {"condition": "service_healthy"}}
    assert DATABASE["healthcheck"]["test"][:2] == ["CMD", "pg_isready"]
    assert SERVICE["deploy"]["replicas"] == 2
    assert re.fullmatch(
        rf"127\.0\.0\.1:(\d+)-(\d+):{last('EXPOSE')[0]}", SERVICE["ports"][0]
    )
    volumes = [
        volume.split(":") for one in (SERVICE, DATABASE) for volume in one["volumes"]
    ]
    assert {
        volume[0] for volume in volumes if not volume[0].startswith(".")
    } == COMPOSE["volumes"].keys()
    mounted = {
        volume[1]: REPOSITORY / "containers" / volume[0]
        for volume in volumes
        if volume[0].startswith(".")
    }
    assert all(path.is_file() for path in mounted.values())
    assert SERVICE["command"][1] in mounted
    assert json.loads(last("CMD")[0])[1] in mounted
    assert json.loads(last("VOLUME")[0])[0] in {volume[1] for volume in volumes}
    assert (
        REPOSITORY
        / "containers"
        / SERVICE["build"]["context"]
        / SERVICE["build"]["dockerfile"]
    ).is_file()
    assert SERVICE["read_only"] is True


def test_commands_of_the_page_and_of_both_files_can_be_parsed() -> None:
    given = re.findall(r"^\$ docker compose run .*?\bservice (.+)$", PAGE, re.MULTILINE)
    given += re.findall(r"^\$ docker run .*?\boddsmith:local (.+)$", PAGE, re.MULTILINE)
    assert len(given) == 4
    for words in (
        *map(shlex.split, given),
        SERVICE["command"],
        json.loads(last("CMD")[0]),
    ):
        command_parser().parse_args(words)
    assert json.loads(last("ENTRYPOINT")[0]) == ["oddsmith"]
