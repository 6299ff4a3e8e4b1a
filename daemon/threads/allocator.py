"""glibc's allocator, told to keep little of what is freed: a daemon frees pictures all the time."""

import ctypes
from contextlib import suppress

HEAPS = 2  # shared by all threads; by default each has its own, and keeps what lies free in it
PICTURE_BYTES = 1_500_000
"""What is larger has pages of its own, which go back to the system at once. For layers of networks these
would cost a third of the time: ONNX Runtime keeps 40 MB instead. With 1 MB the sums of an L2 distance, made
three times a frame, had their own, and took five times as long."""

TOP_BYTES = 16_000_000  # a heap's free end stays until `trim`, and does not go at every frame
_ARENA_MAX, _MMAP_THRESHOLD, _TRIM_THRESHOLD = -8, -3, -1  # of <malloc.h>


def limit_arenas() -> None:
    """Call it before threads start; another C library is left as it is."""
    with suppress(AttributeError, OSError):
        set_option = ctypes.CDLL(None).mallopt
        set_option(_ARENA_MAX, HEAPS)
        set_option(_MMAP_THRESHOLD, PICTURE_BYTES)
        set_option(_TRIM_THRESHOLD, TOP_BYTES)


def trim() -> None:
    """Give whole pages that lie free between others back to the system: 12 to 20 MB in 1 to 2 ms."""
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)
