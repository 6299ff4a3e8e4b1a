"""The sentences of many records as columns of numbers, so that a million are looked through at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

FIRST, ALTERED, UNLINKED, STEPPED = 1, 2, 4, 8
"""Flags of a sentence: it is its record's first; and of its record: the hash does not hold, it does not
continue the record before it, it is older than the record before it (the camera's clock stepped back)."""

SURE = 10_000
"""A confidence of 1 in `Sentences`."""

MOST = 65_535
"""The largest count in `Sentences`."""


@dataclass(frozen=True, slots=True, eq=False)
class _Columns:
    """Arrays of one length, shape ``(n,)``, each of its type in `TYPES`."""

    TYPES: ClassVar[tuple[str, ...]]

    def __len__(self) -> int:
        first: NDArray[Any] = getattr(self, fields(self)[0].name)
        return len(first)

    @classmethod
    def of(cls, rows: Sequence[tuple[int, ...]]) -> Self:
        """Rows in the order of the attributes."""
        columns = list(zip(*rows, strict=True)) or [()] * len(cls.TYPES)
        return cls(*(np.array(c, dtype) for c, dtype in zip(columns, cls.TYPES, strict=True)))

    @classmethod
    def unpack(cls, packed: bytes, count: int) -> Self:
        """What `pack` gave, of so many rows."""
        found, begin = list[NDArray[Any]](), 0
        for dtype in cls.TYPES:
            found.append(np.frombuffer(packed, dtype, count, begin))
            begin += found[-1].nbytes
        return cls(*found)

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
class Sentences(_Columns):
    """One row per sentence, those of a record side by side.

    Attributes:
        time: of the record's after frame, microseconds since 1970 (UTC), int64.
        camera: number of the camera, uint16.
        phrase: number of what is said, uint32.
        confidence: 0..10000, uint16.
        count: of objects, uint16; 65535 and more are the same.
        flags: see the module, uint8.
    """

    TYPES: ClassVar[tuple[str, ...]] = ("<i8", "<u2", "<u4", "<u2", "<u2", "u1")

    time: NDArray[np.int64]
    camera: NDArray[np.uint16]
    phrase: NDArray[np.uint32]
    confidence: NDArray[np.uint16]
    count: NDArray[np.uint16]
    flags: NDArray[np.uint8]


@dataclass(frozen=True, slots=True, eq=False)
class Places(_Columns):
    """Where the lines of records are, one row per record.

    Attributes:
        offset: of the line's first byte in its file, int64.
        length: bytes with the line's end, uint32.
        digest: the first eight bytes of the record's hash, uint64.
    """

    TYPES: ClassVar[tuple[str, ...]] = ("<i8", "<u4", "<u8")

    offset: NDArray[np.int64]
    length: NDArray[np.uint32]
    digest: NDArray[np.uint64]
