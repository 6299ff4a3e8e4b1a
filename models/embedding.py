"""The appearance embedding, crops to vectors for re-identification; and ONNX Runtime's sessions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import cv2
import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from onnxruntime import InferenceSession, RunOptions

SIZE = 256, 128  # height and width of a crop in pixels


class AppearanceEmbedding:
    """Embeds crops. A vector's digits depend neither on its batch nor on threads.

    The graph, ONNX, is from crops uint8 RGB ``(B, 256, 128, 3)`` to unit vectors float32 ``(B, D)``.
    """

    def __init__(self, graph: bytes, threads: int = 1) -> None:
        self._graph, self._threads = graph, threads

    @cached_property
    def _session(self) -> InferenceSession:
        return load_session(self._graph, self._threads)

    @property
    def size(self) -> int:
        return int(self._session.get_outputs()[0].shape[1])

    def __call__(self, image: NDArray[np.uint8], boxes: NDArray[np.floating]) -> NDArray[np.float32]:
        """Unit vectors ``(N, size)`` of boxes ``(N, 4)`` in 0..1: a product of two is their cosine.

        The image, RGB ``(h, w, 3)``, is of the camera's own size: small people have few pixels as it is.
        """
        return self.embed([crop(image, box) for box in boxes])

    def embed(self, crops: Sequence[NDArray[np.uint8]]) -> NDArray[np.float32]:
        """Unit vectors ``(N, size)`` of N crops, see `crop`; eight at once take 60 MB more, not less time."""
        vectors = [self._session.run(None, {"crops": each[None]})[0] for each in crops]
        return np.concatenate([np.zeros((0, self.size), np.float32), *vectors])


def crop(image: NDArray[np.uint8], box: NDArray[np.floating]) -> NDArray[np.uint8]:
    """The image within a box, uint8 RGB ``(256, 128, 3)``; at least a pixel of the image."""
    height, width = image.shape[:2]
    x, y, w, h = (float(each) for each in box)
    left, top = (min(max(int(a), 0), b - 1) for a, b in ((x * width, width), (y * height, height)))
    right, bottom = max(round((x + w) * width), left + 1), max(round((y + h) * height), top + 1)
    cut = image[top:bottom, left:right]
    way = cv2.INTER_AREA if cut.shape[0] > SIZE[0] else cv2.INTER_LINEAR
    return np.asarray(cv2.resize(cut, SIZE[::-1], interpolation=way), np.uint8)


def load_session(graph: bytes, threads: int) -> InferenceSession:
    """A session on the CPU, in so many threads; a daemon does without until something moves."""
    import onnxruntime  # noqa: PLC0415 - 20 MB

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # waits would burn a core
    options.enable_mem_pattern = False  # 12 MB of plans: regions of a picture have many sizes
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])


def shrinkage_options() -> RunOptions:
    """Options of a run after which the session's arena gives its memory back."""
    import onnxruntime  # noqa: PLC0415 - loaded by now

    options = onnxruntime.RunOptions()
    options.add_run_config_entry("memory.enable_memory_arena_shrinkage", "cpu:0")
    return options
