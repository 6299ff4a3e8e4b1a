"""Inference: the detector on a CPU, and the sizes at which it sees frames."""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from models.detections import Detections
from models.grounded.detections import Answers, decode
from models.grounded.settings import SETTINGS

_CELL = 32
_LARGE_PIXELS = 1.5 * SETTINGS.pixels  # of rare pictures, after which ONNX Runtime would hold 60 MB more


class OnnxDetector:
    """A detector as an ONNX graph on the CPU, see `models.detections.Detector`.

    A picture's digits depend neither on what is looked at beside it nor on the number of threads.

    Args:
        graph: from uint8 RGB ``(1, h, w, 3)`` to what `Answers` holds.
        threads: of ONNX Runtime; None takes `OMP_NUM_THREADS`, or half as many as there are processors: of
            two hyperthreads the second adds less than it costs.
    """

    def __init__(self, graph: bytes, threads: int | None = None) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads or default_threads()
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # waits would burn a core
        options.log_severity_level = 3
        self._session = onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
        self._let_go = onnxruntime.RunOptions()
        self._let_go.add_run_config_entry("memory.enable_memory_arena_shrinkage", "cpu:0")

    def detect(
        self, images: Sequence[NDArray[np.uint8]], least: float = SETTINGS.seen_score
    ) -> list[Detections]:
        """See `models.detections.Detector`; one by one: eight at once take more memory and no less time."""
        return [decode(self.answers(image), image.shape[:2], least) for image in images]

    def answers(self, image: NDArray[np.uint8]) -> Answers:
        """The detector's outputs for an image RGB ``(h, w, 3)``, sides multiples of 32."""
        is_large = image.shape[0] * image.shape[1] > _LARGE_PIXELS
        cells, *maps = self._session.run(None, {"pictures": image[None]}, self._let_go if is_large else None)
        return Answers(cells[0], tuple(level[0] for level in maps))


def default_threads() -> int:
    """Number of threads that compute a picture, see `OnnxDetector`."""
    asked = os.environ.get("OMP_NUM_THREADS", "")
    return int(asked) if asked.isdecimal() and int(asked) else max(1, len(os.sched_getaffinity(0)) // 2)


def pixels_at(gap_s: float) -> int:
    """About so many pixels the detector sees of stills this many seconds apart, NaN where not known."""
    return SETTINGS.fine_pixels if gap_s >= SETTINGS.fine_gap_s else SETTINGS.pixels


def canvas(height: int, width: int, pixels: int = SETTINGS.pixels) -> tuple[int, int]:
    """Height and width in pixels at which the detector sees a frame: multiples of 32 of about its shape.

    Args:
        height: of the frame in pixels.
        width: of the frame in pixels.
        pixels: about how many it should have.
    """
    high = max(_CELL, round((pixels * height / width) ** 0.5 / _CELL) * _CELL)
    wide = max(_CELL, round(pixels / high / _CELL) * _CELL)
    return high, wide
