"""A hook of mkdocs: a name for the dialog of the search, which the theme lacks:
screen readers announce it."""

from typing import Any

__all__ = ["on_post_page"]

_DIALOG = 'data-md-component="search" role="dialog"'


def on_post_page(output: str, **_: Any) -> str:
    """Called by mkdocs with every page as it is written."""
    return output.replace(_DIALOG, f'{_DIALOG} aria-label="Search"')
