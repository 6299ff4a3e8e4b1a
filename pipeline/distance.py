"""L2 distance of two frames: root mean square over pixels and channels, in 0..255 grey levels.

One pass over both frames gives the distance of the whole frame and of every block of it. Sums of squared
differences are exact integers; only the last division and root are in floating point.
"""

import cv2
import numpy as np
from numpy.typing import NDArray

from pipeline.kernels.distance import squared_blocks

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
    _check(a, b, 3)
    _check_block(block)
    height, width = a.shape[:2]
    planes = [np.ascontiguousarray(each.reshape(height, -1)) for each in (a, b)]
    return _root_means(squared_blocks(planes[0], planes[1], block, 3 * block), height, width, 3, block)


def l2_luma(
    a: NDArray[np.uint8], b: NDArray[np.uint8], block: int = BLOCK
) -> tuple[float, NDArray[np.float32]]:
    """As `l2_rgb`, of two luma planes uint8 ``(h, w)``; raises `ValueError`."""
    _check(a, b, 1)
    _check_block(block)
    # Small enough for OpenCV, whose sums are as exact: what screens a scene needs no kernel.
    _, squares = cv2.integral2(cv2.absdiff(a, b))
    rows, columns = ([*range(0, side, block), side] for side in a.shape)
    sums = np.diff(np.diff(squares[np.ix_(rows, columns)], axis=0), axis=1).astype(np.int64)
    return _root_means(sums, a.shape[0], a.shape[1], 1, block)


def _check(a: NDArray[np.uint8], b: NDArray[np.uint8], channels: int) -> None:
    wanted = "RGB uint8 (h, w, 3)" if channels == 3 else "luma uint8 (h, w)"  # noqa: PLR2004 - R, G and B
    for name, image in (("first", a), ("second", b)):
        if image.dtype != np.uint8:
            raise ValueError(f"the {name} image is {image.dtype}, not {wanted}: convert it to uint8 0..255")
        if image.ndim != (2 if channels == 1 else 3) or (channels > 1 and image.shape[2] != channels):
            raise ValueError(f"the {name} image has the shape {image.shape}, not that of {wanted}")
    if a.shape != b.shape:
        raise ValueError(f"images of shapes {a.shape} and {b.shape} cannot be compared: resize one of them")
    if a.size == 0:
        raise ValueError(f"images of shape {a.shape} hold no pixels")


def _check_block(block: int) -> None:
    if not 1 <= block <= _MAX_BLOCK:
        raise ValueError(f"a block of {block} pixels is not within 1..{_MAX_BLOCK}")


def _root_means(
    sums: NDArray[np.int64], height: int, width: int, channels: int, block: int
) -> tuple[float, NDArray[np.float32]]:
    """Distances of the frame and of its blocks, from their sums of squares."""
    rows = np.minimum(block, height - block * np.arange(sums.shape[0]))
    columns = np.minimum(block, width - block * np.arange(sums.shape[1]))
    counts = channels * rows[:, None] * columns[None, :]
    distance = float(np.sqrt(sums.sum() / (height * width * channels)))
    return distance, np.sqrt(sums / counts).astype(np.float32)
