"""Connections: how many a server has, from where, what one more may ask for, and when
more is read of one."""

from asyncio import Transport
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias

from uvicorn.protocols.http.flow_control import FlowControl

from oddsmith.server.http.access import is_loopback
from oddsmith.server.http.rates import network_of

__all__ = ["Admission", "Connections", "Flow", "Spare"]

Admission: TypeAlias = Literal["all", "health", "none"]


class Spare(Protocol):
    """A connection that is there for questions about health alone."""

    def drop(self) -> None:
        """Close at once."""


@dataclass
class Connections:
    """The connections of one server; when `most` are there, `spare` more may ask
    whether it lives.

    One address (of IPv6 the network, /64) has at most `each` of them: with fewer than
    `most`, a single stranger cannot take them all. Addresses that are `free`, unless
    told otherwise those of this machine, have no limit of their own. With `closing`
    each answer ends its connection, so that clients go elsewhere.
    """

    most: int = 800  # a process has some 1,000 open files unless its limit is raised
    each: int = 200
    spare: int = 16
    free: Callable[[str], bool] = is_loopback
    closing: bool = False
    # below the application, by status
    refused: Counter[int] = field(default_factory=Counter)
    _by_network: Counter[str] = field(default_factory=Counter)
    _taken: int = 0
    _spares: dict[Spare, None] = field(default_factory=dict)

    @property
    def taken(self) -> int:
        """How many there are, without those that are kept for health."""
        return self._taken

    def admit(self, address: str) -> Admission:
        """What a new connection from there may ask for; it is counted until it leaves,
        unless it is "none"."""
        network = network_of(address)
        if self._by_network[network] >= self.each and not self.free(address):
            return "none"
        self._by_network[network] += 1
        if self._taken >= self.most:
            return "health"
        self._taken += 1
        return "all"

    def reserve(self, one: Spare) -> None:
        """Keep a connection for health; the one that was there longest makes room, so
        that the newest is heard."""
        if len(self._spares) >= self.spare:
            oldest = next(iter(self._spares))
            del self._spares[oldest]
            oldest.drop()
        self._spares[one] = None

    def leave(self, one: Spare, address: str, admission: Admission) -> None:
        """A connection has ended."""
        network = network_of(address)
        self._spares.pop(one, None)
        self._taken -= admission == "all"
        self._by_network[network] -= 1
        if self._by_network[network] <= 0:
            del self._by_network[network]


class Flow(FlowControl):
    """Reads on only when all that has come is parsed: `rest` holds what is not, and one
    more piece from the socket."""

    def __init__(self, transport: Transport, rest: bytearray) -> None:
        super().__init__(transport)
        self._rest = rest

    def resume_reading(self) -> None:
        """What was asked for is answered, or its body taken."""
        if self._rest:
            self.read_paused = False  # the one who parses the last of it reads on
        else:
            super().resume_reading()
