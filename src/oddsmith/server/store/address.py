"""public_address: the place of a store as people may see it."""

import re

__all__ = ["public_address"]

_HOST = r"(?:[\w.-]+|\[[0-9A-Fa-f:.]+\])(?::\d+)?"
_ADDRESS = re.compile(
    r"(?P<scheme>postgres(?:ql)?://)(?:(?P<user>[\w.%+-]*)(?P<password>:[^@/?#]*)?@)?"
    rf"(?P<rest>(?:{_HOST}(?:,{_HOST})*)?(?:/[\w.%-]*)?)(?P<query>\?[^@#]*)?"
)


def public_address(place: str) -> str:
    """A path as it is; the address of a database without its password and its query,
    which may hold another.

    Of an address that is not written as it should be (a password with / or # in it)
    nothing is shown, for there is no telling where the password ends.

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
    secret = ":…" if parts["password"] else ""
    user = "" if parts["user"] is None else f"{parts['user']}{secret}@"
    return f"{parts['scheme']}{user}{parts['rest']}{'?…' if parts['query'] else ''}"
