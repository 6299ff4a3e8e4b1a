"""The appearance embedding's graph: a published network and, behind it, a linear layer of our own.

The network is Open Model Zoo's person-reidentification-retail-0248, a narrow OSNet (Zhou et al. 2019,
"Omni-Scale Feature Learning for Person Re-Identification"). It takes one BGR picture; here a batch of crops.
"""

import copy
from pathlib import Path

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import nn

from models.embedding import SIZE
from train.checkpoints import TrainError

_VECTOR = 256


class OSNet(nn.Module):
    """A published network (frozen, an ONNX model) and the layer `last`, the identity until it is trained."""

    def __init__(self, published: onnx.ModelProto) -> None:
        super().__init__()
        self.published = published
        self.last = nn.Conv2d(_VECTOR, _VECTOR, 1)
        self.last.weight.data.copy_(torch.eye(_VECTOR)[..., None, None])
        nn.init.zeros_(self.last.bias)  # type: ignore[arg-type]


def starting_osnet(path: Path) -> OSNet:
    try:
        model = onnx.load(str(path))
    except Exception as error:  # protobuf's and the file system's have no common ancestor
        raise TrainError(f"{path} cannot be read as ONNX ({error})") from error
    weights = {each.name for each in model.graph.initializer}
    inputs = [each for each in model.graph.input if each.name not in weights]
    shapes = [
        [dim.dim_value for dim in each.type.tensor_type.shape.dim] for each in (*inputs, *model.graph.output)
    ]
    if shapes != [[1, *SIZE, 3], [1, _VECTOR]]:
        raise TrainError(f"{path} is not person-reidentification-retail-0248")
    return OSNet(model)


def graph_of(net: OSNet) -> bytes:
    """ONNX, from `crops` uint8 RGB ``(B, 256, 128, 3)`` to unit `embeddings` float32 ``(B, 256)``."""
    model = copy.deepcopy(net.published)
    graph = model.graph
    _take_batches(graph)
    weights = {each.name for each in graph.initializer}
    (image,) = (each.name for each in graph.input if each.name not in weights)
    vector = graph.output[0].name
    assert net.last.bias is not None  # noqa: S101
    added = {
        "crops.bgr": np.array([2, 1, 0]),
        "last.weight": net.last.weight.detach()[..., 0, 0].numpy(),
        "last.bias": net.last.bias.detach().numpy(),
    }
    graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in added.items())
    first = [
        helper.make_node("Cast", ["crops"], ["crops.float"], to=TensorProto.FLOAT),
        helper.make_node("Gather", ["crops.float", "crops.bgr"], [image], axis=3),
    ]
    last = [
        helper.make_node("LpNormalization", [vector], ["unit"], axis=1, p=2),
        helper.make_node("Gemm", ["unit", "last.weight", "last.bias"], ["turned"], transB=1),
        helper.make_node("LpNormalization", ["turned"], ["embeddings"], axis=1, p=2),
    ]
    nodes = [*first, *graph.node, *last]
    for part in (graph.node, graph.input, graph.output, graph.value_info):
        del part[:]
    graph.node.extend(nodes)
    graph.input.append(helper.make_tensor_value_info("crops", TensorProto.UINT8, ["b", *SIZE, 3]))
    graph.output.append(helper.make_tensor_value_info("embeddings", TensorProto.FLOAT, ["b", _VECTOR]))
    return bytes(model.SerializeToString())


def _take_batches(graph: onnx.GraphProto) -> None:
    """Leave the first dimension alone where the network, made for one picture, averages or reshapes it."""
    shapes = {node.input[1] for node in graph.node if node.op_type == "Reshape"}
    for value in graph.initializer:
        if value.name in shapes:
            shape = numpy_helper.to_array(value).copy()
            shape[0] = 0  # as it comes in
            value.CopyFrom(numpy_helper.from_array(shape, value.name))
    for node in graph.node:
        if node.op_type == "ReduceMean":
            (axes,) = (each for each in node.attribute if each.name == "axes")
            axes.ints[:] = [axis for axis in axes.ints if axis]
