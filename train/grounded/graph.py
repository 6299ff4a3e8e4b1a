"""The detector as an ONNX graph, which ONNX Runtime computes on a CPU in less than half of torch's time."""

import io
import warnings

import torch
from torch import Tensor

from models.grounded.detector import Detector

_OPSET = 17  # of 2022: runtimes of any age since then read it


class _Graph(Detector):
    """The detector as a function of pictures uint8 RGB ``(B, h, w, 3)``; its outputs: see `Answers`."""

    def forward(self, pictures: Tensor) -> tuple[Tensor, ...]:  # type: ignore[override]
        return self.outputs(pictures.permute(0, 3, 1, 2))


def export_onnx(detector: Detector) -> bytes:
    """The graph of a detector.

    Its weights keep the names that they have in the module, so that this can be made again
    (`models.grounded.detector.detector_of`).
    """
    net = _Graph(detector.classes, detector.width).eval()
    net.load_state_dict(detector.state_dict())
    written = io.BytesIO()
    with warnings.catch_warnings():  # the exporter that came after it needs another package
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.onnx.export(
            net,
            (torch.zeros(1, 64, 64, 3, dtype=torch.uint8),),
            written,  # type: ignore[arg-type]  # a file will do
            dynamo=False,
            opset_version=_OPSET,
            do_constant_folding=False,  # it would rename the weights
            input_names=["pictures"],
            output_names=["cells", *(f"map{level}" for level in range(4))],
            dynamic_axes={"pictures": {0: "b", 1: "h", 2: "w"}},
        )
    return written.getvalue()
