"""L2 distance of two frames: root mean square over pixels and channels, in 0..255 grey levels.

One pass over both frames gives the distance of the whole frame and of every block of it. Sums of squared
differences are exact integers; only the last division and root are in floating point.
"""

import cv2
import numpy as np
from numpy.typing import NDArray

from pipeline.kernels.difference import squared_blocks

BLOCK = 32  # side in pixels of the blocks of the distance map
_MAX_BLOCK = 8192  # a row of a block holds at most 3 * 8192 * 255^2 < 2^31


def l2_rgb(
    a: NDArray[np.uint8], b: NDArray[np.uint8], block: int = BLOCK
) -> tuple[float, NDArray[np.float32]]:
    """L2 distance of two images RGB uint8 ``(h, w, 3)`` of one shape, and of each block.

    It is the root mean square difference over pixels and channels, 0..255, and the same per block, float32
    ``(ceil(h / block), ceil(w / block))``; `block`, a side in pixels, is 1..8192, and blocks at the right and
    lower edge may be smaller. Anything else raises `ValueError`.
    """
    _check(a, b, (3,), block)
    planes = [np.ascontiguousarray(each.reshape(len(a), -1)) for each in (a, b)]
    return _root_means(squared_blocks(planes[0], planes[1], block, 3 * block), a, block)


def l2_luma(
    a: NDArray[np.uint8], b: NDArray[np.uint8], block: int = BLOCK
) -> tuple[float, NDArray[np.float32]]:
    """As `l2_rgb`, of two luma planes uint8 ``(h, w)``; raises `ValueError`."""
    _check(a, b, (), block)
    # Small enough for OpenCV, whose sums are as exact: what screens a scene needs no kernel.
    _, squares = cv2.integral2(cv2.absdiff(a, b))
    rows, columns = ([*range(0, side, block), side] for side in a.shape)
    sums = np.diff(np.diff(squares[np.ix_(rows, columns)], axis=0), axis=1).astype(np.int64)
    return _root_means(sums, a, block)


def _check(a: NDArray[np.uint8], b: NDArray[np.uint8], channels: tuple[int, ...], block: int) -> None:
    fits = a.ndim == 2 + len(channels) and a.shape[2:] == channels and {a.dtype, b.dtype} == {np.dtype("u1")}
    if not fits or a.shape != b.shape or a.size == 0:
        wanted = "RGB images uint8 (h, w, 3)" if channels else "luma planes uint8 (h, w)"
        raise ValueError(f"not two {wanted} of one shape: {a.dtype} {a.shape} and {b.dtype} {b.shape}")
    if not 1 <= block <= _MAX_BLOCK:
        raise ValueError(f"a block of {block} pixels is not within 1..{_MAX_BLOCK}")


def _root_means(
    sums: NDArray[np.int64], image: NDArray[np.uint8], block: int
) -> tuple[float, NDArray[np.float32]]:
    """Distances of the frame and of its blocks, from their sums of squares."""
    height, width = image.shape[:2]
    rows = np.minimum(block, height - block * np.arange(sums.shape[0]))
    columns = np.minimum(block, width - block * np.arange(sums.shape[1]))
    counts = image.size // (height * width) * rows[:, None] * columns[None, :]
    return float(np.sqrt(sums.sum() / image.size)), np.sqrt(sums / counts).astype(np.float32)
