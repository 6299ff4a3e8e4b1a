"""L2 distance of two frames: root mean square over pixels and channels, in 0..255 grey levels.

Sums of squared differences are exact integers; only the last division and root are in floating point.
"""

import cv2
import numpy as np
from numpy.typing import NDArray


def l2_distance(a: NDArray[np.uint8], b: NDArray[np.uint8]) -> float:
    """L2 distance of two images uint8 of one shape, ``(h, w, 3)`` or ``(h, w)``; else `ValueError`."""
    _check(a, b)
    return float(np.sqrt(round(cv2.norm(a, b, cv2.NORM_L2SQR)) / a.size))


def l2_blocks(a: NDArray[np.uint8], b: NDArray[np.uint8], block: int) -> tuple[float, NDArray[np.float32]]:
    """As `l2_distance`, and the same of each block of `block` pixels a side.

    They are float32 ``(ceil(h / block), ceil(w / block))``; those at the right and lower edge may be smaller.
    Raises `ValueError`.
    """
    _check(a, b)
    if block < 1:
        raise ValueError(f"a block of {block} pixels is too small: it has at least one")
    _, squares = cv2.integral2(cv2.absdiff(a, b))
    rows, columns = ([*range(0, side, block), side] for side in a.shape[:2])
    sums = np.diff(np.diff(squares[np.ix_(rows, columns)], axis=0), axis=1)
    sums = sums.reshape(*sums.shape[:2], -1).sum(2)
    counts = np.diff(rows)[:, None] * np.diff(columns) * (a.size // (a.shape[0] * a.shape[1]))
    return float(np.sqrt(sums.sum() / a.size)), np.sqrt(sums / counts).astype(np.float32)


def _check(a: NDArray[np.uint8], b: NDArray[np.uint8]) -> None:
    for name, image in (("first", a), ("second", b)):
        if image.dtype != np.uint8:
            raise ValueError(f"the {name} image is {image.dtype}, not uint8: convert it to 0..255")
        if image.ndim not in {2, 3} or image.shape[2:] not in {(), (3,)}:
            raise ValueError(f"the {name} image has the shape {image.shape}, not (h, w, 3) or (h, w)")
    if a.shape != b.shape:
        raise ValueError(f"images of shapes {a.shape} and {b.shape} cannot be compared: resize one of them")
    if a.size == 0:
        raise ValueError(f"images of shape {a.shape} hold no pixels")
