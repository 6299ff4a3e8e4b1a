"""The network of the appearance embedding: OSNet, a quarter wide, as Open Model Zoo's 0248 has it.

Zhou et al. 2019, "Omni-Scale Feature Learning for Person Re-Identification". Departures of
person-reidentification-retail-0248 from the paper: its batch norms are folded into the convolutions, the
picture and the first convolution are normalised over all channels at once, and a global depth-wise
convolution takes the place of the average pool. Behind it is a linear layer of our own.
"""

from __future__ import annotations

import io
import re
import warnings
from pathlib import Path

import onnx
import torch
from onnx import numpy_helper
from torch import Tensor, nn
from torch.nn import functional

from models.embedding import SIZE
from train.grounded.start import StartError

_PICTURE = (123.675, 116.28, 103.53), (58.395, 57.12, 57.375)  # mean and deviation of RGB 0..255
_OPSET = 17


class _WholeNorm(nn.Module):
    """Normalises a picture over all its channels at once, then scales and shifts each."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels, 1, 1))
        self.bias = nn.Parameter(torch.zeros(channels, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        x = x - x.mean((1, 2, 3), keepdim=True)
        return x / (x.square().mean((1, 2, 3), keepdim=True) + 1e-5).sqrt() * self.weight + self.bias


def _stream(channels: int, count: int) -> nn.Sequential:
    """Light 3x3 convolutions, one after the other."""
    light = (
        (
            nn.Conv2d(channels, channels, 1, bias=False),
            nn.Conv2d(channels, channels, 3, padding=1, groups=channels),
            nn.ReLU(),
        )
        for _ in range(count)
    )
    return nn.Sequential(*(layer for each in light for layer in each))


class _Block(nn.Module):
    """Four streams of growing reach, weighted channel by channel by one gate."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        width = outputs // 4
        self.first = nn.Conv2d(inputs, width, 1)
        self.streams = nn.ModuleList(_stream(width, count) for count in (1, 2, 3, 4))
        self.gate = nn.Sequential(
            nn.AdaptiveAvgPool2d(1),
            nn.Conv2d(width, width // 16, 1),
            nn.ReLU(),
            nn.Conv2d(width // 16, width, 1),
            nn.Sigmoid(),
        )
        self.last = nn.Conv2d(width, outputs, 1)
        self.short = nn.Conv2d(inputs, outputs, 1) if inputs != outputs else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        y = functional.relu(self.first(x))
        streams = [stream(y) for stream in self.streams]
        y = torch.stack([each * self.gate(each) for each in streams]).sum(0)
        return functional.relu(self.last(y) + self.short(x))


def _stage(inputs: int, outputs: int) -> list[nn.Module]:
    return [_Block(inputs, outputs), _Block(outputs, outputs), nn.Conv2d(outputs, outputs, 1), nn.ReLU()]


class OSNet(nn.Module):
    """Crops uint8 RGB ``(B, 256, 128, 3)`` to unit vectors float32 ``(B, 256)``."""

    mean: Tensor
    deviation: Tensor

    def __init__(self) -> None:
        super().__init__()
        for name, values in zip(("mean", "deviation"), _PICTURE, strict=True):
            self.register_buffer(name, torch.tensor(values).view(3, 1, 1), persistent=False)
        self.start = nn.Sequential(
            _WholeNorm(3),
            nn.Conv2d(3, 16, 8, stride=2, padding=3, bias=False),
            _WholeNorm(16),
            nn.ReLU(),
            nn.MaxPool2d(3, 2, ceil_mode=True),
        )
        self.stages = nn.Sequential(
            *_stage(16, 64), nn.AvgPool2d(2), *_stage(64, 96), nn.AvgPool2d(2), *_stage(96, 128)
        )
        self.end = nn.Sequential(
            nn.Conv2d(128, 128, (SIZE[0] // 16, SIZE[1] // 16), groups=128),
            nn.Conv2d(128, 256, 1),
        )
        self.slope = nn.PReLU()
        self.last = nn.Conv2d(256, 256, 1)
        self.last.weight.data.copy_(torch.eye(256)[..., None, None])
        nn.init.zeros_(self.last.bias)  # type: ignore[arg-type]

    def forward(self, crops: Tensor) -> Tensor:
        """See the class."""
        return functional.normalize(self.last(functional.normalize(self.features(crops))).view(-1, 256))

    def features(self, crops: Tensor) -> Tensor:
        """Features of the published network, float32 ``(B, 256, 1, 1)``."""
        x = (crops.permute(0, 3, 1, 2).float() - self.mean) / self.deviation
        answer: Tensor = self.slope(self.end(self.stages(self.start(x))))
        return answer


def starting_osnet(path: Path) -> OSNet:
    """With the weights of person-reidentification-retail-0248 in ONNX format.

    Raises:
        StartError: the file is not that network.
    """
    try:
        graph = onnx.load(str(path)).graph
    except Exception as error:  # protobuf's and the file system's have no common ancestor
        raise StartError(f"{path} cannot be read as ONNX ({error})") from error
    values = {each.name: torch.tensor(numpy_helper.to_array(each)) for each in graph.initializer}
    # Its first convolution, 7 wide, is padded by 2 before and 3 behind: the same as one 8 wide, padded by 3.
    values |= {k: functional.pad(v, (1, 0, 1, 0)) for k, v in values.items() if v.shape[-1:] == (7,)}
    # One entry for each weight, by the number that TensorFlow gave it: those of a shape are in their order.
    users = {node.input[1]: node for node in graph.node if node.op_type == "Conv"}
    users = dict(sorted(users.items(), key=lambda item: [int(n) for n in re.findall(r"_(\d+)/", item[0])]))
    affine = [
        values[name].flatten()
        for node in graph.node
        for name in node.input
        if node.op_type in {"Mul", "Add"} and name in values and values[name].numel() in {3, 16, 256}
    ]
    net = OSNet().eval()
    try:
        norms = [part for part in net.modules() if isinstance(part, _WholeNorm)]
        for norm, weight, bias in zip(norms, affine[2:6:2], affine[3:6:2], strict=True):
            norm.weight.data.copy_(weight.view(-1, 1, 1))
            norm.bias.data.copy_(bias.view(-1, 1, 1))
        convolutions = [
            part for part in net.modules() if isinstance(part, nn.Conv2d) and part is not net.last
        ]
        for part in convolutions[:-1]:
            name = next(n for n in users if values[n].shape == part.weight.shape)
            node = users.pop(name)
            part.weight.data.copy_(values[name])
            if part.bias is not None:
                part.bias.data.copy_(values[node.input[2]])
        full = next(node for node in graph.node if node.op_type == "Gemm")
        scale, shift = affine[6:]
        convolutions[-1].weight.data.copy_((values[full.input[1]] * scale[:, None])[..., None, None])
        assert convolutions[-1].bias is not None  # noqa: S101
        convolutions[-1].bias.data.copy_(values[full.input[2]] * scale + shift)
        slope = next(i for n in graph.node if "p_re_lu" in n.output[0] for i in n.input if i in values)
        net.slope.weight.data.copy_(-values[slope].flatten())
    except (ValueError, StopIteration, RuntimeError, KeyError) as error:
        raise StartError(f"{path} is not person-reidentification-retail-0248") from error
    return net


def graph_of(net: OSNet) -> bytes:
    """The network as an ONNX graph, from `crops` to `embeddings`."""
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the newer exporter needs one more package
        torch.onnx.export(
            net.eval(),
            (torch.zeros(1, *SIZE, 3, dtype=torch.uint8),),
            file,  # type: ignore[arg-type]
            input_names=["crops"],
            output_names=["embeddings"],
            dynamic_axes={"crops": {0: "b"}, "embeddings": {0: "b"}},
            opset_version=_OPSET,
            dynamo=False,
        )
    return file.getvalue()
