"""Pictures of a pair with what is told about it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import cv2
import numpy as np

from pipeline.report.marks import FONT, PAPER, SIDES, MarkedSentence, colour, draw_marks, marks
from pipeline.sources import Image
from pipeline.sources.picture import shrink

PictureKind = Literal["webp", "jpg"]

_INK = (30, 30, 30)
_LARGEST_PANEL = 960


def encode(image: Image, quality: int = 78, kind: PictureKind = "webp") -> bytes:
    """The image as WebP, or as JPEG, which is some three times as large and made twenty times as fast.

    Args:
        image: RGB uint8 ``(height, width, 3)``.
        quality: 1..100.
        kind: which of the two, by the suffix of its files.
    """
    setting = cv2.IMWRITE_WEBP_QUALITY if kind == "webp" else cv2.IMWRITE_JPEG_QUALITY
    written, encoded = cv2.imencode(f".{kind}", cv2.cvtColor(image, cv2.COLOR_RGB2BGR), [setting, quality])
    if not written:
        raise ValueError(f"an image of shape {image.shape} cannot be encoded as {kind}")
    return bytes(encoded)


def side_by_side(
    before: Image, after: Image, sentences: Sequence[MarkedSentence], silence: str = "Nothing has changed."
) -> Image:
    """Before and after beside each other with numbered outlines, and the numbered sentences below.

    Args:
        before: RGB uint8 ``(height, width, 3)``.
        after: the same; it may be of another size.
        sentences: most salient first.
        silence: what is written where there are none.

    Returns:
        RGB uint8, about twice as wide as `before` and at most 1940 pixels wide.
    """
    before = shrink(before, _LARGEST_PANEL)
    after = _of_height(shrink(after, _LARGEST_PANEL), before.shape[0])
    panels = [draw_marks(before, marks(sentences, "before")), draw_marks(after, marks(sentences, "after"))]
    scale = min(0.9, max(0.4, before.shape[1] / 900))
    margin = round(28 * scale)
    gap = np.full((before.shape[0], margin, 3), PAPER, np.uint8)
    pictures = np.hstack([panels[0], gap, panels[1]])
    title = _text_rows([("before", None)], pictures.shape[1], scale)
    starts_after = before.shape[1] + margin
    title[:, starts_after:] = _text_rows([("after", None)], after.shape[1], scale)
    marked = {mark.number for side in SIDES for mark in marks(sentences, side)}
    rows = [(f"{n}. {s.text}", n if n in marked else None) for n, s in enumerate(sentences, 1)]
    texts = _text_rows(rows or [(silence, None)], pictures.shape[1], scale)
    return np.vstack([title, pictures, texts, np.full((margin // 2, pictures.shape[1], 3), PAPER, np.uint8)])


def _text_rows(rows: Sequence[tuple[str, int | None]], width: int, scale: float) -> Image:
    """Lines of text, wrapped to `width`, each with a patch in the colour of its number."""
    height = cv2.getTextSize("N", FONT, scale, 1)[0][1]
    margin = round(12 * scale)
    lines: list[tuple[str, int | None]] = []
    for text, number in rows:
        first, *rest = _wrapped(text, width - 4 * margin, scale)
        lines += [(first, number), *(("    " + line, None) for line in rest)]
    step = round(height * 1.8)
    paper = np.full((step * len(lines) + margin, width, 3), PAPER, np.uint8)
    for index, (text, number) in enumerate(lines):
        base = step * (index + 1) - step // 4
        if number is not None:
            patch = ((margin // 2, base - height - 2), (margin // 2 + margin, base + 2))
            cv2.rectangle(paper, *patch, colour(number), cv2.FILLED)
        cv2.putText(paper, text, (2 * margin, base), FONT, scale, _INK, 1, cv2.LINE_AA)
    return paper


def _wrapped(text: str, width: int, scale: float) -> list[str]:
    """The text in lines of at most `width` pixels; a single longer word stays whole."""
    lines = [""]
    for word in text.encode("ascii", "replace").decode().split():  # OpenCV's own fonts know no other letters
        longer = f"{lines[-1]} {word}".lstrip()
        if cv2.getTextSize("    " + longer, FONT, scale, 1)[0][0] > width and lines[-1]:
            lines.append(word)
        else:
            lines[-1] = longer
    return lines


def _of_height(image: Image, height: int) -> Image:
    if image.shape[0] == height:
        return image
    size = (max(1, round(image.shape[1] * height / image.shape[0])), height)
    return np.asarray(cv2.resize(image, size, interpolation=cv2.INTER_AREA), np.uint8)
