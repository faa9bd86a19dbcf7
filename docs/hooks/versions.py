"""A hook of mkdocs: the list of versions in the header of a site that mike publishes;
others have none."""

import os
from typing import Any

__all__ = ["on_config"]


def on_config(config: Any, **_: Any) -> Any:
    """Called by mkdocs first. mike names the version in the environment while it
    builds."""
    if os.environ.get("MIKE_DOCS_VERSION"):
        config.extra["version"] = {"provider": "mike", "alias": True}
    return config
