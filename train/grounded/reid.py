"""The linker's teacher: a re-identification network in OpenVINO's format, which the user names."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from train.footage.teachers import openvino_network


class Reid:
    """Vectors that are alike for one object; made for people, it serves for vehicles as well.

    Args:
        model: an ``.xml`` file of OpenVINO, or the folder of one; its input is BGR 0..255
            ``(1, 3, height, width)``.
    """

    def __init__(self, model: Path) -> None:
        path = next(iter(sorted(model.glob("*.xml"))), model) if model.is_dir() else model
        read, self._net = openvino_network(path)
        _, _, self._height, self._width = read.inputs[0].shape
        self.size = int(np.prod(read.outputs[0].shape))

    def __call__(self, image: NDArray[np.uint8], box: list[float]) -> Tensor:
        """Unit vector float32 ``(size,)`` of what stands in a box, ``x, y, width, height`` in 0..1.

        Args:
            image: RGB uint8 ``(height, width, 3)``.
            box: at least a pixel large.
        """
        height, width = image.shape[:2]
        x, y, w, h = box
        left, top = min(int(x * width), width - 1), min(int(y * height), height - 1)
        cut = image[top : max(round((y + h) * height), top + 1), left : max(round((x + w) * width), left + 1)]
        small = cv2.resize(cut, (self._width, self._height), interpolation=cv2.INTER_LINEAR)[..., ::-1]
        self._net.infer({0: np.ascontiguousarray(small, np.float32).transpose(2, 0, 1)[None]})
        vector = torch.from_numpy(self._net.get_output_tensor(0).data.reshape(-1).copy())
        return torch.nn.functional.normalize(vector, dim=0)
