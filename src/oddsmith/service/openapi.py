"""The OpenAPI 3.1 document, made from the table of operations and the types of messages."""

from functools import cache
from typing import Any

import msgspec

from oddsmith import __version__
from oddsmith.service.guard import SCOPES
from oddsmith.service.messages import KNOWN_ID, Failure
from oddsmith.service.operations import OPERATIONS, Operation

__all__ = ["document"]

_SAYS = {
    400: "The request is malformed.",
    401: "A key is missing or wrong.",
    403: "The key does not allow this.",
    404: "There is no such thing.",
    408: "The request took too long to arrive.",
    409: "Something else was said before.",
    413: "The body is too large.",
    414: "The path is too long.",
    422: "A value is not allowed.",
    431: "The headers are too large.",
    503: "Not now: the store fails, or states are being restored.",
    507: "The disk is full.",
}
_QUERY: dict[str, dict[str, Any]] = {
    "experiment": {"type": "string", "pattern": "^[a-z0-9_-]{1,64}$"},
    "explain": {"type": "boolean"},
}
_FOUND = "$response.body#/id"
_LINKS = {
    "reward": {"operationId": "reward", "requestBody": {"id": _FOUND, "reward": 1}},
    "activate": {"operationId": "activate", "requestBody": {"id": _FOUND}},
    "decision": {"operationId": "decision", "parameters": {"id": _FOUND}},
}
_ID = {"type": "string", "pattern": KNOWN_ID}


@cache
def document() -> bytes:
    """The document as JSON."""
    types = [Failure, *(t for o in OPERATIONS for t in (o.body, o.answer) if t is not None)]
    schemas, components = msgspec.json.schema_components(types, ref_template="#/components/schemas/{name}")
    ref = dict(zip(types, schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for operation in OPERATIONS:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _described(operation, ref)
    return msgspec.json.encode(
        {
            "openapi": "3.1.0",
            "info": {"title": "oddsmith", "version": __version__, "description": "Decisions with exact odds."},
            "paths": paths,
            "components": {
                "schemas": components,
                "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
            },
        }
    )


def _described(operation: Operation, ref: dict[Any, Any]) -> dict[str, Any]:
    responses = {str(status): _answer(_SAYS[status], ref[Failure]) for status in operation.statuses}
    if operation.name == "ready":
        responses["503"] = _answer(_SAYS[503], ref[operation.answer])
    responses["200"] = _answer(operation.says, ref[operation.answer] if operation.answer else {})
    if operation.name == "metrics":
        responses["200"]["content"] = {"text/plain": {"schema": {"type": "string"}}}
    described: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.says,
        "responses": dict(sorted(responses.items())),
    }
    if SCOPES[operation.method, operation.path]:
        described["security"] = [{"key": []}]
    parameters = [{"name": q, "in": "query", "required": False, "schema": _QUERY[q]} for q in operation.query]
    if "{id}" in operation.path:
        parameters.append({"name": "id", "in": "path", "required": True, "schema": _ID})
    if parameters:
        described["parameters"] = parameters
    if operation.body is not None:
        described["requestBody"] = {"required": True, "content": {"application/json": {"schema": ref[operation.body]}}}
    if operation.name == "decide":
        responses["200"]["links"] = _LINKS
    return described


def _answer(says: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"description": says, "content": {"application/json": {"schema": schema}}}
