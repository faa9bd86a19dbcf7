"""Frames: messages over a socket with JSON, optional arrays and a length prefix."""

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
"""Maximum bytes per frame; a frame with a larger length prefix is rejected."""
_LENGTHS = struct.Struct("!II")  # lengths of the JSON text and of the arrays


def send(
    link: socket.socket, page: dict[str, Json], arrays: Sequence[Array] = ()
) -> None:
    """Send JSON and float64 arrays of one common shape, which is added to the JSON."""
    body = b""
    if arrays:
        page = page | {"shape": list(arrays[0].shape)}
        floats = [np.ascontiguousarray(array, dtype=np.float64) for array in arrays]
        body = b"".join(array.tobytes() for array in floats)
    head = json.dumps(page).encode()
    link.sendall(_LENGTHS.pack(len(head), len(body)) + head + body)


def receive(
    link: socket.socket, deadline: float = math.inf
) -> tuple[dict[str, Any], list[Array]]:
    """Receive the JSON and the arrays that `send` sent. Raise TimeoutError after
    `deadline` on the monotonic clock.

    EOFError means the end of the connection, ValueError an invalid frame.

    >>> one, other = socket.socketpair()
    >>> send(one, {"name": "net"}, [np.zeros((1, 2))])
    >>> receive(other)
    ({'name': 'net', 'shape': [1, 2]}, [array([[0., 0.]])])
    >>> one.close(), other.close()
    (None, None)
    """
    head_size, body_size = _LENGTHS.unpack(_exactly(link, _LENGTHS.size, deadline))
    size = head_size + body_size
    if size > LARGEST:
        raise ValueError(f"a frame must have at most {LARGEST} bytes; got {size}")
    content = _exactly(link, size, deadline)
    page: dict[str, Any] = json.loads(content[:head_size])
    if not body_size:
        return page, []
    body = np.frombuffer(content, dtype=np.float64, offset=head_size)
    return page, list(body.reshape(-1, *page["shape"]))


def _exactly(link: socket.socket, n: int, deadline: float) -> bytearray:
    content = bytearray(n)
    view = memoryview(content)
    done = 0
    while done < n:
        timeout = None
        if deadline < math.inf:
            timeout = max(1e-6, deadline - time.monotonic())
        link.settimeout(timeout)
        received = link.recv_into(view[done:])
        if not received:
            raise EOFError("the other end is closed")
        done += received
    return content
