"""What keeps the process from growing: the allocator gives back what is free, rings of objects are found."""

from __future__ import annotations

import ctypes
import gc
from functools import cache
from time import monotonic
from typing import NamedTuple

TRIM_EVERY_S = 60.0
"""How often what is free is given back to the system."""

ARENAS = 2
"""Heaps of the allocator: one for each of some twenty threads would keep each thread's largest moment."""

_M_ARENA_MAX = -8


class Allocated(NamedTuple):
    """What the C library's allocator holds, in bytes.

    Attributes:
        used: given out of its heaps, and not freed.
        mapped: given out as blocks of their own, as large ones may be.
        free: freed, but kept from the system.
    """

    used: int
    mapped: int
    free: int


class _Mallinfo2(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
            *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
        )
    ]


def few_arenas() -> bool:
    """Limit the allocator's heaps; call it before threads start.

    Returns:
        True where the C library is glibc; others are left as they are.
    """
    mallopt = getattr(_c_library(), "mallopt", None)
    return mallopt is not None and bool(mallopt(_M_ARENA_MAX, ARENAS))


def settle() -> None:
    """Leave what is there now to itself, once all is loaded.

    A full collection waits until a quarter of all objects is new. torch, numba and the rest bring a million:
    rings of a daemon that runs on would pile up for hours. What is loaded for good is not counted any more,
    and full collections come every few minutes and take some milliseconds.
    """
    gc.collect()
    gc.freeze()
    gc.collect()  # from this the collector takes how many objects there are


class Trimming:
    """Gives back what is free, now and then.

    1,500 connections whose own blocks were all freed left the process 11 MB larger; most likely glibc puts a
    decoder's pictures among small blocks that outlive them, and gives back only its heap's end. Trimmed every
    50 of them it grew by .6 MB, in under a millisecond a time.
    """

    def __init__(self) -> None:
        self._trim = getattr(_c_library(), "malloc_trim", None)
        self._due = monotonic() + TRIM_EVERY_S

    def turn(self) -> None:
        """Called at every turn of the main loop."""
        if self._trim is not None and monotonic() >= self._due:
            self._trim(0)
            self._due = monotonic() + TRIM_EVERY_S


def allocated() -> Allocated | None:
    """What the allocator holds now; None where the C library does not tell."""
    mallinfo2 = getattr(_c_library(), "mallinfo2", None)
    if mallinfo2 is None:
        return None
    mallinfo2.restype = _Mallinfo2
    now = mallinfo2()
    return Allocated(now.uordblks, now.hblkhd, now.fordblks)


@cache
def _c_library() -> ctypes.CDLL | None:
    try:
        return ctypes.CDLL(None)
    except (OSError, TypeError):  # no such thing here
        return None
