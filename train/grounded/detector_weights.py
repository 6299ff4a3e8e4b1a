"""The detector's weights: where training starts from, and the ONNX graph that a checkpoint keeps."""

import hashlib
import io
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from torch import Tensor, nn

from models.checkpoint import CheckpointError, read_checkpoint
from models.families import CLASSES, COCO
from models.grounded.detector import Detector, detector_of
from train.checkpoints import TrainError

_VAN_LESS = 0.5  # logits by which a van is thought rarer than car and lorry


def starting_detector(path: Path | None, seed: int = 0) -> Detector:
    """A detector to train: a checkpoint's, PicoDet-S of COCO (ONNX), or (None) random weights by `seed`."""
    if path is None:
        torch.manual_seed(seed)
        return Detector(len(CLASSES)).eval()
    if path.suffix == ".onnx":
        return _with_van(_picodet(path))
    try:
        _, weights = read_checkpoint(path)
    except CheckpointError as error:
        raise TrainError(f"{error} (or an ONNX file of PicoDet-S)") from error
    try:
        return detector_of(weights["graph.detector"].tobytes())
    except (KeyError, RuntimeError) as error:
        raise TrainError(
            f"{path} holds no detector of this version; give another checkpoint, or PicoDet-S in ONNX format"
        ) from error


def plain_start(path: Path | None) -> dict[str, str] | None:
    """The file with its hash, for records; None for random weights; TrainError if it cannot be read."""
    if path is None:
        return None
    try:
        return {"file": path.name, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
    except OSError as error:
        raise TrainError(f"{path} cannot be read ({error.strerror}); give another --start") from error


def _picodet(path: Path) -> Detector:
    """The weights of an ONNX file in a detector of COCO's classes: convolutions correspond by their order."""
    found = list(_convolutions(path))
    net = Detector(len(COCO)).eval()
    own: list[nn.Conv2d] = []
    hooks = [
        part.register_forward_hook(lambda part, _given, _out: own.append(part))
        for part in net.modules()
        if isinstance(part, nn.Conv2d)
    ]
    with torch.no_grad():
        net(torch.zeros(1, 3, 64, 64, dtype=torch.uint8))
        for hook in hooks:
            hook.remove()
        fits = len(own) == len(found) and all(
            tuple(part.weight.shape) == weight.shape and bias is not None
            for part, (weight, bias) in zip(own, found, strict=True)
        )
        if not fits:
            raise TrainError(
                f"{path} is not PicoDet-S trained on COCO's {len(COCO)} classes with folded batch norms: it "
                f"has {len(found)} convolutions, expected are {len(own)} of certain shapes"
            )
        for part, (weight, bias) in zip(own, found, strict=True):
            part.weight.copy_(torch.from_numpy(weight.copy()))
            assert part.bias is not None  # noqa: S101 - all of ours have one
            part.bias.copy_(torch.from_numpy(np.array(bias).reshape(-1)))
    return net


def _convolutions(path: Path) -> Iterator[tuple[Any, Any]]:
    """Weight and bias (None without one) of every convolution of an ONNX file, in their order."""
    try:
        graph = onnx.load(str(path)).graph
    except Exception as error:  # protobuf's and the file system's have no common ancestor
        raise TrainError(f"{path} cannot be read as ONNX ({error}); give another --start") from error
    values = {each.name: onnx.numpy_helper.to_array(each) for each in graph.initializer}
    for node in graph.node:
        if node.op_type == "Constant":
            values[node.output[0]] = onnx.numpy_helper.to_array(node.attribute[0].t)
    for node in graph.node:
        if node.op_type == "Conv":
            yield values[node.input[1]], values.get(node.input[2]) if len(node.input) > 2 else None  # noqa: PLR2004


def _with_van(net: Detector) -> Detector:
    """The same with a class for vans that begins between car and lorry: COCO calls them one or the other."""
    car, lorry = COCO.index("car"), COCO.index("truck")
    own = net.state_dict()
    for name, value in own.items():
        if name.startswith("answer."):
            less = _VAN_LESS if name.endswith("bias") else 0.0
            van = (value[car] + value[lorry]) / 2 - less
            own[name] = torch.cat([value[: len(COCO)], van[None], value[len(COCO) :]])
    wider = Detector(len(CLASSES))
    wider.load_state_dict(own)
    return wider.eval()


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
