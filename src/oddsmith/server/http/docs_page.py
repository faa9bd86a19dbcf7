"""docs_page: the API for people, one page of HTML made from the table of routes, with a
form for each call."""

import json
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


class _Told(NamedTuple):
    """What a page says of a route."""

    route: "Route"
    operation: dict[str, Any]
    schemas: dict[str, JsonSchema]


def docs_page(routes: "Sequence[Route]") -> bytes:
    """The page of these routes."""
    whole = msgspec.json.decode(document(routes))
    schemas = whole["components"]["schemas"]
    told = [
        _Told(route, whole["paths"][route.path][route.method.lower()], schemas)
        for route in routes
    ]
    rows = [(_link(route), escape(route.summary), _scopes(route)) for route in routes]
    overview = _table(("route", "what it does", "scope of the key"), rows, "All routes")
    sections = "\n".join(_section(one) for one in told)
    return _PAGE.format(
        version=escape(__version__), overview=overview, routes=sections
    ).encode()


def _section(told: _Told) -> str:
    """All about one route."""
    route, name = told.route, told.route.name
    parts = [f'<div class="head"><h2 id="{name}-h"><code>{_place(route)}</code></h2>']
    parts.append(
        f'<span class="soft small">{_scopes(route)}</span></div><p '
        f'class="lead">{escape(route.summary)}</p>'
    )
    if route.message is not None:
        parts.append(f'<p class="says">{_sentences(route.message)}</p>')
    taken = _taken(told)
    if taken:
        heads = ("field", "what it is", "unless given")
        rows = [
            (f"<code>{escape(f.name)}</code>", _about(f), escape(f.default))
            for f in taken
        ]
        parts.append(f"<h3>It takes</h3>{_table(heads, rows, f'What {name} takes')}")
    parts.append(f"<h3>Example</h3><pre>{_curl(route)}</pre>")
    parts += [
        _answer(told, kind)
        for kind in (route.answer, route.slate_answer)
        if kind is not None
    ]
    refusals = [
        (status, escape(one["description"]))
        for status, one in told.operation["responses"].items()
    ]
    table = _table(
        ("status", "meaning"),
        [row for row in refusals if row[0] != "200"],
        f"Refusals of {name}",
    )
    parts.append(f"<details><summary>Refusals</summary>{table}</details>")
    parts.append(f"<details><summary>Try it</summary>{_form(told)}</details>")
    return (
        f'    <section id="{name}" aria-labelledby="{name}-h">\n{"".join(parts)}\n'
        "    </section>"
    )


def _answer(told: _Told, kind: Any) -> str:
    """What a route answers, of one kind."""
    heading = (
        "With slots it answers" if kind is told.route.slate_answer else "It answers"
    )
    schema = {"$ref": f"#/components/schemas/{kind.__name__}"}
    given = [field._replace(needed=False) for field in fields_of(schema, told.schemas)]
    cells = [(f"<code>{escape(field.name)}</code>", _about(field)) for field in given]
    table = _table(
        ("field", "what it is"), cells, f"{kind.__name__} of {told.route.name}"
    )
    return f'<h3>{heading}</h3><p class="says">{_sentences(kind)}</p>{table}'


def _taken(told: _Told) -> list[Field]:
    """The fields of a query or of a body."""
    if told.route.message is None:
        return []
    if told.route.method == "GET":
        parameters = told.operation.get("parameters", ())
        return [
            Field.of(one["name"], one["schema"], told.schemas, needed=one["required"])
            for one in parameters
        ]
    body = told.operation["requestBody"]["content"]["application/json"]["schema"]
    return fields_of(body, told.schemas)


def _form(told: _Told) -> str:
    """A form that makes the call; a script of ours sends it and shows the answer."""
    route, name = told.route, told.route.name
    head = (
        f'<form class="try" data-method="{route.method}" '
        f'data-path="{escape(route.path)}">'
    )
    if route.method == "POST":
        body = next(iter(route.examples.values()), {})
        label = f'<label for="{name}-body">Body</label>'
        text = escape(json.dumps(body, indent=2))
        inner = (
            f'{label}<textarea id="{name}-body" rows="8" '
            f'spellcheck="false">{text}</textarea>'
        )
        inner += (
            '<p class="small look">This is written into the log of the experiment.</p>'
        )
    else:
        inner = '<div class="row">' + "".join(_inputs(told)) + "</div>"
    shown = (
        '<p class="small" role="status"></p><pre class="answer" tabindex="0" '
        "hidden></pre>"
    )
    return f"{head}{inner}<button>Send</button></form>{shown}"


def _inputs(told: _Told) -> Iterator[str]:
    """An input, or a list to choose from, for each parameter."""
    filled = told.route.examples
    for one in told.operation.get("parameters", ()):
        name, schema = escape(one["name"]), one["schema"]
        value = str(filled.get(one["name"], ""))
        choices = schema.get("enum") or (
            ["true", "false"] if schema.get("type") == "boolean" else None
        )
        if choices is None:
            hint = escape(words_of(schema, told.schemas))
            field = (
                f'<input name="{name}" value="{escape(value)}" placeholder="{hint}" '
                'spellcheck="false">'
            )
        else:
            options = "".join(
                f"<option{' selected' * (c == value)}>{escape(c)}</option>"
                for c in ["", *choices]
            )
            field = f'<select name="{name}">{options}</select>'
        yield f"<label>{name} {field}</label>"


def _curl(route: "Route") -> str:
    """The call as a command, with this service's address and a place for a key."""
    key = " \\\n  -H 'Authorization: Bearer KEY'" if route.scopes else ""
    if route.method == "POST":
        body = next(iter(route.examples.values()), {})
        sent = escape(json.dumps(body), quote=False)
        return (
            f"curl {_HOST}{route.path}{key} \\\n  -H 'Content-Type: application/json' "
            f"-d '{sent}'"
        )
    values = dict(route.examples)
    path = route.path
    for name in [name for name in values if f"{{{name}}}" in path]:
        path = path.replace(f"{{{name}}}", quote(str(values.pop(name)), safe=""))
    query = f"?{urlencode(values)}" if values else ""
    return f"curl '{_HOST}{escape(path + query)}'{key}"


def _place(route: "Route") -> str:
    return escape(f"{route.method} {route.path}")


def _link(route: "Route") -> str:
    return f'<a href="#{route.name}"><code>{_place(route)}</code></a>'


def _scopes(route: "Route") -> str:
    if not route.scopes:
        return "no key is needed"
    return escape(
        "scope "
        f"{' or '.join(sorted(route.scopes | {'admin'}, key=lambda one: (one == 'admin', one)))}"
    )


def _sentences(kind: Any) -> str:
    """What a type of message says of itself; names in it are code."""
    parts = escape(" ".join((kind.__doc__ or "").split()), quote=False).split("`")
    return "".join(
        f"<code>{part}</code>" if i % 2 else part for i, part in enumerate(parts)
    )


def _about(field: Field) -> str:
    needed = " <strong>Needed.</strong>" if field.needed else ""
    about = (
        f'<br><span class="soft">{escape(field.about)}</span>' if field.about else ""
    )
    return f"{escape(field.kind)}{needed}{about}"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]], caption: str) -> str:
    """A table of cells that are HTML already; the first is the head of its row."""
    head = "".join(f'<th scope="col">{one}</th>' for one in heads)
    body = "".join(
        (
            "<tr><th "
            f'scope="row">{first}</th>{"".join(f"<td>{cell}</td>" for cell in more)}</'
            "tr>"
        )
        for first, *more in rows
    )
    title = f'<caption class="unseen">{escape(caption)}</caption>'
    return f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
