"""Limits for unpacked sizes, because a small compressed file may expand beyond the
memory."""

__all__ = ["check_unpacked", "most_unpacked"]

_LARGEST = 1 << 28  # maximum unpacked size of small files in bytes
_RATIO = 20  # larger files may unpack to this multiple of their own size


def most_unpacked(packed: int) -> int:
    """Return the maximum unpacked size for a file, or a part of one, of this size: 256
    MiB, or 20 times the packed size.

    >>> most_unpacked(1_000), most_unpacked(1 << 30)
    (268435456, 21474836480)
    """
    return max(_LARGEST, _RATIO * packed)


def check_unpacked(what: str, unpacked: int, packed: int) -> None:
    """Raise ValueError if the unpacked size is too large for `packed` bytes."""
    most = most_unpacked(packed)
    if unpacked > most:
        raise ValueError(
            f"{what} must have at most {most:,} bytes when unpacked; got {unpacked:,}"
        )
