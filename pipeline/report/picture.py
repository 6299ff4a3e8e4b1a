"""Pictures with marks: the numbered outline or box of what each sentence is about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import cv2
import numpy as np
from numpy.typing import NDArray

from models.boxes import Box
from models.sentences import Outline, PlacedSentence
from pipeline.report.card import COLOURS, Side
from pipeline.sources import Image
from pipeline.sources.picture import shrink

PictureKind = Literal["webp", "jpg"]
Path = tuple[tuple[float, float], ...]
"""Points ``(x, y)`` in 0..1 of the frame, in order of time."""

SIDES: tuple[Side, Side] = ("before", "after")

_FONT = cv2.FONT_HERSHEY_SIMPLEX
_PAPER = (255, 255, 255)
_INK = (30, 30, 30)
_LARGEST_PANEL = 960
_SMALL = 320  # pixels: on smaller pictures lines are 1 pixel wide, on larger ones WebP would blur that away
_FRACTION_BITS = 4  # OpenCV draws at sixteenths of a pixel, so that a thin outline lies where it belongs


class MarkedSentence(PlacedSentence, Protocol):
    """A sentence of a captioner or of a record, with all that is drawn of it."""

    @property
    def text(self) -> str:
        """The sentence."""
        ...

    @property
    def outline_before(self) -> Outline | None:
        """Its outline on the before frame; empty or None where that is not known."""
        ...

    @property
    def outline_after(self) -> Outline | None:
        """Its outline on the after frame."""
        ...

    @property
    def paths(self) -> Sequence[Path] | None:
        """Paths of its tracks; empty or None without tracks."""
        ...


@dataclass(frozen=True, slots=True)
class Mark:
    """What is drawn for one sentence on one picture.

    Attributes:
        number: of the sentence, from 1; it decides the colour as well.
        box: ``(x, y, width, height)`` in 0..1; parts beyond the picture are cut.
        outline: drawn instead of the box where it is known.
        paths: each a line with a dot where it ends.
    """

    number: int
    box: Box
    outline: Outline = ()
    paths: tuple[Path, ...] = ()


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


def marks(sentences: Sequence[MarkedSentence], side: Side) -> list[Mark]:
    """The marks of one side, numbered 1, 2, ... by the sentences.

    A sentence about one side is marked there only; one that knows no side is marked on both.
    """
    found = []
    for number, sentence in enumerate(sentences, 1):
        sided = sentence.before is not None or sentence.after is not None
        box = (sentence.before if side == "before" else sentence.after) if sided else sentence.box
        outline = (sentence.outline_before if side == "before" else sentence.outline_after) if sided else ()
        if box is not None:
            found.append(Mark(number, box, outline or (), tuple(sentence.paths or ())))
    return found


def draw_marks(image: Image, drawn: Sequence[Mark], *, numbered: bool = True) -> Image:
    """A copy of the image with thin outlines, each with its number beside it.

    Args:
        image: RGB uint8 ``(height, width, 3)``.
        drawn: most salient first, so that it lies on top.
        numbered: False leaves the numbers out.

    Returns:
        RGB uint8 of the same shape.
    """
    picture = np.ascontiguousarray(image).copy()
    line = 1 if min(image.shape[:2]) < _SMALL else 2
    contours = [_contour(mark, image.shape) for mark in drawn]
    pale = picture.copy()
    for contour in contours:
        _draw_line(pale, contour, _PAPER, line + 2, closed=True)
    picture = np.asarray(cv2.addWeighted(picture, 0.45, pale, 0.55, 0), np.uint8)
    rows, columns = image.shape[:2]
    for mark, contour in reversed(list(zip(drawn, contours, strict=True))):
        _draw_line(picture, contour, _colour(mark.number), line, closed=True)
        for path in mark.paths:
            points = np.array(path) * (columns, rows) - 0.5
            _draw_line(picture, points, _PAPER, line + 2)
            _draw_line(picture, points, _colour(mark.number), line)
            end = tuple(int(v) for v in np.round(points[-1]))
            cv2.circle(picture, end, 2 * line, _colour(mark.number), cv2.FILLED, cv2.LINE_AA)
    if numbered:
        _draw_numbers(picture, drawn, contours)
    return picture


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
    gap = np.full((before.shape[0], margin, 3), _PAPER, np.uint8)
    pictures = np.hstack([panels[0], gap, panels[1]])
    title = _text_rows([("before", None)], pictures.shape[1], scale)
    title[:, before.shape[1] + margin :] = _text_rows([("after", None)], after.shape[1], scale)
    marked = {mark.number for side in SIDES for mark in marks(sentences, side)}
    rows = [(f"{n}. {s.text}", n if n in marked else None) for n, s in enumerate(sentences, 1)]
    texts = _text_rows(rows or [(silence, None)], pictures.shape[1], scale)
    return np.vstack([title, pictures, texts, np.full((margin // 2, pictures.shape[1], 3), _PAPER, np.uint8)])


def _colour(number: int) -> tuple[int, int, int]:
    return COLOURS[(number - 1) % len(COLOURS)]


def _contour(mark: Mark, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Corners in pixels, ``(n, 2)``, inside the image."""
    x, y, width, height = mark.box
    corners = mark.outline or ((x, y), (x + width, y), (x + width, y + height), (x, y + height))
    rows, columns = shape[:2]
    return np.clip(np.array(corners) * (columns, rows) - 0.5, 0, (columns - 1, rows - 1))


def _draw_line(
    image: Image, points: NDArray[np.float64], ink: tuple[int, int, int], line: int, *, closed: bool = False
) -> None:
    fine = np.round(points * 2**_FRACTION_BITS).astype(np.int32)
    cv2.polylines(image, [fine], closed, ink, line, cv2.LINE_AA, _FRACTION_BITS)


def _draw_numbers(image: Image, drawn: Sequence[Mark], contours: Sequence[NDArray[np.float64]]) -> None:
    """Numbers on patches of colour above what they name, or as near below that as there is room."""
    scale = min(0.7, max(0.4, min(image.shape[:2]) / 800))
    height = cv2.getTextSize("0", _FONT, scale, 1)[0][1]
    pad = max(2, height // 3)
    taken: list[tuple[int, int, int]] = []
    for mark, contour in zip(drawn, contours, strict=True):
        text = str(mark.number)
        wide, high = cv2.getTextSize(text, _FONT, scale, 1)[0][0] + 2 * pad, height + 2 * pad
        top = contour[:, 1].min()
        peak = contour[contour[:, 1] == top, 0].mean()
        left = int(min(max(peak - wide / 2, 0), max(0, image.shape[1] - wide)))
        first = max(0, int(top) - high - 1)
        places = range(first, max(first + 1, image.shape[0] - high), high)
        free = (
            y
            for y in places
            if not any(abs(y - b) < high and left < c and a < left + wide for a, b, c in taken)
        )
        y = next(free, first)
        taken.append((left, y, left + wide))
        cv2.rectangle(image, (left, y), (left + wide - 1, y + high - 1), _colour(mark.number), cv2.FILLED)
        cv2.putText(image, text, (left + pad, y + pad + height), _FONT, scale, _PAPER, 1, cv2.LINE_AA)


def _text_rows(rows: Sequence[tuple[str, int | None]], width: int, scale: float) -> Image:
    """Lines of text, wrapped to `width`, each with a patch in the colour of its number."""
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


def _of_height(image: Image, height: int) -> Image:
    if image.shape[0] == height:
        return image
    size = (max(1, round(image.shape[1] * height / image.shape[0])), height)
    return np.asarray(cv2.resize(image, size, interpolation=cv2.INTER_AREA), np.uint8)
