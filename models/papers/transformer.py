"""Layers of a pre-norm transformer whose keys and values can be kept.

Vaswani et al., "Attention Is All You Need", NeurIPS 2017, with the layer norm before each part (Xiong et al.
2020), as IDC-PCL has it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention


class Layer(nn.Module):
    """Attention and a feed-forward network, each after a layer norm and added to what came in."""

    def __init__(
        self, size: int, heads: int, inner: int, dropout: float, attention_dropout: float | None = None
    ) -> None:
        """`attention_dropout` of None takes `dropout`; on a CPU it costs as much as the rest of a layer."""
        super().__init__()
        if size % heads:
            raise ValueError(f"size ({size}) must be a multiple of heads ({heads})")
        self.heads, self.share = heads, dropout if attention_dropout is None else attention_dropout
        self.norm, self.inner_norm = nn.LayerNorm(size), nn.LayerNorm(size)
        self.query = nn.Linear(size, size)
        self.key_value = nn.Linear(size, 2 * size)
        self.out = nn.Linear(size, size)
        self.inner = nn.Sequential(
            nn.Linear(size, inner), nn.ReLU(), nn.Dropout(dropout), nn.Linear(inner, size)
        )
        self.dropout = nn.Dropout(dropout)

    def keys_values(self, x: Tensor) -> Tensor:
        """Keys and values of ``(N, S, size)``, float ``(N, S, 2 * size)``, for `forward`."""
        both: Tensor = self.key_value(self.norm(x))
        return both

    def forward(
        self, x: Tensor, kept: Tensor, allowed: Tensor | None = None, bias: Tensor | None = None
    ) -> Tensor:
        """From x ``(N, M, size)`` and `kept` of what is attended to, ``(N, S, 2 * size)``, to the next x.

        `allowed`, bool, broadcast to ``(N, M, S)``: who may attend to what; None all. `bias`, broadcast to
        ``(N, heads, M, S)``, is added to what is attended by.
        """
        mask = None if allowed is None else allowed.unsqueeze(1)
        if bias is not None:
            mask = bias if mask is None else torch.where(mask, bias, -math.inf)
        keys, values = (self._split(part) for part in kept.chunk(2, dim=2))
        mixed = scaled_dot_product_attention(
            self._split(self.query(self.norm(x))),
            keys,
            values,
            attn_mask=mask,
            dropout_p=self.share if self.training else 0.0,
        )
        x = x + self.dropout(self.out(mixed.transpose(1, 2).flatten(2)))
        after: Tensor = x + self.dropout(self.inner(self.inner_norm(x)))
        return after

    @torch.no_grad()
    def subtract(self, scale: float) -> None:
        """Let it begin by taking `scale` times what it attends to from what comes in.

        Values start near the identity and the last layer of the attention near its negative, which trained
        vision transformers come close to (Trockman and Kolter, "Mimetic Initialization of Self-Attention
        Layers", ICML 2023).
        """
        one = torch.eye(self.out.weight.shape[0])
        self.key_value.weight.chunk(2)[1].mul_(0.1).add_(one)
        self.out.weight.mul_(0.1).sub_(scale * one)

    def _split(self, x: Tensor) -> Tensor:
        """Heads apart, ``(N, heads, M, size / heads)``."""
        return x.reshape(*x.shape[:2], self.heads, -1).transpose(1, 2)


class Stack(nn.ModuleList):
    def __iter__(self) -> Iterator[Layer]:
        return (layer for layer in super().__iter__() if isinstance(layer, Layer))

    def forward(self, x: Tensor, allowed: Tensor | None = None, bias: Tensor | None = None) -> Tensor:
        """Vectors ``(N, M, size)`` after all layers, each attending to all it may, see `Layer`."""
        for layer in self:
            x = layer(x, layer.keys_values(x), allowed, bias)
        return x


def sinusoids(positions: Tensor, size: int) -> Tensor:
    """Position vectors (Vaswani 2017, section 3.5), from int64 ``(...)`` to float32 ``(..., size)``."""
    rates = torch.exp(torch.arange(0, size, 2, device=positions.device) * (-math.log(10000.0) / size))
    angles = positions.unsqueeze(-1) * rates
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2)[..., :size]
