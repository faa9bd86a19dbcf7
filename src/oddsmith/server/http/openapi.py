"""Generate the OpenAPI document of the routes."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from oddsmith import __version__
from oddsmith.server.messages.calls import ErrorAnswer

__all__ = ["JsonSchema", "document"]

if TYPE_CHECKING:
    from oddsmith.server.http.routes.route import Route


JsonSchema: TypeAlias = dict[str, Any]
"""A JSON schema that msgspec generated."""

_REASONS = {
    400: "The request is malformed.",
    401: "A key is missing or wrong.",
    403: "The key does not allow this.",
    404: "There is no such thing.",
    408: "The request took too long to arrive.",
    409: (
        "The store already has something else for this id: another value, or an arm "
        "that is not offered now."
    ),
    413: "The body is too large.",
    414: "The path is too long.",
    422: "A value is not allowed.",
    429: "The key has made too many calls; Retry-After says when to try again.",
    431: "The headers are too large.",
    503: (
        "The call is not possible now: the store fails (store_failed), the state is "
        "being read from the log (restoring), there are too many calls (busy), or "
        "the service is stopping (stopping)."
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
    """Return the OpenAPI document of these routes as JSON."""
    types: list[Any] = [ErrorAnswer]
    for route in routes:
        for one in (route.message, route.answer, route.slate_answer):
            if one is not None:
                types.append(one)
    schemas, components = msgspec.json.schema_components(
        types, ref_template="#/components/schemas/{name}"
    )
    references = dict(zip(types, schemas, strict=True))
    paths: dict[str, dict[str, object]] = {}
    for route in routes:
        fields: dict[str, JsonSchema] = {}
        if route.message is not None:
            fields = components[route.message.__name__]["properties"]
        operation = _operation(route, references, fields)
        paths.setdefault(route.path, {})[route.method.lower()] = operation
    for route in routes:  # GET messages are described as parameters instead
        if route.method == "GET" and route.message is not None:
            components.pop(route.message.__name__, None)
    whole = {
        "openapi": "3.1.0",
        "info": {
            "title": "oddsmith",
            "version": __version__,
            "description": "Decisions with logged propensities.",
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
    }
    return msgspec.json.encode(whole)


def _operation(
    route: "Route",
    references: Mapping[object, JsonSchema],
    fields: Mapping[str, JsonSchema],
) -> dict[str, object]:
    """Return the OpenAPI operation of a route. `fields` contains the schemas of the
    fields of the route's message."""
    responses: dict[str, dict[str, object]] = {}
    for status in route.statuses:
        responses[str(status)] = _answer(_REASONS[status], references[ErrorAnswer])
    if route.name == "ready":
        responses["503"] = _answer(_REASONS[503], references[route.answer])
    responses["200"] = _success(route, references)
    operation: dict[str, object] = {
        "operationId": route.name,
        "summary": route.summary,
        "responses": dict(sorted(responses.items())),
    }
    if route.scopes:
        operation["security"] = [{"key": []}]
    if route.method == "GET":
        operation["parameters"] = [
            _parameter(name, schema, route.path) for name, schema in fields.items()
        ]
        return operation
    content: dict[str, object] = {"schema": references[route.message]}
    if route.examples:
        content["examples"] = {
            name: {"value": body} for name, body in route.examples.items()
        }
    operation["requestBody"] = {
        "required": True,
        "content": {"application/json": content},
    }
    return operation


def _success(
    route: "Route", references: Mapping[object, JsonSchema]
) -> dict[str, object]:
    """Return the response with status 200."""
    if route.name == "metrics":
        return {
            "description": route.summary,
            "content": {"text/plain": {"schema": {"type": "string"}}},
        }
    answers: list[JsonSchema] = []
    for one in (route.answer, route.slate_answer):
        if one is not None:
            answers.append(references[one])
    schema: JsonSchema = {}
    if len(answers) == 1:
        schema = answers[0]
    elif answers:
        schema = {"anyOf": answers}
    response = _answer(route.summary, schema)
    if route.name == "decide":
        response["links"] = _LINKS
    return response


def _parameter(name: str, schema: JsonSchema, path: str) -> dict[str, object]:
    """Return the OpenAPI description of a query parameter. Null is removed from its
    types, because in a URL an optional field is omitted and never null."""
    is_in_path = f"{{{name}}}" in path
    for choice in schema.get("anyOf", ()):
        if choice.get("type") != "null":
            schema = choice
            break
    place = "path" if is_in_path else "query"
    return {
        "name": name,
        "in": place,
        "required": is_in_path,
        "schema": schema,
    }


def _answer(summary: str, schema: JsonSchema) -> dict[str, object]:
    return {"description": summary, "content": {"application/json": {"schema": schema}}}
