"""L2 distance at 1080p RGB: the kernel (with its block map) against cv2.norm and NumPy (without one)."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median

import cv2
import numpy as np
from numpy.typing import NDArray

from pipeline.distance import l2_luma, l2_rgb

Pair = tuple[NDArray[np.uint8], NDArray[np.uint8]]


def milliseconds(rounds: int, **calls: Callable[[], object]) -> dict[str, float]:
    """Median wall time of each call, taken in turns so that a busy moment hits all of them."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        call()
    for _ in range(rounds):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            times[name].append(1000 * (time.perf_counter() - start))
    return {name: median(taken) for name, taken in times.items()}


def numpy_l2(a: NDArray[np.uint8], b: NDArray[np.uint8], dtype: type = np.float64) -> float:
    return float(np.sqrt(np.mean((a.astype(dtype) - b.astype(dtype)) ** 2)))


def frames(shape: tuple[int, ...]) -> Pair:
    random = np.random.default_rng(0)
    a = random.integers(0, 256, shape, np.uint8)
    b = np.clip(a + random.normal(0, 6, shape), 0, 255).astype(np.uint8)
    return a, b


def cv2_with(threads: int, a: NDArray[np.uint8], b: NDArray[np.uint8]) -> Callable[[], float]:
    def norm() -> float:
        cv2.setNumThreads(threads)
        return float(cv2.norm(a, b, cv2.NORM_L2)) / a.size**0.5

    return norm


def table(title: str, kernel: Callable[..., object], a: NDArray[np.uint8], b: NDArray[np.uint8]) -> None:
    threads = cv2.getNumThreads()
    fast = milliseconds(
        201,
        kernel=lambda: kernel(a, b),
        cv2_single=cv2_with(1, a, b),
        cv2_default=cv2_with(threads, a, b),
    )
    cv2.setNumThreads(threads)
    fast |= milliseconds(15, float64=lambda: numpy_l2(a, b), float32=lambda: numpy_l2(a, b, np.float32))
    print(f"\n{title}: kernel with block map {fast['kernel']:.3f} ms, one thread")
    print("kernel / peer   peer ms   peer")
    for name, peer in (
        ("cv2_single", "cv2.norm, 1 thread"),
        ("cv2_default", f"cv2.norm, {threads} threads (its default)"),
    ):
        print(f"{fast['kernel'] / fast[name]:13.2f}  {fast[name]:8.3f}   {peer}")
    print("peer / kernel   peer ms   peer")
    for name in ("float64", "float32"):
        print(f"{fast[name] / fast['kernel']:13.1f}  {fast[name]:8.3f}   NumPy, {name}")


def main() -> None:
    a, b = frames((1080, 1920, 3))
    table("RGB 1920x1080", l2_rgb, a, b)
    a, b = frames((270, 480))
    table("luma 480x270", l2_luma, a, b)


if __name__ == "__main__":
    main()
