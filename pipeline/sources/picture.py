"""From decoded pictures to the luma plane at analysis size, and to RGB on demand."""

import threading
from dataclasses import replace
from typing import Any

import cv2
import numpy as np
from av.video.frame import VideoFrame
from av.video.reformatter import Interpolation, VideoReformatter

from pipeline.sources.areas import polygon_mask
from pipeline.sources.frame import Frame, Image, LazyPicture, Luma, SourceError, SourceOptions

_LUMA_FIRST = frozenset(
    [
        *(f"yuv{way}{chroma}p" for way in ("", "a", "j") for chroma in (410, 411, 420, 422, 440, 444)),
        *("nv12", "nv16", "nv21", "nv24", "gray"),
    ]
)
"""Pixel formats whose first plane is 8-bit luma, one byte a pixel."""

TALLEST = 8  # heights of a picture, in its width

PRIVACY_MARGIN = 4  # pixels around an area that are black too: colour is shared by 2 x 2 pixels


# A frame that is held keeps its converter, and that keeps its pool of threads: a hundred for four cameras.
_THREADS = 1


def without_picture(frame: Frame) -> Frame:
    """Its time and plane, for whoever holds it longer than others hold its picture."""

    def no_picture() -> Image:
        raise AssertionError("only the luma plane of this frame was kept")

    return replace(frame, picture=LazyPicture(no_picture))


def turns_of(frame: VideoFrame) -> int:
    """Quarter turns, counterclockwise, that make a frame upright: of a phone that was held upright, say."""
    return round(frame.rotation / 90) % 4


def turn(image: Image, turns: int) -> Image:
    return np.ascontiguousarray(np.rot90(image, turns)) if turns else image


def rgb_of(frame: VideoFrame) -> Image:
    return np.ascontiguousarray(frame.to_ndarray(format="rgb24", threads=_THREADS), dtype=np.uint8)


def small_rgb_of(frame: VideoFrame, width: int, scaler: VideoReformatter) -> Image:
    """RGB of a frame at most so wide, by a camera's scaler: the frame's own would be held with it."""
    width = min(width, frame.width)
    height, by_area = max(1, round(frame.height * width / frame.width)), Interpolation.AREA
    return rgb_of(scaler.reformat(frame, width, height, "rgb24", interpolation=by_area, threads=_THREADS))


def luma_of(frame: VideoFrame) -> Luma:
    """Luma plane of a decoded frame at full size; of most formats a view into the decoder's buffer."""
    if frame.format.name not in _LUMA_FIRST:
        frame = frame.reformat(format="gray", threads=_THREADS)
    plane = frame.planes[0]
    buffer: Any = plane  # PyAV's planes speak the buffer protocol; its type stubs do not say so
    lines: Luma = np.frombuffer(buffer, dtype=np.uint8, count=plane.line_size * plane.height)
    # Lines are padded: without the line size the picture comes out sheared.
    luma: Luma = lines.reshape(plane.height, plane.line_size)[: frame.height, : frame.width]
    return luma


def resize_luma(luma: Luma, width: int) -> Luma:
    """A copy of the plane, averaged by area; its height keeps the aspect, rounded to even."""
    height = max(2, 2 * round(luma.shape[0] * width / luma.shape[1] / 2))
    if luma.shape == (height, width):
        return luma.copy()
    return np.asarray(cv2.resize(luma, (width, height), interpolation=cv2.INTER_AREA), dtype=np.uint8)


class View:
    """Makes planes and pictures of a camera: privacy areas are black in both, masks in planes alone."""

    def __init__(self, options: SourceOptions, turns: int = 0) -> None:
        self._turns = turns
        self._width, self._privacy, self._masks = options.analysis_width, options.privacy, options.masks
        self._scaler, self._scaling = VideoReformatter(), threading.Lock()

    def of_frame(self, frame: VideoFrame) -> tuple[Luma, LazyPicture]:
        return self._plane(turn(luma_of(frame), self._turns)), LazyPicture(
            lambda: self._private(turn(rgb_of(frame), self._turns)),
            None if self._turns else lambda width: self._small(frame, width),
        )

    def _small(self, frame: VideoFrame, width: int) -> Image:
        with self._scaling:
            return self._private(small_rgb_of(frame, width, self._scaler))

    def of_bgr(self, bgr: Image) -> tuple[Luma, LazyPicture]:
        """Luma plane at analysis size and picture of a BGR image uint8 ``(height, width, 3)``."""
        luma = np.asarray(cv2.cvtColor(bgr, cv2.COLOR_BGR2GRAY), np.uint8)
        rgb = self._private(np.ascontiguousarray(bgr[..., ::-1]))
        return self._plane(luma), LazyPicture(lambda: rgb)

    def _plane(self, luma: Luma) -> Luma:
        height, width = luma.shape
        if height > TALLEST * width:  # at the width of all planes it would fill the memory
            raise SourceError(f"no camera has pictures of {width} x {height} pixels")
        plane = resize_luma(self._private(luma), self._width)
        if self._masks:
            plane[polygon_mask(self._masks, (plane.shape[0], plane.shape[1]))] = 0
        return plane

    def _private(self, pixels: Image) -> Image:
        if not self._privacy:
            return pixels
        pixels = pixels.copy()  # what is given may be the decoder's own, from which it predicts
        pixels[polygon_mask(self._privacy, (pixels.shape[0], pixels.shape[1]), PRIVACY_MARGIN)] = 0
        return pixels
