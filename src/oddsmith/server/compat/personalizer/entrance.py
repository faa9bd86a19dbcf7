"""Personalizer: paths, keys and refusals as Azure AI Personalizer had them."""

import json
from urllib.parse import parse_qsl, unquote_to_bytes

from oddsmith.server.compat.personalizer.routes import TABLE, VERSIONS, Way
from oddsmith.server.http.door import Door
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
    """The door for programs of Azure AI Personalizer, in all its versions.

    Fixed words of a path may be in any case, and empty ones between two slashes are
    left out; an id is as it was sent. The word before `personalizer` names the
    experiment. A version is the first word after it, or `api-version` in the query.
    """

    def __init__(self) -> None:
        ways = [way._replace(route=way.route._replace(door=self)) for way in TABLE]
        self.routes = tuple(way.route for way in ways)
        self._codes = {(way.route.method, way.route.path): way.code for way in ways}
        self._fixed = {
            _words(way): [one for one in ways if _words(one) == _words(way)]
            for way in ways
        }
        self._open = [
            (words, found)
            for words, found in self._fixed.items()
            if "{event}" in words or "{id}" in words
        ]

    def find(
        self, method: str, raw_path: str, query: bytes
    ) -> tuple[Route, dict[str, str]] | Response | None:
        """The route of a path as it was sent, and its parameters: `experiment`,
        `version`, and `event` or `id`."""
        if _NAME not in raw_path.lower():
            return None
        try:
            words = [
                unquote_to_bytes(one).decode()
                for one in raw_path.encode("latin-1").split(b"/")
                if one
            ]
        except UnicodeDecodeError:
            return self.refusal_response(
                Refusal(400, "malformed", "a path must be UTF-8, percent-encoded"), None
            )
        places = [place for place, word in enumerate(words) if word.lower() == _NAME]
        if not places:
            return None
        refusal: Refusal | None = None
        for place in places:  # an experiment, or an event, may have this name
            found = self._among(method, words[place + 1 :], query)
            if not isinstance(found, Refusal):
                route, parameters = found
                return route, (
                    {"experiment": words[place - 1]} if place else {}
                ) | parameters
            refusal = found if refusal is None or refusal.status == 404 else refusal
        assert refusal is not None
        return self.refusal_response(refusal, None)

    def _among(
        self, method: str, words: list[str], query: bytes
    ) -> tuple[Route, dict[str, str]] | Refusal:
        """The route of what stands behind `personalizer`."""
        version = words[0].lower() if words else ""
        if version in VERSIONS[:-1]:
            words = words[1:]
        else:
            asked = {
                name.lower(): value
                for name, value in parse_qsl(query.decode("latin-1"))
            }
            version = asked.get("api-version", "")
        number = VERSIONS.index(version) if version in VERSIONS else -1
        ways, parameters = self._ways(words)
        there = [way for way in ways if number >= way.since]
        way = next((way for way in there if way.route.method == method), None)
        if way is not None:
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
        if there:
            methods = " or ".join(way.route.method for way in there)
            return Refusal(
                405,
                "method",
                f"method of {path!r:.80} must be {methods}; got {method:.20}",
            )
        of = f" in version {version}" if version else ""
        return Refusal(404, "not_found", f"there is no path {path!r:.80}{of}")

    def _ways(self, words: list[str]) -> tuple[list[Way], dict[str, str]]:
        """What a path may mean, and the parameter in it."""
        lower = tuple(word.lower() for word in words)
        if (found := self._fixed.get(lower)) is not None:
            return found, {}
        for pattern, ways in self._open:
            pairs = list(zip(pattern, words, strict=False))
            if len(pattern) == len(lower) and all(
                one[0] == "{" or one == word.lower() for one, word in pairs
            ):
                return ways, {one[1:-1]: word for one, word in pairs if one[0] == "{"}
        return [], {}

    def refusal_response(self, refusal: Refusal, route: Route | None) -> Response:
        """The answer that says no: `{"error": {"code", "message"}}`.

        What is busy is answered with 429, for old programs in JavaScript send a 503
        again for two minutes, and end at a 429 at once. What cannot be done is a 400.
        """
        status, code, sentence = (
            refusal.status,
            _CODES.get(refusal.code, refusal.code),
            refusal.error,
        )
        if status in (409, 413, 422):
            status = 400
        elif status in _BUSY:
            status, code = 429, "OperationNotAllowed"
        elif status == 401:
            sentence = _KEYS
        if refusal.code in ("invalid", "conflict", "malformed") and route is not None:
            code = self._codes[route.method, route.path]
        body = json.dumps({"error": {"code": code, "message": sentence}}).encode()
        headers = refusal._replace(status=status).response().headers
        return Response(
            status,
            body,
            [*headers, (b"x-ms-error-code", code.encode("ascii", "replace"))],
        )

    def token(self, headers: Headers) -> str:
        """The key in Ocp-Apim-Subscription-Key, or behind Bearer in Authorization."""
        sent = dict(headers)
        if key := sent.get(b"ocp-apim-subscription-key"):
            return key.decode("latin-1").strip()
        scheme, _, token = (
            sent.get(b"authorization", b"").decode("latin-1").partition(" ")
        )
        return token if scheme.lower() == "bearer" else ""


def _words(way: Way) -> tuple[str, ...]:
    """The words of a way's path behind `personalizer`, in lower case."""
    return tuple(way.route.path.lower().split("/")[2:])
