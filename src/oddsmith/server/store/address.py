"""public_address: format the place of a store without passwords."""

import re

__all__ = ["public_address"]

_HOST = r"(?:[\w.-]+|\[[0-9A-Fa-f:.]+\])(?::\d+)?"
_ADDRESS = re.compile(
    r"(?P<scheme>postgres(?:ql)?://)(?:(?P<user>[\w.%+-]*)(?P<password>:[^@/?#]*)?@)?"
    rf"(?P<rest>(?:{_HOST}(?:,{_HOST})*)?(?:/[\w.%-]*)?)(?P<query>\?[^@#]*)?"
)


def public_address(place: str) -> str:
    """Return a path, or the address of a database without its password and query.

    A malformed address (a password with / or # in it) is hidden completely, because the
    end of the password is unknown.

    >>> print(
    ...     public_address(
    ...         "postgresql://ann:secret@db.internal:5432/news?sslpassword=secret"
    ...     )
    ... )
    postgresql://ann:…@db.internal:5432/news?…
    >>> print(
    ...     public_address("postgresql://ann:sec#ret@db/news"),
    ...     public_address("news.sqlite"),
    ... )
    postgresql://… news.sqlite
    """
    if "://" not in place:
        return place
    parts = _ADDRESS.fullmatch(place)
    if parts is None:
        return f"{place.partition('://')[0]}://…"
    address = parts["scheme"]
    if parts["user"] is not None:
        secret = ":…" if parts["password"] else ""
        address += f"{parts['user']}{secret}@"
    query = "?…" if parts["query"] else ""
    return f"{address}{parts['rest']}{query}"
