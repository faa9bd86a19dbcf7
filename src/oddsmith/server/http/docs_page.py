"""docs_page: generate the HTML page that documents the API from the table of routes.
The page has a form for each call."""

import json
import re
from collections.abc import Iterator, Sequence
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote, urlencode

import msgspec

from oddsmith import __version__
from oddsmith.server.http.openapi import JsonSchema, document
from oddsmith.server.http.schema_words import Field, fields_of, words_of

__all__ = ["docs_page"]

if TYPE_CHECKING:
    from oddsmith.server.http.routes.route import Route


_HOST = '<span class="origin">http://127.0.0.1:8000</span>'
_PAGE = """<!doctype html>
<html lang="en">
<head>
  <meta charset="utf-8">
  <meta name="viewport" content="width=device-width, initial-scale=1">
  <meta name="color-scheme" content="light dark">
  <title>oddsmith: the API for people</title>
  <link rel="icon" href="/dashboard/icon.svg" type="image/svg+xml">
  <link rel="stylesheet" href="/dashboard/app.css">
  <link rel="stylesheet" href="/dashboard/docs.css">
  <script type="module" src="/dashboard/docs.js"></script>
</head>
<body>
  <a class="skip" href="#routes">Skip to the routes</a>
  <header class="bar"><div class="row">
    <a class="brand" href="/dashboard/"><img src="/dashboard/icon.svg" alt="">oddsmith</a>
    <form id="key-form" class="row">
      <label>Key <input id="key-text" type="password" autocomplete="off" spellcheck="false" size="28"></label>
      <span class="small soft">sent as <code>Authorization: Bearer</code>; it stays in this tab</span>
    </form>
  </div></header>
  <main>
    <div class="head"><h1>The API for people</h1><span class="soft small">oddsmith {version};
      for programs: <a href="/openapi.json">openapi.json</a></span></div>
    <section id="routes" aria-labelledby="routes-h" tabindex="-1">
      <h2 id="routes-h">Routes</h2>
      <p class="says">Requests and answers are JSON. Where there is more than one experiment, say which. A refusal is
      <code>{{"error": "one sentence", "code": "conflict"}}</code>, with a status that is listed below each route.</p>
      <div class="scroll tall" tabindex="0" role="group" aria-label="All routes">{overview}</div>
    </section>
{routes}
  </main>
</body>
</html>
"""


class _Entry(NamedTuple):
    """A route, the route's operation in the OpenAPI document, and the schemas of the
    document."""

    route: "Route"
    operation: dict[str, Any]
    schemas: dict[str, JsonSchema]


def docs_page(routes: "Sequence[Route]") -> bytes:
    """Return the HTML page that documents these routes."""
    openapi = msgspec.json.decode(document(routes))
    schemas = openapi["components"]["schemas"]
    rows: list[Sequence[str]] = []
    sections: list[str] = []
    for route in routes:
        rows.append((_link(route), escape(route.summary), _scopes(route)))
        operation = openapi["paths"][route.path][route.method.lower()]
        sections.append(_section(_Entry(route, operation, schemas)))
    heads = ("route", "what it does", "scope of the key")
    page = _PAGE.format(
        version=escape(__version__),
        overview=_table(heads, rows, "All routes"),
        routes="\n".join(sections),
    )
    return page.encode()


def _section(entry: _Entry) -> str:
    """Return the section about one route as HTML."""
    route = entry.route
    name = route.name
    parts = [
        f'<div class="head"><h2 id="{name}-h"><code>{_title(route)}</code></h2>',
        f'<span class="soft small">{_scopes(route)}</span></div>',
        f'<p class="lead">{escape(route.summary)}</p>',
    ]
    if route.message is not None:
        parts.append(f'<p class="says">{_sentences(route.message)}</p>')
    fields = _request_fields(entry)
    if fields:
        heads = ("field", "what it is", "unless given")
        rows = [
            (f"<code>{escape(field.name)}</code>", _about(field), escape(field.default))
            for field in fields
        ]
        table = _table(heads, rows, f"What {name} takes")
        parts.append(f"<h3>It takes</h3>{table}")
    parts.append(f"<h3>Example</h3><pre>{_curl(route)}</pre>")
    if route.answer is not None:
        parts.append(_answer(entry, route.answer, "It answers"))
    if route.slate_answer is not None:
        parts.append(_answer(entry, route.slate_answer, "With slots it answers"))
    parts.append(f"<details><summary>Refusals</summary>{_refusals(entry)}</details>")
    parts.append(f"<details><summary>Try it</summary>{_form(entry)}</details>")
    content = "".join(parts)
    return (
        f'    <section id="{name}" aria-labelledby="{name}-h">\n{content}\n'
        "    </section>"
    )


def _refusals(entry: _Entry) -> str:
    """Return the HTML table of error statuses."""
    rows: list[tuple[str, str]] = []
    for status, response in entry.operation["responses"].items():
        if status != "200":
            rows.append((status, escape(response["description"])))
    return _table(("status", "meaning"), rows, f"Refusals of {entry.route.name}")


