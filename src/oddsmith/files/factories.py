"""Factories: functions of a user's module that create a policy or a bank of experts."""

import importlib
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from oddsmith.core.errors import InvalidInput
from oddsmith.core.experts import Experts
from oddsmith.core.policy import Policy
from oddsmith.files.build import BuildContext

__all__ = ["from_factory"]

_FACTORY = re.compile(r"(\w+(?:\.\w+)*):(\w+)")


def from_factory(build: BuildContext, factory: str, args: Any = None) -> Any:
    """Return the result of `factory(arms, **args)`. If the result has arms, they must
    be those of the policy file.

    If arms are passed in each call, `arms` is None, and the result must not name any.
    """
    if args is not None and not isinstance(args, dict):
        raise InvalidInput(f"args must be a table; got {args!r:.60}")
    make = _imported(factory, build.folder)
    try:
        made = make(build.arms, **(args or {}))
    except Exception as error:
        # Convert any exception of a user's function to an error of one sentence.
        raised = f"{factory} raised {type(error).__name__}: {error}"
        raise InvalidInput(f"factory must run without errors; {raised:.200}") from error
    names = made.arms if isinstance(made, Experts | Policy) else None
    if names is not None and build.arms is None:
        raise InvalidInput(
            "factory must create it without arms, because arms are passed in each "
            f"call; got arms {list(names)}"
        )
    if names is not None and build.arms is not None and tuple(names) != build.arms:
        raise InvalidInput(
            f"factory must keep the arms {list(build.arms)} in this order; got "
            f"{list(names)}"
        )
    return made


def _imported(text: str, folder: Path) -> Callable[..., Any]:
    """Return the function module:name. The file's folder is searched last, so that its
    files do not hide an installed module."""
    match = _FACTORY.fullmatch(text) if isinstance(text, str) else None
    if not match:
        raise InvalidInput(f"factory must be module:name; got {text!r:.60}")
    module, name = match.groups()
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
        importlib.invalidate_caches()
    try:
        loaded = importlib.import_module(module)
    except Exception as error:
        # Convert any exception of a user's module to an error of one sentence.
        raised = f"{type(error).__name__}: {error}"
        raise InvalidInput(
            f"factory must name an importable module; got {text!r}, {raised:.160}"
        ) from error
    base, source = (
        folder.joinpath(*module.split(".")),
        getattr(loaded, "__file__", None),
    )
    beside = [
        path
        for path in (base.with_suffix(".py"), base / "__init__.py")
        if path.exists()
    ]
    if beside and (source is None or Path(source).resolve() not in beside):
        taken = f"{module} is {source or 'built in'} in this process"
        raise InvalidInput(
            f"factory must name a module that no other module hides; {taken}"
        )
    factory = getattr(loaded, name, None)
    if not callable(factory):
        raise InvalidInput(
            f"factory must name a function; {module} has "
            f"{'no ' if factory is None else 'another '}{name}"
        )
    return factory  # type: ignore[no-any-return]
