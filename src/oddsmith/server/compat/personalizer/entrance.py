"""Personalizer: read paths and keys, and write errors, in the formats of Azure AI
Personalizer."""

import json
from urllib.parse import parse_qsl, unquote_to_bytes

from oddsmith.server.compat.personalizer.routes import TABLE, VERSIONS, Way
from oddsmith.server.http.door import Door, bearer_token
from oddsmith.server.http.response import Headers, Refusal, Response
from oddsmith.server.http.routes.route import Route

__all__ = ["Personalizer"]

_NAME = "personalizer"
_BY_QUERY = VERSIONS[-1]
_BUSY = (503, 507)
_CODES = {
    "unauthorized": "401",
    "forbidden": "InvalidApiAccess",
    "not_found": "ResourceNotFound",
    "method": "MethodNotAllowed",
    "malformed": "BadRequest",
    "timeout": "RequestTimeout",
    "too_many": "TooManyRequests",
    "too_large": "PayloadSizeExceeded",
    "internal": "InternalServerError",
}
_KEYS = (
    "Ocp-Apim-Subscription-Key must be a key that is in force, or Authorization "
    "'Bearer KEY'"
)


class Personalizer(Door):
    """The Personalizer-compatible API, in all its versions.

    Fixed words of a path are case-insensitive, and empty words are ignored; ids are
    compared as sent. The word before `personalizer` names the experiment. The version
    is the first word after it, or `api-version` in the query.
    """

    def __init__(self) -> None:
        self._fixed: dict[tuple[str, ...], list[Way]] = {}
        self._codes: dict[tuple[str, str], str] = {}
        routes: list[Route] = []
        for entry in TABLE:
            route = entry.route._replace(door=self)
            routes.append(route)
            self._codes[route.method, route.path] = entry.code
            way = entry._replace(route=route)
            self._fixed.setdefault(_words(way), []).append(way)
        self.routes = tuple(routes)
        self._with_parameter = {
            words: ways
            for words, ways in self._fixed.items()
            if "{event}" in words or "{id}" in words
        }

    def find(
        self, method: str, raw_path: str, query: bytes
    ) -> tuple[Route, dict[str, str]] | Response | None:
        """Return the route of a raw path, and its parameters: `experiment`, `version`,
        and `event` or `id`."""
        if _NAME not in raw_path.lower():
            return None
        parts = raw_path.encode("latin-1").split(b"/")
        try:
            words = [unquote_to_bytes(part).decode() for part in parts if part]
        except UnicodeDecodeError:
            refusal = Refusal(400, "malformed", "a path must be UTF-8, percent-encoded")
            return self.refusal_response(refusal, None)
        refusals: list[Refusal] = []
        # An experiment or an event may also have the name of the API, so try each
        # place.
        for place, word in enumerate(words):
            if word.lower() != _NAME:
                continue
            match = self._match(method, words[place + 1 :], query)
            if isinstance(match, Refusal):
                refusals.append(match)
                continue
            route, parameters = match
            if place:
                parameters = {"experiment": words[place - 1]} | parameters
            return route, parameters
        if not refusals:
            return None
        for refusal in refusals:
            if refusal.status != 404:
                return self.refusal_response(refusal, None)
        return self.refusal_response(refusals[-1], None)

    def _match(
        self, method: str, words: list[str], query: bytes
    ) -> tuple[Route, dict[str, str]] | Refusal:
        """Return the route for the words after `personalizer`, and its parameters."""
        version = words[0].lower() if words else ""
        if version in VERSIONS[:-1]:
            words = words[1:]
        else:
            pairs = parse_qsl(query.decode("latin-1"))
            fields = {name.lower(): value for name, value in pairs}
            version = fields.get("api-version", "")
        number = VERSIONS.index(version) if version in VERSIONS else -1
        ways, parameters = self._ways(words)
        available = [way for way in ways if number >= way.since]
        for way in available:
            if way.route.method == method:
                return way.route, parameters | {"version": version}
        path = f"/{'/'.join(words)}"
        if ways and number < 0:
            allowed = (
                f"one of {', '.join(VERSIONS[:-1])} in the path, or "
                f"?api-version={_BY_QUERY}"
            )
            return Refusal(
                400, "malformed", f"the version must be {allowed}; got {version!r:.40}"
            )
        if available:
            methods = " or ".join(way.route.method for way in available)
            return Refusal(
                405,
                "method",
                f"method of {path!r:.80} must be {methods}; got {method:.20}",
            )
        of = f" in version {version}" if version else ""
        return Refusal(404, "not_found", f"there is no path {path!r:.80}{of}")

    def _ways(self, words: list[str]) -> tuple[list[Way], dict[str, str]]:
        """Return the candidate routes of a path, and the parameter in it."""
        ways = self._fixed.get(tuple(word.lower() for word in words))
        if ways is not None:
            return ways, {}
        for pattern, open_ways in self._with_parameter.items():
            parameters = _parameters(pattern, words)
            if parameters is not None:
                return open_ways, parameters
        return [], {}

    def refusal_response(self, refusal: Refusal, route: Route | None) -> Response:
        """Return the error response in this API's format, `{"error": {"code",
        "message"}}`.

        A busy service answers 429, because old JavaScript clients retry a 503 for two
        minutes, and give up at once after a 429. Conflicts and invalid values have
        status 400.
        """
        status = refusal.status
        code = _CODES.get(refusal.code, refusal.code)
        sentence = refusal.error
        if status in (409, 413, 422):
            status = 400
        elif status in _BUSY:
            status = 429
            code = "OperationNotAllowed"
        elif status == 401:
            sentence = _KEYS
        if refusal.code in ("invalid", "conflict", "malformed") and route is not None:
            code = self._codes[route.method, route.path]
        body = json.dumps({"error": {"code": code, "message": sentence}}).encode()
        headers = refusal._replace(status=status).response().headers
        headers.append((b"x-ms-error-code", code.encode("ascii", "replace")))
        return Response(status, body, headers)

    def token(self, headers: Headers) -> str:
        """Return the key in Ocp-Apim-Subscription-Key, or after Bearer in
        Authorization."""
        key = dict(headers).get(b"ocp-apim-subscription-key")
        if key:
            return key.decode("latin-1").strip()
        return bearer_token(headers)


def _words(way: Way) -> tuple[str, ...]:
    """Return the words of a path after `personalizer`, in lower case."""
    return tuple(way.route.path.lower().split("/")[2:])


def _parameters(pattern: tuple[str, ...], words: list[str]) -> dict[str, str] | None:
    """Return the parameters of a path that matches a pattern; None for any other
    path."""
    if len(pattern) != len(words):
        return None
    parameters: dict[str, str] = {}
    for part, word in zip(pattern, words, strict=True):
        if part.startswith("{"):
            parameters[part.strip("{}")] = word
        elif part != word.lower():
            return None
    return parameters
