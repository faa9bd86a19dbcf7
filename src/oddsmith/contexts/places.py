"""Positions of a context's values among the learnt columns, looked up by name.

Columns store only digests. A cache outside the state maps names and values to
positions. Each cache belongs to the arrays for which it was created, and a missing
cache is created again.
"""

import re
from functools import lru_cache
from hashlib import blake2b
from itertools import islice
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from oddsmith.core.arrays import Array, Ints

__all__ = [
    "CATEGORY",
    "CODE",
    "Columns",
    "FLAG",
    "Key",
    "MISSING",
    "MOST",
    "MOST_CODES",
    "MOST_VALUES",
    "NOT_WHOLE",
    "NUMBER",
    "OTHER",
    "OTHERS",
    "Part",
    "Places",
    "TextPlaces",
    "WORD",
    "digest_of",
    "forget",
    "parts_of",
    "places_of",
]

NUMBER, CODE, CATEGORY, WORD, MISSING, OTHER = range(6)
"""Kinds of columns: a number; and indicators, which are 1 for this whole number, this
text, a text with this word, a missing value, or a value without a column of its own."""
FLAG = 6
"""The kind of True and False: one column, 1 for True."""
MOST = 248
"""Maximum number of columns in a state."""
OTHERS = 8
"""Number of additional columns that texts without their own column share."""
MOST_VALUES = 64
"""Maximum number of texts and words of one key."""
MOST_CODES = 16
"""Maximum number of whole numbers of one key that may be codes."""
MOST_WORDS = 64
"""Maximum number of words of one text."""
NOT_WHOLE = 0
"""Marks a key whose numbers are not whole, so that it has no codes."""
_SHORT = 128  # cache only texts up to this many characters
_CACHED = 2048  # cached names and values per state: about a megabyte
_STATES = 512  # number of states with a cache
_WORD = re.compile(r"[^\W_]+")


class Columns(NamedTuple):
    """The columns of numbers and what each represents, in the order of learning: see
    `columns.py`.

    For each column (d): the digest of what it represents, the digest of its key, and
    its kind. `wholes` (n, 2) contains digests of the first whole numbers of each key,
    each beside the digest of its key. `salt` (16) keys all digests.
    """

    digests: npt.NDArray[np.uint64]
    keys: npt.NDArray[np.uint64]
    kinds: npt.NDArray[np.int8]
    wholes: npt.NDArray[np.uint64]
    salt: npt.NDArray[np.uint8]

    def __deepcopy__(self, _: object) -> "Columns":
        """Return this object. Its arrays are never modified, and the cache identifies
        the columns by them."""
        return self

    @property
    def is_category(self) -> npt.NDArray[np.bool_]:
        """Whether each column (d) is an indicator (0 or 1) instead of a number."""
        return np.not_equal(self.kinds, NUMBER)

    @property
    def fill(self) -> Array:
        """The value (d) that each column has in rows learnt before the column
        existed."""
        return np.where(self.is_category, 0.0, np.nan)


class Part(NamedTuple):
    """The kind of a column, and the value that it represents."""

    kind: int
    value: str


class TextPlaces(NamedTuple):
    """The positions of a value's columns, and whether learning from the value would add
    no columns."""

    places: tuple[int, ...]
    complete: bool


class Key:
    """The columns of one key: their positions, -1 for missing ones, and cached
    lookups."""

    __slots__ = (
        "codes",
        "digest",
        "missing",
        "n_codes",
        "n_values",
        "number",
        "own",
        "texts",
        "wholes",
    )

    def __init__(self, digest: int) -> None:
        self.digest = digest
        self.number = self.missing = -1
        self.n_values = self.n_codes = 0
        # whether a missing value can get an indicator column; this is false for words,
        # which are missing from nearly every text
        self.own = False
        self.wholes: set[int] = set()
        self.codes: dict[float, int] = {}
        self.texts: dict[tuple[int, str], TextPlaces] = {}

    def add(self, place: int, kind: int) -> None:
        if kind == NUMBER:
            self.number = place
        elif kind == MISSING:
            self.missing = place
        self.n_codes += kind == CODE
        self.n_values += kind in (CATEGORY, WORD)
        self.own |= kind in (NUMBER, CATEGORY)


