"""The detector as an ONNX graph, which ONNX Runtime computes on a CPU in less than half of torch's time.

The weights have the names that they have in the module, so that it can be made of the graph again
(`models.grounded.detector.detector_of`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from torch import nn

from models.grounded.detector import Detector

_OPSET, _FORMAT = 17, 9
"""Of 2022: runtimes of any age since then read them."""


def export_onnx(detector: Detector) -> bytes:
    """The graph of a detector: from pictures uint8 RGB ``(B, h, w, 3)`` to cells and maps, see `Answers`."""
    return _Graph(detector).graph()


class _Graph:
    """Nodes and weights as they come; each method adds what the module of its name computes."""

    def __init__(self, detector: Detector) -> None:
        self._detector = detector
        self._names = {id(weight): name for name, weight in detector.named_parameters()}
        self._nodes: list[Any] = []
        self._weights: list[Any] = []

    def graph(self) -> bytes:
        own = self._detector
        x = self._node("Transpose", ["pictures"], perm=[0, 3, 1, 2])
        x = self._node("Cast", [x], to=TensorProto.FLOAT)
        x = self._node("Sub", [x, self._weight(own.mean.numpy()[None])])
        first, pool = own.stem
        x = self._conv(first, x, scale=own.deviation.numpy()[None])
        size, stride, pad = pool.kernel_size, pool.stride, pool.padding
        x = self._node("MaxPool", [x], kernel_shape=[size] * 2, strides=[stride] * 2, pads=[pad] * 4)
        levels = []
        for stage in own.stages:
            halve, *keeps = list(stage.children())
            x = self._halve(halve, x)
            for keep in keeps:
                x = self._keep(keep, x)
            levels.append(x)
        fine, mid, coarse = (self._conv(c, level) for c, level in zip(own.lateral, levels, strict=True))
        mid = self._partial(own.down[0], [self._double(coarse), mid])
        fine = self._partial(own.down[1], [self._double(mid), fine])
        mid = self._partial(own.up[0], [self._chain(own.halve[0], fine), mid])
        last = self._partial(own.up[1], [self._chain(own.halve[1], mid), coarse])
        top = self._node("Add", [self._chain(own.top[0], coarse), self._chain(own.top[1], last)])
        maps = [fine, mid, last, top]
        answers = []
        for level, tower, answer in zip(maps, own.tower, own.answer, strict=True):
            first, second = tower.children()
            out = self._conv(answer, self._chain(second, self._chain(first, level)))
            flat = self._node("Reshape", [out, self._weight(np.array([0, answer.out_channels, -1]))])
            answers.append(self._node("Transpose", [flat], perm=[0, 2, 1]))
        outputs = [self._node("Concat", answers, axis=1), *maps]
        ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
        start = helper.make_tensor_value_info("pictures", TensorProto.UINT8, ["b", "h", "w", 3])
        graph = helper.make_graph(self._nodes, "detector", [start], ends, self._weights)
        opset = [helper.make_opsetid("", _OPSET)]
        model: bytes = helper.make_model(graph, opset_imports=opset, ir_version=_FORMAT).SerializeToString()
        return model

    def _node(self, kind: str, inputs: Sequence[str], **attributes: Any) -> str:
        name = f"n{len(self._nodes)}"
        self._nodes.append(helper.make_node(kind, inputs, [name], **attributes))
        return name

    def _weight(self, values: NDArray[Any], name: str = "") -> str:
        name = name or f"w{len(self._weights)}"
        self._weights.append(numpy_helper.from_array(np.ascontiguousarray(values), name))
        return name

    def _conv(self, conv: nn.Module, x: str, scale: NDArray[np.float32] | None = None) -> str:
        """A convolution with its hard swish, if it has one, of what is `scale` times too large."""
        assert isinstance(conv, nn.Conv2d)  # noqa: S101
        assert conv.bias is not None  # noqa: S101
        weight, bias = (
            self._weight(each.detach().cpu().numpy(), self._names[id(each)])
            for each in (conv.weight, conv.bias)
        )
        if scale is not None:
            weight = self._node("Div", [weight, self._weight(scale)])
        out = self._node(
            "Conv",
            [x, weight, bias],
            group=conv.groups,
            kernel_shape=list(conv.kernel_size),
            strides=list(conv.stride),
            pads=[int(p) for p in conv.padding] * 2,
        )
        return self._node("HardSwish", [out]) if getattr(conv, "act", False) else out

    def _chain(self, convs: Any, x: str) -> str:
        for conv in convs:
            x = self._conv(conv, x)
        return x

    def _squeeze(self, squeeze: Any, x: str) -> str:
        mean = self._node("GlobalAveragePool", [x])
        down = self._node("Relu", [self._conv(squeeze.down, mean)])
        weight = self._node("HardSigmoid", [self._conv(squeeze.up, down)], alpha=1 / 6, beta=0.5)
        return self._node("Mul", [x, weight])

    def _halve(self, block: Any, x: str) -> str:
        first, second, squeeze, last = block.right
        right = self._squeeze(squeeze, self._conv(second, self._conv(first, x)))
        both = self._node("Concat", [self._chain(block.left, x), self._conv(last, right)], axis=1)
        return self._chain(block.mix, both)

    def _keep(self, block: Any, x: str) -> str:
        half = block.last.out_channels
        passed, changed = (
            self._node("Slice", [x, *(self._weight(np.array([n])) for n in (start, start + half, 1))])
            for start in (0, half)
        )
        changed = self._conv(block.first, changed)
        both = self._node("Concat", [changed, self._conv(block.ghost, changed)], axis=1)
        changed = self._conv(block.last, self._squeeze(block.squeeze, both))
        order = np.arange(2 * half).reshape(2, half).T.ravel()
        joined = self._node("Concat", [passed, changed], axis=1)
        return self._node("Gather", [joined, self._weight(order)], axis=1)

    def _partial(self, block: Any, parts: Sequence[str]) -> str:
        x = self._node("Concat", parts, axis=1)
        short = self._conv(block.short, x)
        return self._conv(block.last, self._node("Concat", [self._chain(block.long, x), short], axis=1))

    def _double(self, x: str) -> str:
        scales = self._weight(np.array([1, 1, 2, 2], np.float32))
        way = {"mode": "nearest", "nearest_mode": "floor", "coordinate_transformation_mode": "asymmetric"}
        return self._node("Resize", [x, "", scales], **way)
