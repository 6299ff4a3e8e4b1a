"""Pictures with numbered boxes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import cv2
import numpy as np

from pipeline.clusters import Box
from pipeline.sources import Image

COLOURS = ((230, 100, 20), (0, 130, 220), (0, 150, 100), (200, 60, 150), (165, 115, 0), (110, 80, 210))
"""RGB of the boxes, in turn; told apart by colour-blind eyes too, and the numbers say the same."""

_FONT = cv2.FONT_HERSHEY_SIMPLEX
_INK, _PAPER = (30, 30, 30), (255, 255, 255)
_LARGEST_PANEL = 960


class Told(Protocol):
    """A sentence of a captioner or of a record."""

    @property
    def text(self) -> str:
        """The sentence."""
        ...

    @property
    def box(self) -> Box | None:
        """Where, ``(x, y, width, height)`` in 0..1 of the frame; None where that is not known."""
        ...


def draw_boxes(image: Image, boxes: Sequence[Box | None], numbers: Sequence[int]) -> Image:
    """A copy of the image with each box drawn and its number beside it.

    Args:
        image: RGB uint8 ``(height, width, 3)``.
        boxes: ``(x, y, width, height)`` in 0..1; parts beyond the image are cut, None is not drawn.
        numbers: one per box.

    Returns:
        RGB uint8 of the same shape.
    """
    drawn = np.ascontiguousarray(image).copy()
    line = max(2, round(min(image.shape[:2]) / 200))
    for box, number in reversed(list(zip(boxes, numbers, strict=True))):  # the most salient lies on top
        if box is not None:
            corner, opposite = _corners(box, image.shape)
            cv2.rectangle(drawn, corner, opposite, _PAPER, line + 2, cv2.LINE_AA)
            cv2.rectangle(drawn, corner, opposite, _colour(number), line, cv2.LINE_AA)
            _label(drawn, str(number), corner, _colour(number))
    return drawn


def shrink(image: Image, width: int) -> Image:
    """The image at most `width` pixels wide, in its own proportions."""
    height, full_width = image.shape[:2]
    if full_width <= width:
        return image
    size = (width, max(1, round(height * width / full_width)))
    return np.asarray(cv2.resize(image, size, interpolation=cv2.INTER_AREA), np.uint8)


def encode(image: Image, quality: int = 78) -> bytes:
    """The image as WebP.

    Args:
        image: RGB uint8 ``(height, width, 3)``.
        quality: 1..100.
    """
    settings = [int(cv2.IMWRITE_WEBP_QUALITY), quality]
    written, encoded = cv2.imencode(".webp", cv2.cvtColor(image, cv2.COLOR_RGB2BGR), settings)
    if not written:
        raise ValueError(f"an image of shape {image.shape} cannot be encoded as WebP")
    return bytes(encoded)


def side_by_side(before: Image, after: Image, sentences: Sequence[Told]) -> Image:
    """Before and after beside each other with numbered boxes, and the numbered sentences below.

    Args:
        before: RGB uint8 ``(height, width, 3)``.
        after: the same; it may be of another size.
        sentences: most salient first.

    Returns:
        RGB uint8, about twice as wide as `before` and at most 1940 pixels wide.
    """
    before = shrink(before, _LARGEST_PANEL)
    after = _of_height(shrink(after, _LARGEST_PANEL), before.shape[0])
    numbers = range(1, len(sentences) + 1)
    boxes = [sentence.box for sentence in sentences]
    panels = [draw_boxes(image, boxes, numbers) for image in (before, after)]
    scale = min(0.9, max(0.4, before.shape[1] / 900))
    margin = round(28 * scale)
    gap = np.full((before.shape[0], margin, 3), _PAPER, np.uint8)
    pictures = np.hstack([panels[0], gap, panels[1]])
    title = _text_rows([("before", None)], pictures.shape[1], scale)
    starts_after = before.shape[1] + margin
    title[:, starts_after:] = _text_rows([("after", None)], after.shape[1], scale)
    rows = [(f"{n}. {s.text}", n if s.box else None) for n, s in zip(numbers, sentences, strict=True)]
    told = _text_rows(rows or [("Nothing has changed.", None)], pictures.shape[1], scale)
    return np.vstack([title, pictures, told, np.full((margin // 2, pictures.shape[1], 3), _PAPER, np.uint8)])


def _text_rows(rows: Sequence[tuple[str, int | None]], width: int, scale: float) -> Image:
    """Lines of text, wrapped to `width`, each with a patch in the colour of its box's number."""
    height = cv2.getTextSize("N", _FONT, scale, 1)[0][1]
    margin = round(12 * scale)
    lines: list[tuple[str, int | None]] = []
    for text, number in rows:
        first, *rest = _wrapped(text, width - 4 * margin, scale)
        lines += [(first, number), *(("    " + line, None) for line in rest)]
    step = round(height * 1.8)
    paper = np.full((step * len(lines) + margin, width, 3), _PAPER, np.uint8)
    for index, (text, number) in enumerate(lines):
        base = step * (index + 1) - step // 4
        if number is not None:
            patch = ((margin // 2, base - height - 2), (margin // 2 + margin, base + 2))
            cv2.rectangle(paper, *patch, _colour(number), cv2.FILLED)
        cv2.putText(paper, text, (2 * margin, base), _FONT, scale, _INK, 1, cv2.LINE_AA)
    return paper


def _wrapped(text: str, width: int, scale: float) -> list[str]:
    """The text in lines of at most `width` pixels; a single longer word stays whole."""
    lines = [""]
    for word in text.encode("ascii", "replace").decode().split():  # OpenCV's own fonts know no other letters
        longer = f"{lines[-1]} {word}".lstrip()
        if cv2.getTextSize("    " + longer, _FONT, scale, 1)[0][0] > width and lines[-1]:
            lines.append(word)
        else:
            lines[-1] = longer
    return lines


def _label(image: Image, text: str, corner: tuple[int, int], colour: tuple[int, int, int]) -> None:
    """A number on a patch: above the corner, or inside the box where there is no room above."""
    scale = min(1.2, max(0.45, min(image.shape[:2]) / 700))
    thick = 2 if scale > 0.6 else 1  # noqa: PLR2004 - thin strokes stay legible only while small
    (width, height), _ = cv2.getTextSize(text, _FONT, scale, thick)
    pad = max(3, height // 3)
    patch = (width + 2 * pad, height + 2 * pad)
    x = max(0, min(corner[0], image.shape[1] - patch[0]))
    y = corner[1] - patch[1] if corner[1] >= patch[1] else corner[1]
    y = max(0, min(y, image.shape[0] - patch[1]))
    cv2.rectangle(image, (x, y), (x + patch[0], y + patch[1]), colour, cv2.FILLED)
    cv2.putText(image, text, (x + pad, y + pad + height), _FONT, scale, _PAPER, thick, cv2.LINE_AA)


def _corners(box: Box, shape: tuple[int, ...]) -> tuple[tuple[int, int], tuple[int, int]]:
    x, y, width, height = box
    rows, columns = shape[:2]
    left, right = (min(columns - 1, max(0, round(v * columns))) for v in (x, x + width))
    top, bottom = (min(rows - 1, max(0, round(v * rows))) for v in (y, y + height))
    return (left, top), (right, bottom)


def _colour(number: int) -> tuple[int, int, int]:
    return COLOURS[(number - 1) % len(COLOURS)]


def _of_height(image: Image, height: int) -> Image:
    if image.shape[0] == height:
        return image
    size = (max(1, round(image.shape[1] * height / image.shape[0])), height)
    return np.asarray(cv2.resize(image, size, interpolation=cv2.INTER_AREA), np.uint8)
