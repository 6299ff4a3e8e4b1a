"""Base of DUDA and its baselines: both maps with coordinates, and the loss over two kinds of pairs.

Park, Darrell and Rohrbach, "Robust Change Captioning", ICCV 2019, as used by Hosseinzadeh and Wang, "Image
Change Captioning by Learning from an Auxiliary Task", CVPR 2021.

    L = c L_changed + (1 - c) L_distractor + further terms, c = 0.5

L_changed and L_distractor are the mean of -log P(word) over the words said about pairs in which something
changed, and about distractors. Further terms are of changed pairs only, as in the released code
(github.com/Seth-Park/RobustChangeCaptioning). A word's vector goes through ReLU and dropout, as there.

Where the papers are silent, and departures:
* Their batches hold a changed and a distractor pair of every scene. Here a batch is drawn from the split, and
  where it has pairs of one kind only (Spot-the-diff has no distractors) their mean counts whole.
* A pair is a distractor where no sentence about it mentions a change (`PairBatch.changed`).
* A sentence ends with EOS; in the released code the first NULL of the padding does that.
* A cell's coordinates are those of its centre; the code's of its upper left corner.
* What belongs to training stands in configs/train/duda.yaml: an epoch draws one caption of each pair
  (`drawn`), the views of a scene without a change are swapped (`swapped`), the rate falls tenfold every 15
  epochs. The code swaps both pairs of a scene together, and clips no gradients; here each pair is swapped by
  itself, and gradients are clipped.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from models.encoders.encoder import GRID, Encoder
from models.papers.attention import cell_coordinates
from models.papers.pair_batch import PairBatch
from models.papers.recurrent import WholePair, trim_padding
from models.papers.state import State
from models.papers.vocabulary import PAD, Vocabulary


class ChangeCaptioner(WholePair):
    """See the head of this file. `channels` are those of `cells`: the encoder's and two of coordinates."""

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Options(WholePair.Options):
        visual: int = 512  # size of what is seen, brought to one vector
        words: int = 300  # size of the word vectors
        hidden: int = 512  # size of each LSTM
        dropout: float = 0.5  # share 0..1, of word vectors and of the hidden state
        # c, share 0..1 of the loss of changed pairs; the rest is that of distractors
        changed_weight: float = 0.5

        def __post_init__(self) -> None:
            if not 0 <= self.changed_weight <= 1:
                raise ValueError(f"changed_weight must be in 0..1, not {self.changed_weight}")

    options: Options
    coordinates: Tensor

    def __init__(self, vocabulary: Vocabulary, encoder: Encoder, **arguments: Any) -> None:
        super().__init__(vocabulary, encoder, **arguments)
        self.changed_weight = self.options.changed_weight
        self.channels = encoder.channels + 2
        at = cell_coordinates().T.reshape(1, 2, GRID, GRID)
        self.register_buffer("coordinates", at, persistent=False)

    def further_loss(self, state: State, unrolled: list[State], said: Tensor, changed: Tensor) -> Tensor:  # noqa: ARG002 - for subclasses
        """Further terms, none here; `said` ``(N, L)`` and `changed` ``(B,)`` leave distractors out."""
        return state.pictures[0].new_zeros(())

    def cells(self, pairs: PairBatch) -> tuple[Tensor, Tensor]:
        """Maps of before and after with each cell's x and y, float32 ``(B, channels, 14, 14)`` each."""
        before, after = (
            torch.cat([each.float(), self.coordinates.expand(len(each), -1, -1, -1)], dim=1)
            for each in self.maps(pairs)
        )
        return before, after

    def loss(self, pairs: PairBatch, sentences: Tensor) -> Tensor:
        """See the head of this file; 0 where there is no sentence."""
        pairs, sentences = pairs.to(self.device), sentences.to(self.device)
        state = self.encode(pairs)
        b, t = (sentences[:, :, 0] != PAD).nonzero(as_tuple=True)
        if not len(b):  # a zero that a gradient can go through
            return 0.0 * torch.stack([x.sum() for x in state.pictures]).sum()
        tokens = trim_padding(sentences[b, t])
        unrolled = list(self.unroll(state.select(b), tokens))
        log_p = self.word_log_likelihood(torch.stack([seen for seen, _ in unrolled], dim=1), tokens)
        said = tokens != PAD
        changed = pairs.valid.new_ones(len(pairs.valid)) if pairs.changed is None else pairs.changed
        of_changed = changed[b]
        kinds = ((of_changed, self.changed_weight), (~of_changed, 1 - self.changed_weight))
        means = [(-log_p[kind].sum() / said[kind].sum(), weight) for kind, weight in kinds if kind.any()]
        of_words = means[0][0] if len(means) == 1 else sum(mean * weight for mean, weight in means)
        after = [state for _, state in unrolled]
        return of_words + self.further_loss(state, after, said & of_changed.unsqueeze(1), changed)


@dataclass(frozen=True, slots=True, kw_only=True)
class AttendingOptions(ChangeCaptioner.Options):
    attention: int = 128  # channels between the attention's convolutions, a multiple of `groups`
    groups: int = 32  # of the attention's group norm
    attention_dropout: float = 0.5  # share 0..1, inside the attention
    scale: float = 1.0  # s, of the attention-weighted sums; 1 is the papers'
    attention_weight: float = 2.5e-3  # of the sum of the attention in the loss


class SpatialAttention(nn.Module):
    """Attention weight of each cell, 0..1: 1x1 convolution, group norm, dropout, ReLU, 1x1, sigmoid."""

    def __init__(self, channels: int, options: AttendingOptions) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(channels, options.attention, 1),
            nn.GroupNorm(options.groups, options.attention),
            nn.Dropout(options.attention_dropout),
            nn.ReLU(),
            nn.Conv2d(options.attention, 1, 1),
            nn.Sigmoid(),
        )

    def forward(self, x: Tensor) -> Tensor:
        """From float ``(B, channels, 14, 14)`` to ``(B, 196)``."""
        weights: Tensor = self.layers(x)
        return weights.flatten(1)

    def of_both(self, before: Tensor, after: Tensor) -> Tensor:
        """Of [before; d] and [after; d], d = after - before, of two ``(B, C, 14, 14)``: ``(B, 2, 196)``."""
        each = (torch.cat([own, after - before], dim=1) for own in (before, after))
        return torch.stack([self(seen) for seen in each], dim=1)


def attend(cells: Tensor, attention: Tensor) -> Tensor:
    """The attention-weighted sum of cells ``(B, C, 14, 14)`` under weights ``(B, 196)``, ``(B, C)``."""
    return (cells.flatten(2) @ attention.unsqueeze(2))[..., 0]


def attention_size(attention: Tensor, changed: Tensor) -> Tensor:
    """Mean over images and `changed` pairs ``(B,)`` of the sum of attention ``(B, images, 196)``."""
    return (attention.sum(dim=2).mean(dim=1) * changed).sum() / changed.sum().clamp(min=1)
