"""A network with the published re-identification network's input and output, random inside."""

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from train.grounded.appearance import OSNet


def published_osnet() -> OSNet:
    weight = np.random.default_rng(1).normal(size=(3, 256)).astype(np.float32)
    nodes = [
        helper.make_node("ReduceMean", ["inputs:0"], ["mean"], axes=[1, 2], keepdims=1),
        helper.make_node("Reshape", ["mean", "shape"], ["flat"]),
        helper.make_node("Gemm", ["flat", "weight"], ["Identity:0"]),
    ]
    graph = helper.make_graph(
        nodes,
        "published",
        [helper.make_tensor_value_info("inputs:0", TensorProto.FLOAT, [1, 256, 128, 3])],
        [helper.make_tensor_value_info("Identity:0", TensorProto.FLOAT, [1, 256])],
        [numpy_helper.from_array(weight, "weight"), numpy_helper.from_array(np.array([1, 3]), "shape")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 12)], ir_version=7)
    return OSNet(model)
