"""Erased: what stands in the place of a context that a store does not have any more."""

from typing import NoReturn

from oddsmith.errors import StoreFailed

__all__ = ["ContextErased", "Erased"]


class ContextErased(StoreFailed):
    """A policy that learns from contexts was to be folded over one that was erased."""


class Erased:
    """The context of a decision after it was erased: to read it is refused; fixed experts never read it."""

    def _refuse(self, *_: object) -> NoReturn:
        learns = "a policy that learns from contexts"
        raise ContextErased(f"contexts must be there for {learns}; this one was erased, and no snapshot is later")

    __array__ = __contains__ = __getitem__ = __iter__ = __len__ = __float__ = __index__ = _refuse

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)  # so that it can be copied
        self._refuse()

    def __repr__(self) -> str:
        return "Erased()"