def _answer(entry: _Entry, kind: Any, heading: str) -> str:
    """Return the description of an answer of this type as HTML."""
    schema = {"$ref": f"#/components/schemas/{kind.__name__}"}
    rows: list[tuple[str, str]] = []
    for field in fields_of(schema, entry.schemas):
        about = _about(field._replace(needed=False))
        rows.append((f"<code>{escape(field.name)}</code>", about))
    caption = f"{kind.__name__} of {entry.route.name}"
    table = _table(("field", "what it is"), rows, caption)
    return f'<h3>{heading}</h3><p class="says">{_sentences(kind)}</p>{table}'


def _request_fields(entry: _Entry) -> list[Field]:
    """Return the fields of the route's query or body."""
    if entry.route.message is None:
        return []
    if entry.route.method == "GET":
        parameters = entry.operation.get("parameters", ())
        return [
            Field.of(one["name"], one["schema"], entry.schemas, needed=one["required"])
            for one in parameters
        ]
    content = entry.operation["requestBody"]["content"]
    return fields_of(content["application/json"]["schema"], entry.schemas)


def _form(entry: _Entry) -> str:
    """Return the HTML form of a call. A script of the page sends the call and shows the
    answer."""
    route = entry.route
    name = route.name
    path = escape(route.path)
    head = f'<form class="try" data-method="{route.method}" data-path="{path}">'
    if route.method == "POST":
        text = escape(json.dumps(_example_body(route), indent=2))
        inputs = (
            f'<label for="{name}-body">Body</label>'
            f'<textarea id="{name}-body" rows="8" spellcheck="false">{text}</textarea>'
            '<p class="small look">This is written into the log of the experiment.</p>'
        )
    else:
        inputs = f'<div class="row">{"".join(_inputs(entry))}</div>'
    answer = (
        '<p class="small" role="status"></p><pre class="answer" tabindex="0" '
        "hidden></pre>"
    )
    return f"{head}{inputs}<button>Send</button></form>{answer}"


def _example_body(route: "Route") -> object:
    """Return the first example body of a POST route."""
    return next(iter(route.examples.values()), {})


def _inputs(entry: _Entry) -> Iterator[str]:
    """Yield the HTML of an input, or of a list of choices, for each parameter."""
    for one in entry.operation.get("parameters", ()):
        name = escape(one["name"])
        schema = one["schema"]
        value = str(entry.route.examples.get(one["name"], ""))
        choices = schema.get("enum")
        if schema.get("type") == "boolean":
            choices = ["true", "false"]
        if choices:
            options: list[str] = []
            for choice in ["", *choices]:
                selected = " selected" if choice == value else ""
                options.append(f"<option{selected}>{escape(choice)}</option>")
            field = f'<select name="{name}">{"".join(options)}</select>'
        else:
            hint = escape(words_of(schema, entry.schemas))
            field = (
                f'<input name="{name}" value="{escape(value)}" placeholder="{hint}" '
                'spellcheck="false">'
            )
        yield f"<label>{name} {field}</label>"


def _curl(route: "Route") -> str:
    """Return the call as a curl command, with this service's address and a placeholder
    for the key."""
    key = " \\\n  -H 'Authorization: Bearer KEY'" if route.scopes else ""
    if route.method == "POST":
        body = escape(json.dumps(_example_body(route)), quote=False)
        return (
            f"curl {_HOST}{route.path}{key} \\\n  -H 'Content-Type: application/json' "
            f"-d '{body}'"
        )
    path = route.path
    query: dict[str, object] = {}
    for name, value in route.examples.items():
        if f"{{{name}}}" in path:
            path = path.replace(f"{{{name}}}", quote(str(value), safe=""))
        else:
            query[name] = value
    if query:
        path += f"?{urlencode(query)}"
    return f"curl '{_HOST}{escape(path)}'{key}"


def _title(route: "Route") -> str:
    return escape(f"{route.method} {route.path}")


def _link(route: "Route") -> str:
    return f'<a href="#{route.name}"><code>{_title(route)}</code></a>'


def _scopes(route: "Route") -> str:
    if not route.scopes:
        return "no key is needed"
    scopes = [*sorted(route.scopes - {"admin"}), "admin"]
    return escape(f"scope {' or '.join(scopes)}")


def _sentences(kind: Any) -> str:
    """Return the docstring of a message type as HTML; names in backticks become
    code."""
    text = " ".join((kind.__doc__ or "").split())
    html = escape(text, quote=False)
    return re.sub("`([^`]*)`", r"<code>\1</code>", html)


def _about(field: Field) -> str:
    """Return the type of a field, whether it is required, and its description."""
    html = escape(field.kind)
    if field.needed:
        html += " <strong>Needed.</strong>"
    if field.about:
        html += f'<br><span class="soft">{escape(field.about)}</span>'
    return html


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]], caption: str) -> str:
    """Return an HTML table. The first cell of each row is a header cell."""
    head = "".join(f'<th scope="col">{one}</th>' for one in heads)
    lines: list[str] = []
    for first, *rest in rows:
        cells = "".join(f"<td>{cell}</td>" for cell in rest)
        lines.append(f'<tr><th scope="row">{first}</th>{cells}</tr>')
    title = f'<caption class="unseen">{escape(caption)}</caption>'
    body = "".join(lines)
    return f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
