"""Offer: a context, the names of the arms to choose from, and what is known of each."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from oddsmith.core.errors import InvalidInput

__all__ = ["AnyOffer", "Offer", "OfferBatch"]


@dataclass(frozen=True, eq=False, slots=True)
class Offer:
    """One context that holds for all arms, the arms' distinct names, and what is known
    of each, by name.

    `features` are dicts or arrays of numbers, all of one kind, None for an arm without
    features; or None. A record of a decision may hold those of the drawn arm
    alone.

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
        """The batch axes: none."""
        return ()

    @property
    def offers(self) -> "tuple[Offer, ...]":
        """This offer alone, as a batch has many."""
        return (self,)

    def features_of(self, arm: str) -> Any:
        """The features of an arm; refused where the record has those of the drawn arm
        alone."""
        if self.features is None:
            return None
        if arm not in self.features:
            raise InvalidInput(
                "features of all arms are needed here; this record has none of "
                f"{arm!r:.40}"
            )
        return self.features[arm]

    def only(self, arm: int) -> "Offer":
        """The offer of one arm alone."""
        name = self.arms[arm]
        features = None
        if self.features is not None:
            features = {name: self.features_of(name)}
        return Offer(self.context, (name,), features)


@dataclass(frozen=True, eq=False, slots=True)
class OfferBatch:
    """Offers of equally many arms, side by side."""

    offers: tuple[Offer, ...]

    def __post_init__(self) -> None:
        sizes = {len(offer.arms) for offer in self.offers}
        if len(sizes) != 1:
            raise InvalidInput(
                "offers of a batch must have equally many arms: decide them by groups "
                "of one size"
            )

    @property
    def lead(self) -> tuple[int, ...]:
        """The batch axes: how many offers there are."""
        return (len(self.offers),)

    @property
    def arms(self) -> tuple[str, ...]:
        """The names of the first offer's arms: as many as those of every other."""
        return self.offers[0].arms

    @property
    def context(self) -> list[Any]:
        """The contexts, one for each offer."""
        return [offer.context for offer in self.offers]


AnyOffer: TypeAlias = Offer | OfferBatch
"""One offer, or a batch of them: what a context is where arms come with the call."""
