"""Inference: the sizes at which the detector sees frames, the detector on a CPU, and decoding its answers."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from models.detections import FAMILY, GROUPS, LEAST, Detections, overlaps, suppress
from models.embedding import load_session, shrinkage_options
from models.families import CLASSES
from models.grounded.observations import Floats, pool_features
from models.grounded.settings import SETTINGS

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

STRIDES = (8, 16, 32, 64)  # pixels of the picture per cell of each level
BINS = 8  # an edge lies 0 to 7 cells from a cell's middle

_MARGIN = 1e-3  # in logits, for the first sieve
_CELL = 32
_LARGE_PIXELS = 1.5 * SETTINGS.pixels  # of rare pictures, after which ONNX Runtime would hold 60 MB more


@dataclass(frozen=True, slots=True, eq=False)
class Answers:
    """The detector's outputs for one picture in each of A cells, the finest level first."""

    # float32 ``(A, classes + 4 BINS)``: logits of the classes, then those of the distances from the
    # cell's middle to left, top, right and bottom edge, in cells
    cells: Floats
    maps: tuple[Floats, ...]  # the neck's levels, float32 ``(96, h, w)`` each, finest first


def decode(answers: Answers, size: tuple[int, int], least: float) -> Detections:
    """The objects of a picture of a height and width in pixels, all of which the frame fills."""
    logits = answers.cells[:, : len(CLASSES)]
    # of few columns NumPy finds the maximum faster in rows: 2 ms less
    keep = np.flatnonzero(logits.T.copy().max(0) >= math.log(least / (1 - least)) - _MARGIN)
    probability = 1 / (1 + np.exp(-logits[keep]))
    named = np.stack([probability[:, row].max(1, initial=0.0) for row in GROUPS], axis=1)
    best, label = named.max(1), named.argmax(1)
    order = np.argsort(-best, kind="stable")
    order = order[best[order] >= least][: 6 * SETTINGS.most_detections]
    box = boxes(answers, size, keep[order])
    same = overlaps(box, box) > SETTINGS.same_detection
    rivals = same & (FAMILY[label[order], None] == FAMILY[label[order]])
    rows = suppress(rivals)[: SETTINGS.most_detections]
    rows = rows[(box[rows, 2:] > 0).all(1)]
    box, order = box[rows], order[rows]
    return Detections(box, best[order], named[order], pool_features(answers.maps, box))


def boxes(answers: Answers, size: tuple[int, int], cells: NDArray[np.int64]) -> Floats:
    """The boxes ``(N, 4)`` of some cells, int64 ``(N,)``, cut at the edge of the picture."""
    height, width = size
    middle, stride = cells_of(tuple(level.shape[1:] for level in answers.maps))
    logits = answers.cells[cells, len(CLASSES) :].reshape(-1, 4, BINS)
    weight = np.exp(logits - logits.max(2, keepdims=True))
    far = (weight * np.arange(BINS, dtype=np.float32)).sum(2) / weight.sum(2) * stride[cells, None]
    edge = np.array([width, height], np.float32)
    low = ((middle[cells] - far[:, :2]) / edge).clip(0, 1)
    high = ((middle[cells] + far[:, 2:]) / edge).clip(0, 1)
    return np.concatenate([low, high - low], axis=1)


@lru_cache(maxsize=64)
def cells_of(levels: tuple[tuple[int, ...], ...]) -> tuple[Floats, Floats]:
    """Middles ``(A, 2)``, x and y in pixels, and strides ``(A,)`` of the cells of levels (height, width)."""
    middles, strides = list[Floats](), list[Floats]()
    for (height, width), stride in zip(levels, STRIDES, strict=True):
        rows, columns = ((np.arange(n, dtype=np.float32) + 0.5) * stride for n in (height, width))
        x, y = np.meshgrid(columns, rows)
        middles.append(np.stack([x.ravel(), y.ravel()], axis=1))
        strides.append(np.full(x.size, stride, np.float32))
    return np.concatenate(middles), np.concatenate(strides)


class OnnxDetector:
    """A detector as an ONNX graph on the CPU, see `models.detections.Detector`.

    The graph is from uint8 RGB ``(1, h, w, 3)`` to what `Answers` holds. A picture's digits depend neither on
    what is looked at beside it nor on the number of threads: `OMP_NUM_THREADS`, or half as many as there are
    processors, as of two hyperthreads the second adds less than it costs.
    """

    def __init__(self, graph: bytes, threads: int | None = None) -> None:
        self._graph, self._threads = graph, threads or default_threads()
        self._session: InferenceSession | None = None
        self._is_used = False

    def unload_if_idle(self) -> None:
        """Let go of the session, 30 MB, unless it was used since the last call; a picture loads it again."""
        if not self._is_used:
            self._session = None
        self._is_used = False

    def detect(self, images: Sequence[NDArray[np.uint8]], least: float = LEAST) -> list[Detections]:
        """See `models.detections.Detector`; one by one: eight at once take more memory and no less time."""
        return [decode(self.answers(image), image.shape[:2], least) for image in images]

    def answers(self, image: NDArray[np.uint8]) -> Answers:
        """The detector's outputs for an image RGB ``(h, w, 3)``, sides multiples of 32."""
        self._is_used = True
        session = self._session = self._session or load_session(self._graph, self._threads)
        is_large = image.shape[0] * image.shape[1] > _LARGE_PIXELS
        cells, *maps = session.run(None, {"pictures": image[None]}, shrinkage_options() if is_large else None)
        return Answers(cells[0], tuple(level[0] for level in maps))


def default_threads() -> int:
    asked = os.environ.get("OMP_NUM_THREADS", "")
    return int(asked) if asked.isdecimal() and int(asked) else max(1, len(os.sched_getaffinity(0)) // 2)


def pixels_at(gap_s: float) -> int:
    """About so many pixels the detector sees of stills this many seconds apart, NaN where not known."""
    return SETTINGS.fine_pixels if gap_s >= SETTINGS.fine_gap_s else SETTINGS.pixels


def canvas(height: int, width: int, pixels: int = SETTINGS.pixels) -> tuple[int, int]:
    """Size at which the detector sees a frame: multiples of 32 of its shape, about so many pixels."""
    high = max(_CELL, round((pixels * height / width) ** 0.5 / _CELL) * _CELL)
    wide = max(_CELL, round(pixels / high / _CELL) * _CELL)
    return high, wide
