"""The convolutional part of ResNet-101 (He et al. 2016), its parameters named as in torchvision's weights."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn

STAGES = ((64, 3, 1), (128, 4, 2), (256, 23, 2), (512, 3, 2))
"""Per stage: width, blocks, stride of the first block."""

EXPANSION = 4


class Bottleneck(nn.Module):
    """1x1, 3x3 (which carries the stride), 1x1, and the shortcut."""

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, width * EXPANSION, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(width * EXPANSION)
        self.downsample: nn.Module = nn.Identity()
        if stride != 1 or channels != width * EXPANSION:
            self.downsample = nn.Sequential(
                nn.Conv2d(channels, width * EXPANSION, 1, stride, bias=False),
                nn.BatchNorm2d(width * EXPANSION),
            )

    def forward(self, x: Tensor) -> Tensor:
        """From float ``(B, channels, h, w)`` to ``(B, 4 * width, h / stride, w / stride)``."""
        y = torch.relu(self.bn1(self.conv1(x)))
        y = torch.relu(self.bn2(self.conv2(y)))
        return torch.relu(self.bn3(self.conv3(y)) + self.downsample(x))


class ResNet101(nn.Module):
    """From normalised RGB ``(B, 3, h, w)`` to ``(B, 2048, h / 32, w / 32)``."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, 2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.maxpool = nn.MaxPool2d(3, 2, padding=1)
        channels = 64
        for number, (width, blocks, stride) in enumerate(STAGES, start=1):
            stage = [Bottleneck(channels, width, stride)]
            channels = width * EXPANSION
            stage += [Bottleneck(channels, width, 1) for _ in range(blocks - 1)]
            self.add_module(f"layer{number}", nn.Sequential(*stage))

    def forward(self, x: Tensor, stages: int = len(STAGES)) -> Tensor:
        """The map of the last stage, or of the given number of them: 256 x 2^(stages - 1) channels."""
        x = self.maxpool(torch.relu(self.bn1(self.conv1(x))))
        for number in range(1, stages + 1):
            x = self.get_submodule(f"layer{number}")(x)
        return x


def resnet101_weights(path: Path | None) -> dict[str, Tensor]:
    """ImageNet weights without the classifier, of a file of torchvision's; None downloads that."""
    if path is not None:
        state: dict[str, Tensor] = torch.load(path, map_location="cpu", weights_only=True)
    else:
        try:
            # An optional package of 7 MB plus weights of 170 MB, for this one encoder.
            from torchvision.models import ResNet101_Weights  # noqa: PLC0415
        except (
            ImportError,
            RuntimeError,
            AttributeError,
        ) as error:  # a torchvision of another torch raises the latter
            raise ImportError(
                "encoder resnet101 needs its ImageNet weights: `pip install torchvision` "
                f"(the release for torch {torch.__version__}), or give a file with torchvision's state dict"
            ) from error
        state = dict(ResNet101_Weights.IMAGENET1K_V2.get_state_dict(progress=False, check_hash=True))
    return {name: value for name, value in state.items() if not name.startswith("fc.")}
