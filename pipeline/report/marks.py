"""Marks on a picture: the numbered outline or box of each thing that is told, on the side where it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import cv2
import numpy as np
from numpy.typing import NDArray

from models.boxes import Box
from models.sentences import Outline, PlacedSentence
from pipeline.report.labels import Rectangle, place_labels
from pipeline.sources import Image

COLOURS = ((230, 100, 20), (0, 130, 220), (0, 150, 100), (200, 60, 150), (165, 115, 0), (110, 80, 210))
"""RGB of the marks, in turn; told apart by colour-blind eyes too, and the numbers say the same."""

FONT = cv2.FONT_HERSHEY_SIMPLEX
PAPER = (255, 255, 255)
_SMALL = 320  # pixels: on smaller pictures lines are 1 pixel wide, on larger ones WebP would blur that away
_FRACTION_BITS = 4  # OpenCV draws at sixteenths of a pixel, so that a thin outline lies where it belongs

Path = tuple[tuple[float, float], ...]
"""Points ``(x, y)`` in 0..1 of the frame, in order of time."""

Side = Literal["before", "after"]
SIDES: tuple[Side, Side] = ("before", "after")


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
        """The ways of its objects where they were followed; empty or None where they were not."""
        ...


@dataclass(frozen=True, slots=True)
class Mark:
    """What is drawn for one sentence on one picture.

    Attributes:
        number: of the sentence; it decides the colour as well.
        box: ``(x, y, width, height)`` in 0..1; parts beyond the picture are cut.
        outline: drawn instead of the box where it is known.
        paths: the ways of its objects, each drawn as a line with a dot where it ends.
    """

    number: int
    box: Box
    outline: Outline = ()
    paths: tuple[Path, ...] = ()


def marks(sentences: Sequence[MarkedSentence], side: Side) -> list[Mark]:
    """The marks of one side, numbered 1, 2, ... by the sentences.

    What is told on one side only is marked there only; a sentence that knows no side is marked on both.
    """
    found = []
    for number, sentence in enumerate(sentences, 1):
        sided = sentence.before is not None or sentence.after is not None
        box = (sentence.before if side == "before" else sentence.after) if sided else sentence.box
        outline = (sentence.outline_before if side == "before" else sentence.outline_after) if sided else ()
        if box is not None:
            found.append(Mark(number, box, outline or (), tuple(sentence.paths or ())))
    return found


def colour(number: int) -> tuple[int, int, int]:
    """RGB of a sentence's marks."""
    return COLOURS[(number - 1) % len(COLOURS)]


def draw_marks(image: Image, drawn: Sequence[Mark], *, numbered: bool = True) -> Image:
    """A copy of the image with thin outlines, each with its number beside it.

    Args:
        image: RGB uint8 ``(height, width, 3)``.
        drawn: most salient first.
        numbered: False leaves the numbers out.

    Returns:
        RGB uint8 of the same shape.
    """
    picture = np.ascontiguousarray(image).copy()
    line = 1 if min(image.shape[:2]) < _SMALL else 2
    contours = [_contour(mark, image.shape) for mark in drawn]
    pale = picture.copy()
    for contour in contours:
        _polygon(pale, contour, PAPER, line + 2)
    picture = np.asarray(cv2.addWeighted(picture, 0.45, pale, 0.55, 0), np.uint8)
    for mark, contour in reversed(list(zip(drawn, contours, strict=True))):  # the most salient lies on top
        _polygon(picture, contour, colour(mark.number), line)
        for path in mark.paths:
            _line(picture, path, colour(mark.number), line)
    if numbered:
        _draw_labels(picture, drawn, contours)
    return picture


def _contour(mark: Mark, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Corners in pixels, ``(n, 2)``, inside the image."""
    x, y, width, height = mark.box
    corners = mark.outline or ((x, y), (x + width, y), (x + width, y + height), (x, y + height))
    rows, columns = shape[:2]
    return np.clip(np.array(corners) * (columns, rows) - 0.5, 0, (columns - 1, rows - 1))


def _polygon(image: Image, corners: NDArray[np.float64], ink: tuple[int, int, int], line: int) -> None:
    fine = np.round(corners * 2**_FRACTION_BITS).astype(np.int32)
    cv2.polylines(image, [fine], True, ink, line, cv2.LINE_AA, _FRACTION_BITS)


def _line(image: Image, path: Path, ink: tuple[int, int, int], line: int) -> None:
    """A way, with a dot where it ends."""
    rows, columns = image.shape[:2]
    points = np.array(path) * (columns, rows) - 0.5
    fine = np.round(points * 2**_FRACTION_BITS).astype(np.int32)
    for width, paint in ((line + 2, PAPER), (line, ink)):
        cv2.polylines(image, [fine], False, paint, width, cv2.LINE_AA, _FRACTION_BITS)
    radius = 2 * line << _FRACTION_BITS
    cv2.circle(image, tuple(int(v) for v in fine[-1]), radius, ink, cv2.FILLED, cv2.LINE_AA, _FRACTION_BITS)


def _draw_labels(image: Image, drawn: Sequence[Mark], contours: Sequence[NDArray[np.float64]]) -> None:
    """Numbers on patches of colour, none on another, each beside what it names or joined to it by a line."""
    scale = min(0.7, max(0.4, min(image.shape[:2]) / 800))
    height = cv2.getTextSize("0", FONT, scale, 1)[0][1]
    pad = max(2, height // 3)
    widths = [cv2.getTextSize(str(mark.number), FONT, scale, 1)[0][0] for mark in drawn]
    things = [
        Rectangle(*c.min(axis=0).round().astype(int), *np.ptp(c, axis=0).round().astype(int))
        for c in contours
    ]
    sizes = [(width + 2 * pad, height + 2 * pad) for width in widths]
    tops = [contour[contour[:, 1] == contour[:, 1].min(), 0] for contour in contours]
    peaks = [int(top.mean()) for top in tops]
    places = place_labels(things, peaks, sizes, (image.shape[1], image.shape[0]))
    for mark, thing, place in zip(drawn, things, places, strict=True):
        if thing.gap(place) > pad:
            cv2.line(image, thing.nearest(place.centre), place.centre, colour(mark.number), 1, cv2.LINE_AA)
    for mark, place in zip(drawn, places, strict=True):
        end = (place.x + place.width - 1, place.y + place.height - 1)
        cv2.rectangle(image, (place.x, place.y), end, colour(mark.number), cv2.FILLED)
        base = (place.x + pad, place.y + pad + height)
        cv2.putText(image, str(mark.number), base, FONT, scale, PAPER, 1, cv2.LINE_AA)
