"""The detector as a torch module, for training and GPUs: which objects are in a picture.

PicoDet-S (Yu et al. 2021, "PP-PicoDet: a better real-time object detector on mobile devices", arXiv
2111.00902) in our own words: an ESNet backbone (enhanced ShuffleNet blocks with squeeze-and-excitation), a
CSP path aggregation neck with four levels, and a head whose box edges are distributions over distances (Li et
al. 2020, "Generalized focal loss", equation 6). Departures: convolutions carry biases instead of batch norms
(the published weights fold them; fine-tuning keeps them folded), pictures need not be square, and the classes
are those of `CLASSES`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import onnx
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import conv2d, hardsigmoid, hardswish, interpolate

from models.detections import LEAST, Detections
from models.families import CLASSES
from models.grounded.inference import BINS, STRIDES, Answers, cells_of, decode

_MEAN, _DEVIATION = (123.675, 116.28, 103.53), (58.395, 57.12, 57.375)


class _Conv(nn.Conv2d):
    """A convolution that keeps the size (halves it with stride 2), and hard swish unless told."""

    def __init__(
        self,
        inside: int,
        outside: int,
        kernel: int = 1,
        stride: int = 1,
        *,
        groups: int = 1,
        act: bool = True,
    ) -> None:
        super().__init__(inside, outside, kernel, stride, kernel // 2, groups=groups)
        self.act = act

    def forward(self, x: Tensor) -> Tensor:
        out = conv2d(x, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups)
        return hardswish(out) if self.act else out


class _Squeeze(nn.Module):
    """Squeeze-and-excitation (Hu et al. 2018): channels weighted by what the whole picture shows."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.down = nn.Conv2d(channels, channels // 4, 1)
        self.up = nn.Conv2d(channels // 4, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        weight: Tensor = hardsigmoid(self.up(self.down(x.mean((2, 3), keepdim=True)).relu()))
        return x * weight


class _Halve(nn.Module):
    """The block that halves the size: two branches side by side, mixed again."""

    def __init__(self, inside: int, middle: int, outside: int) -> None:
        super().__init__()
        half = outside // 2
        self.left = nn.Sequential(_Conv(inside, inside, 3, 2, groups=inside, act=False), _Conv(inside, half))
        self.right = nn.Sequential(
            _Conv(inside, middle),
            _Conv(middle, middle, 3, 2, groups=middle, act=False),
            _Squeeze(middle),
            _Conv(middle, half),
        )
        self.mix = nn.Sequential(_Conv(outside, outside, 3, groups=outside), _Conv(outside, outside))

    def forward(self, x: Tensor) -> Tensor:
        mixed: Tensor = self.mix(torch.cat([self.left(x), self.right(x)], dim=1))
        return mixed


class _Keep(nn.Module):
    """The block that keeps the size: half of the channels pass, half are changed, then they are shuffled."""

    def __init__(self, channels: int, middle: int) -> None:
        super().__init__()
        half = channels // 2
        self.first = _Conv(half, middle // 2)
        self.ghost = _Conv(middle // 2, middle // 2, 3, groups=middle // 2, act=False)
        self.squeeze = _Squeeze(middle)
        self.last = _Conv(middle, half)

    def forward(self, x: Tensor) -> Tensor:
        passed, changed = x.chunk(2, dim=1)
        changed = self.first(changed)
        changed = self.last(self.squeeze(torch.cat([changed, self.ghost(changed)], dim=1)))
        both = torch.stack([passed, changed], dim=2)
        return both.flatten(1, 2)


class _Partial(nn.Module):
    """The neck's cross-stage partial block: a short way and a long one."""

    def __init__(self, inside: int, outside: int) -> None:
        super().__init__()
        half = outside // 2
        self.short = _Conv(inside, half)
        self.long = nn.Sequential(
            _Conv(inside, half), _Conv(half, half), _Conv(half, half, 5, groups=half), _Conv(half, half)
        )
        self.last = _Conv(outside, outside)

    def forward(self, x: Tensor) -> Tensor:
        short = self.short(x)
        joined: Tensor = self.last(torch.cat([self.long(x), short], dim=1))
        return joined


def _separable_block(channels: int, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(_Conv(channels, channels, 5, stride, groups=channels), _Conv(channels, channels))


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """The detector's outputs for B pictures in each of A cells, the finest level first."""

    label: Tensor  # logits float32 ``(B, A, classes)``
    # float32 ``(B, A, 4, BINS)``, logits of the distances from the cell's middle to left, top, right
    # and bottom edge, in cells
    edges: Tensor
    middle: Tensor  # float32 ``(A, 2)``, x and y of the cells' middles in pixels of the picture
    stride: Tensor  # float32 ``(A,)``
    maps: tuple[Tensor, ...]  # the neck's levels, float32 ``(B, 96, h, w)`` each, finest first

    def float(self) -> Self:
        return replace(self, label=self.label.float(), edges=self.edges.float())

    def boxes(self) -> Tensor:
        """Left, top, right and bottom edges in pixels, float32 ``(B, A, 4)``."""
        bins = torch.arange(BINS, device=self.edges.device, dtype=self.edges.dtype)
        far = (self.edges.softmax(-1) * bins).sum(-1) * self.stride[:, None]
        return torch.cat([self.middle - far[..., :2], self.middle + far[..., 2:]], dim=-1)


class Detector(nn.Module):
    def __init__(self, classes: int, width: int = 96) -> None:
        super().__init__()
        self.classes, self.width = classes, width
        self.stem = nn.Sequential(_Conv(3, 24, 3, 2), nn.MaxPool2d(3, 2, 1))
        self.stages = nn.ModuleList(
            [
                nn.Sequential(_Halve(24, 44, 96), *(_Keep(96, m) for m in (48, 48))),
                nn.Sequential(_Halve(96, 48, 192), *(_Keep(192, m) for m in (120, 96, 120, 96, 96, 96))),
                nn.Sequential(_Halve(192, 96, 384), *(_Keep(384, m) for m in (192, 192))),
            ]
        )
        self.lateral = nn.ModuleList(_Conv(c, width) for c in (96, 192, 384))
        self.down = nn.ModuleList(_Partial(2 * width, width) for _ in range(2))  # coarse to fine
        self.halve = nn.ModuleList(_separable_block(width, 2) for _ in range(2))
        self.up = nn.ModuleList(_Partial(2 * width, width) for _ in range(2))  # fine to coarse
        self.top = nn.ModuleList(_separable_block(width, 2) for _ in range(2))
        self.tower = nn.ModuleList(
            nn.Sequential(_separable_block(width), _separable_block(width)) for _ in STRIDES
        )
        self.answer = nn.ModuleList(nn.Conv2d(width, classes + 4 * BINS, 1) for _ in STRIDES)
        self.register_buffer("mean", torch.tensor(_MEAN).view(3, 1, 1), persistent=False)
        self.register_buffer("deviation", torch.tensor(_DEVIATION).view(3, 1, 1), persistent=False)

    mean: Tensor
    deviation: Tensor

    def maps(self, pictures: Tensor) -> tuple[Tensor, ...]:
        """The neck's four levels of uint8 pictures ``(B, 3, h, w)``, RGB; sides are multiples of 32."""
        x = (pictures.float() - self.mean) / self.deviation
        x = self.stem(x.contiguous(memory_format=torch.channels_last))
        levels = []
        for stage in self.stages:
            x = stage(x)
            levels.append(x)
        fine, mid, coarse = (lateral(x) for lateral, x in zip(self.lateral, levels, strict=True))
        mid = self.down[0](torch.cat([_double(coarse), mid], dim=1))
        fine = self.down[1](torch.cat([_double(mid), fine], dim=1))
        mid = self.up[0](torch.cat([self.halve[0](fine), mid], dim=1))
        last = self.up[1](torch.cat([self.halve[1](mid), coarse], dim=1))
        return fine, mid, last, self.top[0](coarse) + self.top[1](last)

    def outputs(self, pictures: Tensor) -> tuple[Tensor, ...]:
        """The cells' outputs ``(B, A, classes + 4 BINS)`` and the neck's levels; see `Answers`."""
        maps = self.maps(pictures)
        levels = zip(maps, self.tower, self.answer, strict=True)
        cells = [answer(tower(level)).flatten(2).transpose(1, 2) for level, tower, answer in levels]
        return torch.cat(cells, dim=1), *maps

    def forward(self, pictures: Tensor) -> Answer:
        """Detect objects in pictures, uint8 RGB ``(B, 3, h, w)``, sides multiples of 32."""
        cells, *maps = self.outputs(pictures)
        places = cells_of(tuple(tuple(level.shape[-2:]) for level in maps))
        middle, stride = (torch.from_numpy(each).to(cells.device) for each in places)
        label, edges = cells[..., : self.classes], cells[..., self.classes :]
        return Answer(label, edges.reshape(*edges.shape[:2], 4, BINS), middle, stride, tuple(maps))


def _double(x: Tensor) -> Tensor:
    return interpolate(x, scale_factor=2.0, mode="nearest")


def detector_of(graph: bytes) -> Detector:
    """The module that an ONNX graph was drawn from, see `train.grounded.detector_weights`.

    RuntimeError where it is another graph.
    """
    stored = onnx.load_model_from_string(graph).graph.initializer
    weights = {each.name: torch.from_numpy(onnx.numpy_helper.to_array(each).copy()) for each in stored}
    net = Detector(len(CLASSES))
    own = net.state_dict()
    net.load_state_dict({name: value for name, value in weights.items() if name in own})
    # In this order of memory convolutions on a CPU take two thirds of the time.
    return net.eval().to(memory_format=torch.channels_last)  # type: ignore[no-any-return, call-overload]


class TorchDetector:
    """A detector on a GPU, see `models.detections.Detector`."""

    def __init__(self, net: Detector, device: str) -> None:
        self._net, self._device = net.to(device), device

    def detect(self, images: Sequence[NDArray[np.uint8]], least: float = LEAST) -> list[Detections]:
        """See `models.detections.Detector`; those of one size at once, or as many as there is memory for."""
        sizes: dict[tuple[int, ...], list[int]] = {}
        for n, image in enumerate(images):
            sizes.setdefault(image.shape[:2], []).append(n)
        found: dict[int, Answers] = {}
        for numbers in sizes.values():
            found.update(zip(numbers, self._of_one_size([images[n] for n in numbers]), strict=True))
        return [decode(found[n], image.shape[:2], least) for n, image in enumerate(images)]

    @torch.inference_mode()
    def _of_one_size(self, images: Sequence[NDArray[np.uint8]]) -> list[Answers]:
        try:
            pictures = torch.from_numpy(np.stack(images)).to(self._device).permute(0, 3, 1, 2)
            parts = [part.numpy(force=True) for part in self._net.outputs(pictures)]
            return [Answers(parts[0][n], tuple(level[n] for level in parts[1:])) for n in range(len(images))]
        except torch.OutOfMemoryError:
            if len(images) == 1:
                raise
        # Outside of the handler: the error would hold the tensors that must be freed first.
        torch.cuda.empty_cache()
        half = (len(images) + 1) // 2
        return [each for part in (images[:half], images[half:]) for each in self._of_one_size(part)]
