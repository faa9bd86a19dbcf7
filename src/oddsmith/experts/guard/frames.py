"""Frames: a page of JSON and perhaps arrays, sent over a socket with their length in
front."""

import json
import math
import socket
import struct
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from oddsmith.core.arrays import Array
from oddsmith.core.exact_json import Json

__all__ = ["LARGEST", "receive", "send"]

LARGEST = 64 * 2**20
"""Bytes in one frame; a frame that announces more is refused."""
_LENGTHS = struct.Struct("!II")  # of the page, and of the arrays


def send(
    link: socket.socket, page: dict[str, Json], arrays: Sequence[Array] = ()
) -> None:
    """Send a page, and float64 arrays of one shape, which is added to the page."""
    body = b"".join(
        np.ascontiguousarray(array, dtype=np.float64).tobytes() for array in arrays
    )
    head = json.dumps(
        page | ({"shape": list(arrays[0].shape)} if arrays else {})
    ).encode()
    link.sendall(_LENGTHS.pack(len(head), len(body)) + head + body)


def receive(
    link: socket.socket, deadline: float = math.inf
) -> tuple[dict[str, Any], list[Array]]:
    """The page and the arrays that `send` sent, by `deadline` on the monotonic clock
    (else TimeoutError).

    EOFError at the end, ValueError for what is no frame.

    >>> one, other = socket.socketpair()
    >>> send(one, {"name": "net"}, [np.zeros((1, 2))])
    >>> receive(other)
    ({'name': 'net', 'shape': [1, 2]}, [array([[0., 0.]])])
    >>> one.close(), other.close()
    (None, None)
    """
    sizes = _LENGTHS.unpack(_exactly(link, _LENGTHS.size, deadline))
    if sum(sizes) > LARGEST:
        raise ValueError(f"a frame must have at most {LARGEST} bytes; got {sum(sizes)}")
    content = _exactly(link, sum(sizes), deadline)
    page: dict[str, Any] = json.loads(content[: sizes[0]])
    if not sizes[1]:
        return page, []
    return page, list(
        np.frombuffer(content, dtype=np.float64, offset=sizes[0]).reshape(
            -1, *page["shape"]
        )
    )


def _exactly(link: socket.socket, n: int, deadline: float) -> bytearray:
    content = bytearray(n)
    view = memoryview(content)
    done = 0
    while done < n:
        link.settimeout(
            None if deadline == math.inf else max(1e-6, deadline - time.monotonic())
        )
        got = link.recv_into(view[done:])
        if not got:
            raise EOFError("the other end is closed")
        done += got
    return content
