"""Convolutions, as a rule frozen, that take their ReLU6 along: one pass over memory instead of three."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d, hardtanh, pad

_FUSES = bool(torch._C._has_mkldnn) and hasattr(torch.ops.mkldnn, "_convolution_pointwise")  # noqa: SLF001
"""Whether this build of torch has oneDNN's convolution with an activation behind it."""


class Convolution(nn.Module):
    """A convolution and, if it has one, the ReLU6 after it; quick where it learns nothing.

    On a CPU most of the time of a small convolution goes into its padded copy and into a second walk through
    the result: together they take longer than the arithmetic.

    Args:
        convolution: whose weights it takes; one that pads by itself has `static_padding`.
        rectified: whether ReLU6 follows.
    """

    def __init__(self, convolution: nn.Conv2d, *, rectified: bool) -> None:
        super().__init__()
        left, right, top, bottom = _padding(convolution)
        # Padding that is not even would need a padded copy; zeros around the kernel do the same.
        zeros = (max(right - left, 0), max(left - right, 0), max(bottom - top, 0), max(top - bottom, 0))
        self.weight = nn.Parameter(pad(convolution.weight.detach(), zeros))
        self.bias = convolution.bias
        self.padding = (max(top, bottom), max(left, right))
        self.rectified = rectified
        self.stride, self.dilation = tuple(convolution.stride), tuple(convolution.dilation)
        self.groups = convolution.groups

    def forward(self, x: Tensor) -> Tensor:
        """From float ``(N, C, h, w)`` to the convolved maps."""
        learns = torch.is_grad_enabled() and self.weight.requires_grad  # which the fused one can't
        if _FUSES and x.device.type == "cpu" and x.numel() and not learns:
            activation, limits = ("hardtanh", [0.0, 6.0]) if self.rectified else ("none", [])
            fused: Tensor = torch.ops.mkldnn._convolution_pointwise(  # noqa: SLF001 - torch's own compiler uses it
                x, self.weight, self.bias, self.padding, self.stride, self.dilation, self.groups,
                activation, limits, "",
            )  # fmt: skip
            return fused
        y = conv2d(x, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups)
        return hardtanh(y, 0.0, 6.0, inplace=True) if self.rectified else y


class InvertedBottleneck(nn.Module):
    """Expansion, depthwise convolution and projection (Sandler et al. 2018), the batch norms folded in."""

    def __init__(
        self, expand: nn.Conv2d | None, depthwise: nn.Conv2d, project: nn.Conv2d, *, skip: bool
    ) -> None:
        super().__init__()
        wider = [Convolution(expand, rectified=True)] if expand is not None else []
        self.path = nn.Sequential(
            *wider, Convolution(depthwise, rectified=True), Convolution(project, rectified=False)
        )
        self.skip = skip

    def forward(self, x: Tensor) -> Tensor:
        """From float ``(N, C, h, w)`` to the block's maps."""
        y: Tensor = self.path(x)
        return y.add_(x) if self.skip else y


def _padding(convolution: nn.Conv2d) -> tuple[int, int, int, int]:
    static = getattr(convolution, "static_padding", None)
    if static is not None:
        left, right, top, bottom = getattr(static, "padding", (0, 0, 0, 0))
        return left, right, top, bottom
    if isinstance(convolution.padding, str):
        raise ValueError(f"padding {convolution.padding!r}: give numbers")  # noqa: TRY004 - not its type
    top, left = (int(p) for p in convolution.padding)
    return left, left, top, top
