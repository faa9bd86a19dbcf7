"""Limits of what a file may have when it is unpacked: a small file may announce, or
contain, more than memory has."""

__all__ = ["check_unpacked", "most_unpacked"]

_LARGEST = 1 << 28  # maximum unpacked size of small files in bytes
_RATIO = 20  # larger files may unpack to this multiple of their own size


def most_unpacked(packed: int) -> int:
    """Return how many bytes a file, or a part of one, of so many bytes may have when
    it is unpacked: 256 MiB, or 20 times its size.

    >>> most_unpacked(1_000), most_unpacked(1 << 30)
    (268435456, 21474836480)
    """
    return max(_LARGEST, _RATIO * packed)


def check_unpacked(what: str, unpacked: int, packed: int) -> None:
    """Raise ValueError if something of `packed` bytes has too many when unpacked."""
    most = most_unpacked(packed)
    if unpacked > most:
        raise ValueError(
            f"{what} must have at most {most:,} bytes when unpacked; got {unpacked:,}"
        )
