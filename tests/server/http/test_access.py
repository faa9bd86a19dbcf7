"""S1 and S4: every route with every kind of key, and paths that lead nowhere."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from oddsmith.server.http.keys import ALL_SCOPES, create, revoke
from oddsmith.server.http.routes import ROUTES
from oddsmith.server.monitor.store_looks import StoreLooks
from server.http.route_page import OPEN, SCOPES
from server.live import ask
from server.offering import bringing
from server.served import CONTEXT, Here, here, place

BODIES: dict[str, Any] = {
    route.path: next(iter(route.examples.values()), {})
    for route in ROUTES
    if route.method == "POST"
}
CASES = [pytest.param(method, path, id=f"{method} {path}") for method, path in SCOPES]
TABLE = {route: scopes for route, scopes in SCOPES.items() if scopes}


class Guarded(Here):
    """A service of two experiments, with its keys."""

    tokens: dict[str, str]

    def status(
        self, method: str, path: str, token: str | None, experiment: str = "news"
    ) -> int:
        """What this route answers to this key; 200 where the key is good, whatever
        becomes of the example."""
        about = {} if path in OPEN or path == "/metrics" else {"experiment": experiment}
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        where = path.replace("{id}", "known")
        if method == "POST":
            status = self.ask(
                method, where, json=BODIES[path] | about, headers=headers
            ).status_code
            return 200 if status in (409, 422) else status
        return self.ask(method, where, params=about, headers=headers).status_code


@pytest.fixture(scope="module", params=["fixed", "same"])
def guarded(request: pytest.FixtureRequest, tmp_path_factory: Any) -> Iterator[Guarded]:
    folder: Path = tmp_path_factory.mktemp("access")
    keys = folder / "keys.json"
    tokens: dict[str, str] = {
        scope: create(keys, scope, [scope]) for scope in ALL_SCOPES
    }
    tokens |= {
        f"shop {scope}": create(keys, f"shop-{scope}", [scope], ["shop"])
        for scope in ALL_SCOPES
    }
    tokens["revoked"] = create(keys, "revoked", ["admin"])
    revoke(keys, "revoked")
    with ExitStack() as stack:
        with bringing(request.param):
            served = stack.enter_context(
                here(place(folder, "news"), place(folder, "shop"), keys=keys)
            )
        found = Guarded(served.app, served.service, served.portal, served.client)
        found.tokens = tokens
        body = {"context": CONTEXT, "id": "known"}
        for name in ("news", "shop"):
            header = {"Authorization": f"Bearer {tokens['admin']}"}
            for path, asked in (
                ("decide", body),
                ("reward", {"id": "known", "reward": 1}),
            ):
                answer = found.ask(
                    "POST",
                    f"/v1/{path}",
                    json=asked | {"experiment": name},
                    headers=header,
                )
                assert answer.status_code == 200
        yield found


def test_who_has_no_key_learns_no_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def trouble(*_: Any) -> str:
        return "/secret/place cannot be read"

    keys = tmp_path / "keys.json"
    tokens = (
        create(keys, "one", ["read"], ["news"]),
        create(keys, "other", ["decide"]),
        "od_" + "A" * 43,
    )
    with here(place(tmp_path), place(tmp_path, "shop"), keys=keys) as served:
        monkeypatch.setattr(StoreLooks, "trouble", trouble)
        # the last look was a moment ago
        monkeypatch.setattr(served.service, "_next_check", 0.0)
        said = served.get("/readyz", status=503)
        headers = [{"Authorization": f"Bearer {token}"} for token in tokens]
        others = [served.ask("GET", "/readyz", headers=header) for header in headers]
    assert said == {"ok": False, "experiments": {}}  # not even a name
    assert [answer.status_code for answer in others] == [503] * 3
    assert others[0].json()["experiments"] == {"news": "/secret/place cannot be read"}
    assert [answer.json() for answer in others[1:]] == [said, said]


def test_the_page_names_every_route_and_its_scopes_and_a_post_has_an_example() -> None:
    found = {
        (route.method, route.path): route.scopes
        | ({"admin"} if route.scopes else set())
        for route in ROUTES
    }
    assert found == SCOPES
    assert list(found) == list(SCOPES)
    assert all(BODIES.values())


@pytest.mark.parametrize(("method", "path"), CASES)
def test_without_a_key_in_force_nothing_is_done(
    guarded: Guarded, method: str, path: str
) -> None:
    for token in (
        None,
        "od_" + "A" * 43,
        guarded.tokens["revoked"],
        guarded.tokens["admin"][:-1],
        "",
        "x" * 5000,
    ):
        assert guarded.status(method, path, token) == (200 if path in OPEN else 401)
    if path not in OPEN:
        where, body = path.replace("{id}", "known"), BODIES.get(path)
        for header in (
            f"Basic {guarded.tokens['admin']}",
            guarded.tokens["admin"],
            "Bearer",
        ):
            answer = guarded.ask(
                method, where, json=body, headers={"Authorization": header}
            )
            assert answer.status_code == 401
            assert answer.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize(("method", "path"), CASES)
def test_scopes_and_experiments(guarded: Guarded, method: str, path: str) -> None:
    for scope in ALL_SCOPES:
        allowed = path in OPEN or scope in TABLE[method, path]
        there = guarded.status(method, path, guarded.tokens[f"shop {scope}"], "shop")
        if path == "/v1/experiments":  # which are those that the key may read
            assert (there == 200) == allowed
            continue
        assert guarded.status(
            method, path, guarded.tokens[f"shop {scope}"], "news"
        ) == (200 if path in OPEN else 403)
        assert guarded.status(
            method, path, guarded.tokens[f"shop {scope}"], "absent"
        ) == (200 if path in OPEN else 403)
        if path == "/metrics":  # which are of all experiments at once
            assert there == 403
        else:
            assert there == 200 if allowed else there == 403
        assert guarded.status(method, path, guarded.tokens[scope]) == (
            200 if allowed else 403
        )


WRONG_BODIES = (b"", b"[]," * 20_000, b"{", b'{"ctx": 1}', b'"\xff"', b"x" * 2_000_000)


@pytest.mark.parametrize(
    ("method", "path"), [one for one in SCOPES if one[1] not in OPEN]
)
def test_the_key_is_looked_at_before_the_body(
    guarded: Guarded, method: str, path: str
) -> None:
    """Whatever is wrong with the body, who may not ask is not told, and nothing of it
    is read."""
    where = path.replace("{id}", "known")
    nobody = ["od_" + "A" * 43, guarded.tokens["revoked"], ""]
    wrong = [
        key
        for scope in ALL_SCOPES
        if scope not in TABLE[method, path]
        for key in (scope, f"shop {scope}")
    ]
    for tokens, status in (
        (nobody, 401),
        ([guarded.tokens[key] for key in wrong], 403),
    ):
        for token in tokens:
            for body in WRONG_BODIES:
                headers = {"Authorization": f"Bearer {token}"}
                assert (
                    guarded.ask(
                        method, where, content=body, headers=headers
                    ).status_code
                    == status
                )
            head = [
                (b"authorization", f"Bearer {token}".encode()),
                (b"content-length", b"999999999"),
            ]
            scope = {
                "method": method,
                "path": where,
                "raw_path": where.encode(),
                "headers": head,
            }
            # there is no body to wait for: it would wait for ever
            answer, taken = ask(guarded.app, scope, [])
            assert (answer.status, taken) == (status, 0)
    if method == "POST":
        fits = {"Authorization": f"Bearer {guarded.tokens['shop admin']}"}
        assert guarded.ask(method, where, content=b"{", headers=fits).status_code == 400


def test_nothing_is_written_for_who_may_not(guarded: Guarded) -> None:
    store = guarded.experiment("news").store
    before = store.head()
    for method, path in SCOPES:
        for key in ("read", "shop admin", "revoked"):
            if "read" not in TABLE.get((method, path), {"read"}):
                guarded.status(method, path, guarded.tokens[key])
    assert store.head() == before


def test_a_key_is_refused_from_the_request_after_its_revocation(tmp_path: Path) -> None:
    keys = tmp_path / "keys.json"
    token, other = create(keys, "one", ["read"]), create(keys, "other", ["read"])
    with here(place(tmp_path), keys=keys) as served:

        def statuses() -> list[int]:
            headers = [{"Authorization": f"Bearer {key}"} for key in (token, other)]
            return [
                served.ask("GET", "/v1/stats", headers=one).status_code
                for one in headers
            ]

        assert statuses() == [200, 200]
        revoke(keys, "one")
        assert statuses() == [401, 200]


ELSEWHERE = [
    "/../etc/passwd",
    "/v1/../../etc/passwd",
    "/%2e%2e/%2e%2e/etc/passwd",
    "/v1/decisions/../../etc/passwd",
    "/v1/decisions/%2e%2e%2f%2e%2e%2fetc%2fpasswd",
    "/v1/decisions/..%5c..%5cboot.ini",
    "/v1/decisions/%00",
    "/v1/decisions/known%00.png",
    "/v1/decisions//etc/passwd",
    "/v1/decisions/" + "a" * 1500,
    "/v1/decisions/" + "a" * 5000,
    "/v1/decisions/",
    "/v1/stats/",
    "//etc/passwd",
    "/file:///etc/passwd",
    "/news.sqlite",
    "/keys.json",
    "/dashboard/../keys.json",
    "/docs/keys.json",
]


@pytest.mark.parametrize("path", ELSEWHERE)
def test_paths_lead_nowhere_else(guarded: Guarded, path: str) -> None:
    header = {"Authorization": f"Bearer {guarded.tokens['admin']}"}
    answer = guarded.ask(
        "GET", f"http://localhost{path}?experiment=news", headers=header
    )
    assert answer.status_code in (404, 414)
    assert answer.json().keys() == {"error", "code"}
    assert "root:" not in answer.text


@pytest.mark.parametrize(
    "name",
    [
        "../news",
        "..%2fnews",
        "/etc/passwd",
        "news\x00",
        "NEWS",
        "",
        "n" * 65,
        "é",
        "news ",
    ],
)
def test_experiments_are_known_by_pattern(guarded: Guarded, name: str) -> None:
    header = {"Authorization": f"Bearer {guarded.tokens['admin']}"}
    asked = guarded.ask(
        "POST",
        "/v1/decide",
        json={"context": CONTEXT, "experiment": name},
        headers=header,
    )
    assert asked.status_code == 422
    assert (
        guarded.ask(
            "GET", "/v1/stats", params={"experiment": name}, headers=header
        ).status_code
        == 404
    )
