"""Connections: the limits of a server by number and by address, the rule for replacing
connections, and the flow of one."""

import resource
from asyncio import Transport
from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from uvicorn.protocols.http.flow_control import FlowControl

from oddsmith.server.http.access import is_loopback
from oddsmith.server.http.rates import network_of

__all__ = ["Connection", "Connections", "Flow", "room_for_connections"]

_FEWEST = 800
_MOST = 4_000
_OTHER_FILES = 4_096  # files reserved for stores and for Python itself


class Connection(Protocol):
    """A connection that can be closed to make room."""

    def drop(self) -> None:
        """Close at once."""


@dataclass(eq=False)
class Connections:
    """The connections of one server, at most `most`, and the rule by which they make
    room for new ones.

    A connection is *authenticated* if its last request had a key in force; without a
    key ring every request has one. At most three quarters of the places are for
    authenticated connections, which are never closed to make room. The other
    connections are in the order of their last answered request, or of their arrival if
    there is none: an unfinished request does not count. If all places are taken, a new
    connection replaces the first of them. So a new client always gets in and has the
    time of `entrance` further arrivals to send its key.

    One address (of IPv6 the network, /64) has at most `each` connections. Beyond that
    a new one replaces another of the same address, by the same order, and is refused
    if all of them are authenticated. Addresses that are `free`, unless given otherwise
    those of this machine, have no limit of their own. With `closing` each answer ends
    its connection, so that clients go elsewhere.
    """

    most: int = _FEWEST
    each: int = 200
    free: Callable[[str], bool] = is_loopback
    closing: bool = False
    # refusals below the application, by status
    refused: Counter[int] = field(default_factory=Counter)
    replaced: int = 0
    _networks: dict[Connection, str] = field(default_factory=dict)
    _by_network: Counter[str] = field(default_factory=Counter)
    _authenticated: set[Connection] = field(default_factory=set)
    # OrderedDict, because a dict scans its deleted entries to find the first one
    _others: OrderedDict[Connection, None] = field(default_factory=OrderedDict)

    @property
    def n_open(self) -> int:
        """The number of open connections."""
        return len(self._networks)

    @property
    def entrance(self) -> int:
        """Places that authenticated connections cannot take."""
        return max(1, self.most // 4)

    def admit(self, one: Connection, address: str) -> bool:
        """Give a new connection a place, if need be that of another one. Return False
        if its address has too many."""
        network = network_of(address)
        if self._by_network[network] >= self.each and not self.free(address):
            oldest = self._oldest_of(network)
            if oldest is None:
                return False
            self._replace(oldest)
        elif self.n_open >= self.most:
            self._replace(next(iter(self._others)))
        self._networks[one] = network
        self._by_network[network] += 1
        self._others[one] = None
        return True

    def recognize(self, one: Connection, *, authenticated: bool) -> bool:
        """Note whether a request has a key in force, before its body is read. Return
        False if there is no place for another authenticated connection."""
        was_authenticated = one in self._authenticated
        if one not in self._networks or was_authenticated == authenticated:
            return True
        if not authenticated:
            self._authenticated.remove(one)
            self._others[one] = None
            return True
        if len(self._authenticated) >= self.most - self.entrance:
            return False
        del self._others[one]
        self._authenticated.add(one)
        return True

    def note_answer(self, one: Connection) -> None:
        """Note that a request was answered."""
        if one in self._others:
            self._others.move_to_end(one)

    def leave(self, one: Connection) -> None:
        """Free the place of a connection that has ended."""
        network = self._networks.pop(one, None)
        if network is None:
            return
        self._authenticated.discard(one)
        self._others.pop(one, None)
        self._by_network[network] -= 1
        if self._by_network[network] == 0:
            del self._by_network[network]

    def _replace(self, one: Connection) -> None:
        self.replaced += 1
        self.leave(one)
        one.drop()

    def _oldest_of(self, network: str) -> Connection | None:
        """The connection of a network that makes room first."""
        for one in self._others:
            if self._networks[one] == network:
                return one
        return None


def room_for_connections() -> int:
    """The number of connections for the process's limit of files: 800 at the usual
    1,024, up to 4,000 with a higher limit."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files == resource.RLIM_INFINITY:
        return _MOST
    return min(_MOST, max(_FEWEST, files - _OTHER_FILES))


class Flow(FlowControl):
    """Reads on only once all received bytes are parsed: `rest` holds the other bytes,
    and one more piece from the socket."""

    def __init__(self, transport: Transport, rest: bytearray) -> None:
        super().__init__(transport)
        self._rest = rest

    def resume_reading(self) -> None:
        """The request is answered, or its body is read."""
        if self._rest:
            self.read_paused = False  # reading resumes after the rest is parsed
        else:
            super().resume_reading()
