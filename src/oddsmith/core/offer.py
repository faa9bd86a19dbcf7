"""Offer: a context with the arms to choose from and their features."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from oddsmith.core.errors import InvalidInput

__all__ = ["AnyOffer", "Offer", "OfferBatch"]


@dataclass(frozen=True, eq=False, slots=True)
class Offer:
    """One context shared by all arms, the arms' distinct names, and the features of
    each arm by name.

    `features` are dicts or arrays of numbers, all of one kind, None for an arm without
    features; or None. A record of a decision may contain only those of the drawn arm.

    >>> known = {"article-17": {"age_h": 2.0}, "article-18": {"age_h": 0.5}}
    >>> offer = Offer({"hour": 9}, ("article-17", "article-18"), known)
    >>> offer.arms, offer.features_of("article-18")
    (('article-17', 'article-18'), {'age_h': 0.5})
    """

    context: Any
    arms: tuple[str, ...]
    features: Mapping[str, Any] | None = None

    @property
    def lead(self) -> tuple[int, ...]:
        """Return the batch axes: none."""
        return ()

    @property
    def offers(self) -> "tuple[Offer, ...]":
        """Return this offer as a batch of one."""
        return (self,)

    def features_of(self, arm: str) -> Any:
        """Return the features of an arm; raise if the record only has those of the
        drawn arm."""
        if self.features is None:
            return None
        if arm not in self.features:
            raise InvalidInput(
                "features of all arms are needed; this record lacks those of "
                f"{arm!r:.40}"
            )
        return self.features[arm]

    def only(self, arm: int) -> "Offer":
        """Return an offer of this arm only."""
        name = self.arms[arm]
        features = None
        if self.features is not None:
            features = {name: self.features_of(name)}
        return Offer(self.context, (name,), features)


@dataclass(frozen=True, eq=False, slots=True)
class OfferBatch:
    """A batch of offers with equally many arms."""

    offers: tuple[Offer, ...]

    def __post_init__(self) -> None:
        sizes = {len(offer.arms) for offer in self.offers}
        if len(sizes) != 1:
            raise InvalidInput(
                "offers of a batch must have the same number of arms: decide them in "
                "groups of one size"
            )

    @property
    def lead(self) -> tuple[int, ...]:
        """Return the batch axes: the number of offers."""
        return (len(self.offers),)

    @property
    def arms(self) -> tuple[str, ...]:
        """Return the arm names of the first offer; every other offer has equally
        many."""
        return self.offers[0].arms

    @property
    def context(self) -> list[Any]:
        """Return the context of each offer."""
        return [offer.context for offer in self.offers]


AnyOffer: TypeAlias = Offer | OfferBatch
"""One offer or a batch of them, which replaces the context if arms are passed in the
call.
"""
