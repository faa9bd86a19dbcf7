"""B1: what schemathesis makes of the OpenAPI document, against the real service: no
5xx, nothing undocumented."""

import re
import subprocess
import sys
from pathlib import Path

from oddsmith.contexts.offers import MOST_ARMS
from oddsmith.server.http.keys import create
from oddsmith.server.http.routes import ROUTES
from oddsmith.server.http.routes.route import OFFER_BYTES
from server.http.test_offers import news
from server.served import here, place, place_for_anything, process

CONFIG = """
[phases.stateful.inference]
algorithms = []    # the links of the document are meant, not those that its examples suggest
[parameters]
"query.wait" = 0    # seconds that a call for changes takes
[checks]
positive_data_acceptance.enabled = false    # a schema does not know the arms, the bench, or the units of a reward
negative_data_rejection.expected-statuses = [400, 401, 403, 404, 405, 409, 413, 414, 422, 431]
"""
LIE = """
from oddsmith.server.http import openapi, service as process, routes
true = openapi.document(routes.ROUTES)
process.document = lambda _: true.replace(b'"422"', b'"418"')
"""


def schemathesis(
    folder: Path, examples: int, *more: str, before: str = ""
) -> "subprocess.CompletedProcess[str]":
    """A run of all its phases against a service with keys; it must leave a service
    without 5xx behind."""
    (folder / "schemathesis.toml").write_text(CONFIG)
    token = create(folder / "keys.json", "tester", ["admin"])
    key = {"Authorization": f"Bearer {token}"}
    with process(
        place_for_anything(folder), keys=folder / "keys.json", before=before
    ) as served:
        command = [
            sys.executable,
            "-m",
            "schemathesis.cli",
            f"--config-file={folder / 'schemathesis.toml'}",
            "run",
        ]
        command += [
            f"http://127.0.0.1:{served.port}/openapi.json",
            "--header",
            f"Authorization: Bearer {token}",
        ]
        command += [
            "--max-examples",
            str(examples),
            "--seed",
            "1",
            "--generation-database",
            "none",
            "--no-color",
            *more,
        ]
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, cwd=folder
        )
        answers = served.client.get("/metrics", headers=key).text
        assert not re.findall(
            r'oddsmith_answers_total\{route="/(?!readyz).*status="5\d\d"\}', answers
        )
        assert served.client.get("/readyz").status_code == 200
        assert "Traceback" not in served.log.read_text()
    return done


def check_all_phases(folder: Path, examples: int, least: int) -> None:
    done = schemathesis(folder, examples)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    found = re.search(r"(\d+) generated", done.stdout)
    assert found is not None
    assert int(found[1]) >= least
    # the stateful links from a decision
    assert "3 covered / 3 selected / 3 total" in done.stdout


def test_the_document_is_kept_to(tmp_path: Path) -> None:
    check_all_phases(tmp_path, 4, least=500)


def test_a_document_that_lies_is_found_out(tmp_path: Path) -> None:
    done = schemathesis(
        tmp_path,
        2,
        "--include-path",
        "/v1/activate",
        "--phases",
        "coverage",
        before=LIE,
    )
    assert done.returncode == 1
    assert re.search(r"Received: 422\s+Documented: [^\n]*418", done.stdout), done.stdout


def test_every_operation_is_described(tmp_path: Path) -> None:
    with here(place(tmp_path)) as served:
        document = served.get("/openapi.json")
    described = {
        (method.upper(), path)
        for path, methods in document["paths"].items()
        for method in methods
    }
    assert described == {(route.method, route.path) for route in ROUTES}
    for route in ROUTES:
        assert (
            "security" in document["paths"][route.path][route.method.lower()]
        ) == bool(route.scopes)


def test_arms_of_the_call_are_described_with_their_limits(tmp_path: Path) -> None:
    with here(place(tmp_path)) as served:
        document = served.get("/openapi.json")
    schemas = document["components"]["schemas"]
    for name in ("Decide", "DecideEntry", "DecideBatch"):
        said = schemas[name]["properties"]["arms"]["description"]
        assert f"1 to {MOST_ARMS:,}: names" in said
        assert f"at most {OFFER_BYTES >> 20} MiB" in said
    assert (
        "an arm that is not offered now"
        in document["paths"]["/v1/decide"]["post"]["responses"]["409"]["description"]
    )
    assert "at most 100,000" in schemas["DecideBatch"]["description"]
    assert "at most 100 arms" in schemas["DecideEntry"]["description"]


def test_the_examples_of_the_document_are_answered(tmp_path: Path) -> None:
    with here(news(tmp_path)) as served:
        paths = served.get("/openapi.json")["paths"]
        one, many = (
            paths[path]["post"]["requestBody"]["content"]["application/json"][
                "examples"
            ]
            for path in ("/v1/decide", "/v1/decide/batch")
        )
        plain, featured, named, *slated = (example["value"] for example in one.values())
        assert "arms" not in plain
        for body in (featured, named):
            assert served.post("decide", body)["odds"].keys() == set(body["arms"])
        for body in slated:
            assert [slot["slot"] for slot in served.post("decide", body)["slots"]] == [
                1,
                2,
            ]
        assert served.post("activate", {"slate": slated[0]["id"]})["new"]
        (batch,) = (example["value"] for example in many.values())
        assert all(
            "arm" in result for result in served.post("decide/batch", batch)["results"]
        )