class Places:
    """The columns of one state by name. `blank` is the row of a context without known
    values."""

    def __init__(self, columns: Columns) -> None:
        self.columns = columns
        self.salt = columns.salt.tobytes()
        digests = columns.digests.tolist()
        kinds = columns.kinds.tolist()
        self.at: dict[int, int] = {
            digest: place for place, digest in enumerate(digests)
        }
        self.full = len(kinds) - kinds.count(OTHER) >= MOST
        blank = np.where(columns.is_category, columns.kinds == MISSING, np.nan)
        self.blank = np.append(blank, 0.0)
        self._keys: dict[int, Key] = {}
        pairs = zip(columns.keys.tolist(), kinds, strict=True)
        for place, (digest, kind) in enumerate(pairs):
            if kind != OTHER:
                self._key(digest).add(place, kind)
        for whole, digest in columns.wholes.tolist():
            self._key(digest).wholes.add(whole)
        self.named: dict[str, Key] = {}
        self._n_cached = 0
        self.width = 0
        while self.array_key(self.width).number >= 0:
            self.width += 1
        array_keys = [self.array_key(place) for place in range(self.width)]
        array_digests = {key.digest for key in array_keys}
        self.numbers: Ints = np.array(
            [key.number for key in array_keys], dtype=np.int64
        )
        self.gaps: Ints = np.array([key.missing for key in array_keys], dtype=np.int64)
        self.marked: Ints = np.flatnonzero(self.gaps >= 0)
        is_sorted = bool((self.numbers == np.arange(self.width)).all())
        self.in_order = self.width == len(digests) and is_sorted
        self.unmarked: list[Key] = []
        for key in self._keys.values():
            is_named = key.own and key.digest not in array_digests
            if is_named and key.missing < 0 and not self.full:
                self.unmarked.append(key)

    def key(self, name: object) -> Key:
        """Return the columns of a name, cached in `named`. A new name has no
        columns."""
        name = str(name)
        digest = digest_of(self.salt, "name", name)
        known = self._keys.get(digest) or Key(digest)
        if len(name) <= _SHORT:
            self._make_room()
            self.named[name] = known
        return known

    def array_key(self, place: int) -> Key:
        """Return the columns of a number in a plain array."""
        digest = digest_of(self.salt, "array", str(place))
        return self._keys.get(digest) or Key(digest)

    def text(self, key: Key, form: int, value: str) -> TextPlaces:
        """Return the positions of a text's columns."""
        known = key.texts.get((form, value))
        if known is None:
            known = self._show(key, form, value)
            if len(value) <= _SHORT:
                self._make_room()
                key.texts[form, value] = known
        return known

    def code(self, key: Key, value: float) -> int:
        """Return the position of a whole number's indicator column, -1 if it has
        none."""
        place = key.codes.get(value)
        if place is not None:
            return place
        if value != int(value):
            return -1
        digest = self.digest(key, Part(CODE, str(int(value))))
        place = self.at.get(digest, -1)
        self._make_room()
        key.codes[value] = place
        return place

    def news_of(self, key: Key, value: float) -> tuple[Part | None, int | None]:
        """Return what learning from a number would add: an indicator column, because
        the number may be a code, or a number to remember."""
        if self.full or NOT_WHOLE in key.wholes:
            return None, None
        if key.n_codes and self.code(key, value) >= 0:
            return None, None
        if value != int(value):
            return None, NOT_WHOLE
        part = Part(CODE, str(int(value)))
        digest = self.digest(key, part)
        if digest not in key.wholes:
            has_room = len(key.wholes) < MOST_CODES
            return None, digest if has_room else None
        bits = {self.digest(key, Part(CODE, bit)) for bit in "01"}
        has_others = bool(key.wholes - bits)
        return part if has_others else None, None

    def digest(self, key: Key, part: Part) -> int:
        """Return the digest of a key and a part of its values."""
        return digest_of(self.salt, f"{part.kind} {key.digest}", part.value)

    def other(self, digest: int) -> int:
        """Return the digest of the shared column for a digest without a column of its
        own."""
        return digest_of(self.salt, f"{OTHER}", str(digest % OTHERS))

    def _make_room(self) -> None:
        """Count one more entry of the cache, and empty it when there are too many."""
        self._n_cached += 1
        if self._n_cached > _CACHED:
            self._n_cached = 1
            self.named.clear()
            for key in self._keys.values():
                key.texts.clear()
                key.codes.clear()

    def _key(self, digest: int) -> Key:
        return self._keys.setdefault(digest, Key(digest))

    def _show(self, key: Key, form: int, value: str) -> TextPlaces:
        places = []
        complete = True
        for part in parts_of(form, value):
            digest = self.digest(key, part)
            place = self.at.get(digest, -1)
            if place < 0 and (self.full or key.n_values >= MOST_VALUES):
                place = self.at.get(self.other(digest), -1)
            if place < 0:
                complete = False
            else:
                places.append(place)
        is_false = form == FLAG and not value
        return TextPlaces(() if is_false else tuple(places), complete)


def parts_of(form: int, value: str) -> list[Part]:
    """Return the columns of a text: one for the whole text as a category or, if the
    text has more than three words, one for each word (`form` WORD)."""
    if form == FLAG:
        return [Part(CATEGORY, "True")]
    is_long = len(value.split(None, 3)) > 3
    if form == WORD and is_long:
        matches = islice(_WORD.finditer(value), 16 * MOST_WORDS)
        words = dict.fromkeys(match.group().lower() for match in matches)
        if words:
            return [Part(WORD, word) for word in islice(words, MOST_WORDS)]
    return [Part(CATEGORY, value)]


def places_of(columns: Columns) -> Places:
    """Return the positions of these columns, from the cache if they are in it."""
    known = _CACHE.get(id(columns.digests))
    if known is not None and _is_of(known, columns):
        return known
    known = Places(columns)
    if len(_CACHE) >= _STATES:
        _CACHE.clear()
    _CACHE[id(columns.digests)] = known
    return known


def _is_of(places: Places, columns: Columns) -> bool:
    """Return whether these positions were created for exactly these arrays."""
    made_for = places.columns
    return (
        made_for.digests is columns.digests
        and made_for.wholes is columns.wholes
        and made_for.salt is columns.salt
    )


def forget(columns: Columns) -> None:
    """Remove these columns from the cache, because newer columns have replaced them."""
    _CACHE.pop(id(columns.digests), None)


def digest_of(salt: bytes, what: str, value: str) -> int:
    """Return a 64-bit digest of a value, the same in every process. Among 256 values, a
    collision has probability 2e-15."""
    if len(value) <= _SHORT:
        return _cached_digest(salt, what, value)
    return _digest(salt, what, value)


def _digest(salt: bytes, what: str, value: str) -> int:
    text = f"{what} {value}".encode(errors="surrogatepass")
    keyed = blake2b(text, digest_size=8, key=salt, person=b"oddsmith columns")
    return int.from_bytes(keyed.digest(), "big")


_cached_digest = lru_cache(maxsize=16_384)(_digest)
_CACHE: dict[int, Places] = {}
