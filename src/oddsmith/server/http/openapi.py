"""The OpenAPI document of the routes."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from oddsmith import __version__
from oddsmith.server.messages.calls import ErrorAnswer

__all__ = ["JsonSchema", "document"]

if TYPE_CHECKING:
    from oddsmith.server.http.routes.route import Route


JsonSchema: TypeAlias = dict[str, Any]
"""A JSON schema, as msgspec makes it."""

_REASONS = {
    400: "The request is malformed.",
    401: "A key is missing or wrong.",
    403: "The key does not allow this.",
    404: "There is no such thing.",
    408: "The request took too long to arrive.",
    409: (
        "Something else was kept before: another value, or an arm that is not offered "
        "now."
    ),
    413: "The body is too large.",
    414: "The path is too long.",
    422: "A value is not allowed.",
    429: "The key has made too many calls; Retry-After says when to try again.",
    431: "The headers are too large.",
    503: (
        "Not now: the store fails (store_failed), the state is being read from the log "
        "(restoring), there is too much to do (busy), or the service stops (stopping)."
    ),
    507: "The disk is full.",
}
_FOUND = "$response.body#/id"
_LINKS = {
    "reward": {"operationId": "reward", "requestBody": {"id": _FOUND, "reward": 1}},
    "activate": {"operationId": "activate", "requestBody": {"id": _FOUND}},
    "decision": {"operationId": "decision", "parameters": {"id": _FOUND}},
}


def document(routes: "Sequence[Route]") -> bytes:
    """The document as JSON."""
    given = (
        one
        for route in routes
        for one in (route.message, route.answer, route.slate_answer)
    )
    types = [ErrorAnswer, *(one for one in given if one is not None)]
    schemas, components = msgspec.json.schema_components(
        types, ref_template="#/components/schemas/{name}"
    )
    ref = dict(zip(types, schemas, strict=True))
    paths: dict[str, dict[str, object]] = {}
    for route in routes:
        fields = (
            {}
            if route.message is None
            else components[route.message.__name__]["properties"]
        )
        paths.setdefault(route.path, {})[route.method.lower()] = _described(
            route, ref, fields
        )
    for route in routes:  # those of queries are described as parameters
        components.pop(
            route.message.__name__ if route.method == "GET" and route.message else "",
            None,
        )
    return msgspec.json.encode(
        {
            "openapi": "3.1.0",
            "info": {
                "title": "oddsmith",
                "version": __version__,
                "description": "Decisions with exact odds.",
            },
            "paths": paths,
            "components": {
                "schemas": components,
                "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
            },
        }
    )


def _described(
    route: "Route", ref: Mapping[object, JsonSchema], fields: Mapping[str, JsonSchema]
) -> dict[str, object]:
    """One route as an operation; `fields` are the schemas of its message's fields."""
    responses = {
        str(status): _answer(_REASONS[status], ref[ErrorAnswer])
        for status in route.statuses
    }
    if route.name == "ready":
        responses["503"] = _answer(_REASONS[503], ref[route.answer])
    answers = [
        ref[one] for one in (route.answer, route.slate_answer) if one is not None
    ]
    responses["200"] = _answer(
        route.summary,
        {"anyOf": answers} if len(answers) > 1 else answers[0] if answers else {},
    )
    if route.name == "metrics":
        responses["200"] = {
            "description": route.summary,
            "content": {"text/plain": {"schema": {"type": "string"}}},
        }
    if route.name == "decide":
        responses["200"]["links"] = _LINKS
    described: dict[str, object] = {"operationId": route.name, "summary": route.summary}
    described["responses"] = dict(sorted(responses.items()))
    if route.scopes:
        described["security"] = [{"key": []}]
    if route.method == "GET":
        described["parameters"] = [
            _parameter(name, schema, route.path) for name, schema in fields.items()
        ]
    else:
        content: dict[str, object] = {"schema": ref[route.message]}
        if route.examples:
            content["examples"] = {
                name: {"value": body} for name, body in route.examples.items()
            }
        described["requestBody"] = {
            "required": True,
            "content": {"application/json": content},
        }
    return described


def _parameter(name: str, schema: JsonSchema, path: str) -> dict[str, object]:
    """A field of a query; one that may be left out is never null in a URL."""
    within = f"{{{name}}}" in path
    plain = next(
        (one for one in schema.get("anyOf", ()) if one.get("type") != "null"), schema
    )
    return {
        "name": name,
        "in": "path" if within else "query",
        "required": within,
        "schema": plain,
    }


def _answer(summary: str, schema: JsonSchema) -> dict[str, object]:
    return {"description": summary, "content": {"application/json": {"schema": schema}}}
