"""Connections: limit their number in total and by address, choose which connection is
closed to make room, and control the flow of data."""

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
_OTHER_FILES = 4_096  # number of open files reserved for stores and for Python itself


class Connection(Protocol):
    """A connection that the server can close to make room for another."""

    def drop(self) -> None:
        """Close the connection immediately."""


@dataclass(eq=False)
class Connections:
    """The connections of one server, of which there are at most `most`, and the rule
    that chooses connections to close when new ones arrive.

    A connection is *authenticated* if its last request had a valid key; in a service
    without keys, every request counts as authenticated. Authenticated connections can
    take at most three quarters of the places, and are never closed to make room.
    Connections that are not authenticated are ordered by the time of their last answer,
    or by their arrival if there was no answer; unfinished requests do not count. If all
    places are taken, a new connection replaces the first connection in this order. So a
    new client always gets a place, and has time to send its key until `entrance`
    further clients have arrived.

    One address (for IPv6: the network, /64) can have at most `each` connections. If it
    opens more, the new connection replaces another one of the same address, in the same
    order. It is refused if all of them are authenticated. Addresses in `free` have no
    limit of their own; by default these are the addresses of this machine. With
    `closing`, each answer ends its connection, so that clients reconnect to another
    server.
    """

    most: int = _FEWEST
    each: int = 200
    free: Callable[[str], bool] = is_loopback
    closing: bool = False
    # number of requests and connections that were refused before they reached the
    # application, by status
    refused: Counter[int] = field(default_factory=Counter)
    replaced: int = 0
    _networks: dict[Connection, str] = field(default_factory=dict)
    _by_network: Counter[str] = field(default_factory=Counter)
    _authenticated: set[Connection] = field(default_factory=set)
    # OrderedDict, because a dict scans its deleted entries to find the first one
    _others: OrderedDict[Connection, None] = field(default_factory=OrderedDict)

    @property
    def n_open(self) -> int:
        """Number of open connections."""
        return len(self._networks)

    @property
    def entrance(self) -> int:
        """Number of places that are reserved for connections without a valid key."""
        return max(1, self.most // 4)

    def admit(self, one: Connection, address: str) -> bool:
        """Give a new connection a place, and close another one if necessary. Return
        False if its address has too many connections."""
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
        """Record whether a request has a valid key, before its body is read.

        Return False if there is no place for another authenticated connection.
        """
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
        """Record that a request of this connection was answered."""
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
        """Return the first connection of a network to close when room is needed."""
        for one in self._others:
            if self._networks[one] == network:
                return one
        return None


def room_for_connections() -> int:
    """Return the number of connections that fit into the process's limit on open files:
    800 for the usual limit of 1,024, up to 4,000 for a higher one."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files == resource.RLIM_INFINITY:
        return _MOST
    return min(_MOST, max(_FEWEST, files - _OTHER_FILES))


class Flow(FlowControl):
    """Flow control that resumes reading only after all received bytes are parsed.

    `rest` contains the bytes that are not parsed yet, plus at most one more piece from
    the socket.
    """

    def __init__(self, transport: Transport, rest: bytearray) -> None:
        super().__init__(transport)
        self._rest = rest

    def resume_reading(self) -> None:
        """Resume after a request was answered or its body was read."""
        if self._rest:
            self.read_paused = False  # reading resumes after the rest is parsed
        else:
            super().resume_reading()
