"""Pictures for people, and their marks: the numbered outline or box of each sentence."""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import cv2
import numpy as np
from numpy.typing import ArrayLike, NDArray

from models.captioner import Sentence
from pipeline.record import RecordSentence
from pipeline.sources import Image
from pipeline.sources.frame import shrink

Side = Literal["before", "after"]
SIDES: tuple[Side, Side] = ("before", "after")
Point = tuple[float, float]
COLOURS = ((173, 72, 10), (0, 99, 168), (0, 113, 76), (168, 47, 124), (122, 85, 0), (100, 70, 200))
"""RGB of the marks, in turn, as in page.css; distinct for colour-blind eyes, readable below white."""
MarkedSentence = Sentence | RecordSentence

_FONT = cv2.FONT_HERSHEY_SIMPLEX
_PAPER = (255, 255, 255)
_LARGEST_PANEL, _INLINE_WIDTH = 960, 600
_SMALL = 320  # pixels: on smaller pictures lines are 1 pixel wide, on larger ones JPEG would blur that away


@dataclass(frozen=True, slots=True)
class Shape:
    """Outline and paths of one sentence on one picture; points in 0..1 of it."""

    number: int
    corners: Sequence[Point]
    paths: Sequence[Sequence[Point]]
    between: Sequence[Sequence[Point]] = ()  # from a path's end to the next one's begin, unrecorded

    @property
    def top(self) -> Point:
        """The corner at which its number stands."""
        return min(self.corners, key=lambda corner: corner[1])


def shapes_of(sentences: Sequence[MarkedSentence], side: Side) -> list[Shape]:
    """Outlines, or else boxes, on one picture, numbered 1, 2, ... by the sentences.

    A sentence about one side is drawn there only; one that names no side is drawn on both.
    """
    shapes = []
    for number, sentence in enumerate(sentences, 1):
        sided = sentence.before is not None or sentence.after is not None
        box = getattr(sentence, side) if sided else sentence.box
        if box is not None:
            x, y, width, height = box
            corners = ((x, y), (x + width, y), (x + width, y + height), (x, y + height))
            outline = getattr(sentence, f"outline_{side}") if sided else None
            shapes.append(Shape(number, outline or corners, sentence.paths or ()))
    return shapes


def encode(image: Image, quality: int = 78) -> bytes:
    """RGB uint8 ``(h, w, 3)`` as JPEG: WebP is two thirds as large and takes twenty times as long."""
    setting = [cv2.IMWRITE_JPEG_QUALITY, quality]
    written, encoded = cv2.imencode(".jpg", cv2.cvtColor(image, cv2.COLOR_RGB2BGR), setting)
    if not written:
        raise ValueError(f"an image of shape {image.shape} cannot be encoded")
    return bytes(encoded)


def encode_small(path: Path, width: int) -> bytes | None:
    """A picture file as JPEG, at most `width` pixels wide; None where it is gone or no picture."""
    try:
        image = decode(path.read_bytes())
    except OSError:
        return None
    return None if image is None else encode(shrink(image, width))


def decode(content: bytes) -> Image | None:
    """A picture's bytes as RGB uint8 ``(h, w, 3)``; None of what is no picture."""
    try:
        bgr = cv2.imdecode(np.frombuffer(content, np.uint8), cv2.IMREAD_COLOR)
    except cv2.error:  # there are no bytes, or they claim to be gigabytes
        return None
    return None if bgr is None else np.ascontiguousarray(bgr[..., ::-1], np.uint8)


def inline_pictures(paths: Mapping[str, Path]) -> dict[str, str]:
    """Addresses of small pictures that hold them (``data:``), by side; without those that are gone."""
    small = {side: encode_small(path, _INLINE_WIDTH) for side, path in paths.items()}
    held = {side: base64.b64encode(jpeg).decode() for side, jpeg in small.items() if jpeg}
    return {side: f"data:image/jpeg;base64,{text}" for side, text in held.items()}


def draw_marks(image: Image, sentences: Sequence[MarkedSentence], side: Side) -> Image:
    """A copy of an RGB uint8 ``(height, width, 3)`` image with numbered outlines and paths of sentences.

    The sentences come most salient first, so that it lies on top.
    """
    picture = np.ascontiguousarray(image).copy()
    rows, columns = image.shape[:2]
    thickness = 1 if min(rows, columns) < _SMALL else 2
    scale = min(0.7, max(0.4, min(rows, columns) / 800))
    for shape in reversed(shapes_of(sentences, side)):
        colour = _colour(shape.number)
        contour = np.clip(_pixels(shape.corners, image), 0, (columns - 1, rows - 1)).astype(np.int32)
        paths = [_pixels(path, image) for path in shape.paths]
        for ink, wide in ((_PAPER, thickness + 2), (colour, thickness)):
            cv2.polylines(picture, [contour], True, ink, wide, cv2.LINE_AA)
            cv2.polylines(picture, paths, False, ink, wide, cv2.LINE_AA)
        for path in paths:
            cv2.circle(picture, path[-1].tolist(), 2 * thickness, colour, cv2.FILLED, cv2.LINE_AA)
        _draw_number(picture, shape.number, contour, scale)
    return picture


def side_by_side(before: Image, after: Image, sentences: Sequence[MarkedSentence]) -> Image:
    """Before and after, RGB uint8 ``(height, width, 3)`` of any sizes, side by side with numbered outlines.

    The result is about twice as wide as `before` and at most 1940 pixels wide.
    """
    before = shrink(before, _LARGEST_PANEL)
    rows, columns = before.shape[:2]
    size = (max(1, round(after.shape[1] * rows / after.shape[0])), rows)
    after = np.asarray(cv2.resize(after, size, interpolation=cv2.INTER_AREA), np.uint8)
    left, right = (
        draw_marks(each, sentences, side) for each, side in zip((before, after), SIDES, strict=True)
    )
    return np.hstack([left, np.full((rows, max(4, columns // 50), 3), _PAPER, np.uint8), right])


def _colour(number: int) -> tuple[int, int, int]:
    return COLOURS[(number - 1) % len(COLOURS)]


def _pixels(points: ArrayLike, image: Image) -> NDArray[np.int32]:
    """Points in 0..1 as ``(n, 2)`` pixels."""
    return np.round(np.array(points) * (image.shape[1], image.shape[0]) - 0.5).astype(np.int32)


def _draw_number(image: Image, number: int, contour: NDArray[np.int32], scale: float) -> None:
    """The number on a patch of its colour, above the contour's highest point where there is room."""
    text, pad = str(number), max(2, round(8 * scale))
    wide, high = (size + 2 * pad for size in cv2.getTextSize(text, _FONT, scale, 1)[0])
    y = contour[:, 1].min()
    x = contour[contour[:, 1] == y, 0].mean()
    left = int(min(max(x - wide / 2, 0), max(0, image.shape[1] - wide)))
    top = max(0, int(y) - high - 1)
    cv2.rectangle(image, (left, top), (left + wide - 1, top + high - 1), _colour(number), cv2.FILLED)
    cv2.putText(image, text, (left + pad, top + high - pad), _FONT, scale, _PAPER, 1, cv2.LINE_AA)
