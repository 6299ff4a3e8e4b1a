"""The sentences of many records as columns of numbers, so that a million are looked through at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

FIRST, ALTERED, UNLINKED, STEPPED = 1, 2, 4, 8
"""Flags of a sentence: it is its record's first; and of its record: the hash does not hold, it does not
continue the record before it, it is older than the record before it (the camera's clock stepped back)."""

SURE = 10_000
"""A confidence of 1 in `Sentences`."""

_MOST = 65_535


@dataclass(frozen=True, slots=True, eq=False)
class Sentences:
    """One row per sentence, those of a record side by side; all arrays have the shape ``(n,)``.

    Attributes:
        time: of the record's after frame, microseconds since 1970 (UTC), int64.
        camera: number of the camera, uint16.
        phrase: number of what is said, uint32.
        confidence: 0..10000, uint16.
        count: of objects, uint16; 65535 and more are the same.
        flags: see the module, uint8.
    """

    time: NDArray[np.int64]
    camera: NDArray[np.uint16]
    phrase: NDArray[np.uint32]
    confidence: NDArray[np.uint16]
    count: NDArray[np.uint16]
    flags: NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.time)

    @classmethod
    def of(cls, rows: Sequence[tuple[int, int, int, int, int, int]]) -> Self:
        """Rows in the order of the attributes; counts are cut at the largest that fits."""
        columns = list(zip(*rows, strict=True)) or [()] * len(_SENTENCE)
        columns[4] = tuple(min(count, _MOST) for count in columns[4])
        return cls(*(np.array(c, dtype) for c, dtype in zip(columns, _SENTENCE, strict=True)))

    @classmethod
    def unpack(cls, packed: bytes, count: int) -> Self:
        """What `pack` gave, of so many rows."""
        return cls(*_unpacked(packed, count, _SENTENCE))

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """One after the other."""
        if not parts:
            return cls.of([])
        return cls(*(np.concatenate([getattr(p, f.name) for p in parts]) for f in fields(cls)))

    def pack(self) -> bytes:
        """As bytes, column by column."""
        return b"".join(getattr(self, f.name).tobytes() for f in fields(self))


@dataclass(frozen=True, slots=True, eq=False)
class Places:
    """Where the lines of records are, one row per record.

    Attributes:
        offset: of the line's first byte in its file, int64.
        length: bytes with the line's end, uint32.
        digest: the first eight bytes of the record's hash, uint64.
    """

    offset: NDArray[np.int64]
    length: NDArray[np.uint32]
    digest: NDArray[np.uint64]

    def __len__(self) -> int:
        return len(self.offset)

    @classmethod
    def of(cls, rows: Sequence[tuple[int, int, int]]) -> Self:
        """Rows in the order of the attributes."""
        columns = list(zip(*rows, strict=True)) or [()] * len(_PLACE)
        return cls(*(np.array(c, dtype) for c, dtype in zip(columns, _PLACE, strict=True)))

    @classmethod
    def unpack(cls, packed: bytes, count: int) -> Self:
        """What `pack` gave, of so many rows."""
        return cls(*_unpacked(packed, count, _PLACE))

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """One after the other."""
        return cls(*(np.concatenate([getattr(p, f.name) for p in parts]) for f in fields(cls)))

    def pack(self) -> bytes:
        """As bytes, column by column."""
        return b"".join(getattr(self, f.name).tobytes() for f in fields(self))


_SENTENCE = ("<i8", "<u2", "<u4", "<u2", "<u2", "u1")
_PLACE = ("<i8", "<u4", "<u8")


def _unpacked(packed: bytes, count: int, dtypes: tuple[str, ...]) -> list[NDArray[Any]]:
    found, begin = [], 0
    for dtype in dtypes:
        found.append(np.frombuffer(packed, dtype, count, begin))
        begin += found[-1].nbytes
    return found
