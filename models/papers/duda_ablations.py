"""The baselines that DUDA is compared with: what it gains by two attentions, and by choosing between images.

Park, Darrell and Rohrbach, "Robust Change Captioning", ICCV 2019, section 5; rows of tables 1 and 5 of
Hosseinzadeh and Wang, "Image Change Captioning by Learning from an Auxiliary Task", CVPR 2021.

    Capt-Pix-Diff   the images' difference in pixels beside both maps; convolutions and pooling; one vector
    Capt-Rep-Diff   the difference of the maps; convolutions and pooling; one vector
    Capt-Att        one attention for both images; [l_b; l_d; l_a] to one vector
    Capt-Dual-Att   an attention for each image, as in DUDA; [l_b; l_d; l_a] to one vector

The vector is given to an LSTM at every word, in place of DUDA's choice between before, difference and after.
Loss: `models.papers.change_captioner`, with DUDA's term of the attention where there is one.

Where the papers are silent, and departures:
* The convolutions: twice 3x3, ReLU and 2x2 max pooling, from 14x14 to 3x3 cells, which a linear layer and
  ReLU bring to the vector.
* The pixels' difference is after minus before, signed, -1..1, brought to 14x14 by pyramid reduction.
* Capt-Att sees [f_before; f_after]; of these the difference is a linear function.
* None of them was released. What DUDA's code does to word vectors and to u is done here to word vectors and
  to the vector, so that the rows differ in nothing else.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from models.encoders.encoder import GRID, Encoder
from models.papers.change_captioner import (
    AttendingOptions,
    ChangeCaptioner,
    SpatialAttention,
    attend,
    attention_size,
)
from models.papers.masks import project_masks
from models.papers.pair_batch import PairBatch
from models.papers.state import State
from models.papers.vocabulary import PAD, Vocabulary


class OneVector(ChangeCaptioner):
    """Describes a pair from one vector; its `State.pictures` begin with that, ``(N, visual)``."""

    def __init__(self, vocabulary: Vocabulary, encoder: Encoder, **arguments: Any) -> None:
        super().__init__(vocabulary, encoder, **arguments)
        options = self.options
        self.embed_word = nn.Embedding(len(vocabulary), options.words, padding_idx=PAD)
        self.telling = nn.LSTMCell(options.words + options.visual, options.hidden)
        self.next_word = nn.Linear(options.hidden, len(vocabulary))
        self.dropout = nn.Dropout(options.dropout)

    @abstractmethod
    def pictures(self, pairs: PairBatch) -> tuple[Tensor, ...]:
        """The vector ``(B, visual)`` and, where there is one, the attention ``(B, images, 196)``."""

    def encode(self, pairs: PairBatch) -> State:
        pictures = self.pictures(pairs)
        zeros = pictures[0].new_zeros(len(pictures[0]), self.telling.hidden_size)
        return State.of_pairs(pictures, (zeros, zeros))

    def advance(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """The hidden state, ``(N, hidden)``."""
        words = self.dropout(self.embed_word(tokens).relu())
        seen = torch.cat([words, self.dropout(state.pictures[0])], dim=1)
        hidden, cell = self.telling(seen, state.memory)
        return self.dropout(hidden), state.remember(hidden, cell)


class _Pooled(OneVector):
    @dataclass(frozen=True, slots=True, kw_only=True)
    class Options(OneVector.Options):
        convolved: int = 256  # channels of the convolutions

    options: Options

    def __init__(self, vocabulary: Vocabulary, encoder: Encoder, **arguments: Any) -> None:
        super().__init__(vocabulary, encoder, **arguments)
        convolved = self.options.convolved
        side = GRID // 2 // 2
        self.pooling = nn.Sequential(
            nn.Conv2d(self.feature_channels(), convolved, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(convolved, convolved, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(convolved * side * side, self.options.visual),
            nn.ReLU(),
        )

    @abstractmethod
    def feature_channels(self) -> int:
        """Channels of `features`."""

    @abstractmethod
    def features(self, pairs: PairBatch) -> Tensor:
        """Input of the convolutions, float32 ``(B, feature_channels, 14, 14)``."""

    def pictures(self, pairs: PairBatch) -> tuple[Tensor, ...]:
        return (self.pooling(self.features(pairs)),)


class CaptPixDiff(_Pooled):
    name = "capt-pix-diff"
    needs_images = True

    def feature_channels(self) -> int:
        return 2 * self.channels + 3

    def features(self, pairs: PairBatch) -> Tensor:
        if pairs.before is None or pairs.after is None:
            raise ValueError(f"{self.name} looks at pixels: give a PairBatch with its images, not maps only")
        difference = (pairs.after.float() - pairs.before.float()) / 255
        return torch.cat([*self.cells(pairs), project_masks(difference, smoothing=0.0)], dim=1)


class CaptRepDiff(_Pooled):
    name = "capt-rep-diff"

    def feature_channels(self) -> int:
        return self.channels

    def features(self, pairs: PairBatch) -> Tensor:
        before, after = self.maps(pairs)
        at = self.coordinates.expand(len(before), -1, -1, -1)
        return torch.cat([after.float() - before.float(), at], dim=1)


class _Attended(OneVector):
    @dataclass(frozen=True, slots=True, kw_only=True)
    class Options(AttendingOptions):
        """DUDA's, but for the choice between images that there is none of."""

    dual: bool  # an attention for each image, from its map and the difference; else one for both
    options: Options

    def __init__(self, vocabulary: Vocabulary, encoder: Encoder, **arguments: Any) -> None:
        super().__init__(vocabulary, encoder, **arguments)
        options = self.options
        self.attention = SpatialAttention(2 * self.channels, options)
        self.embed_visual = nn.Sequential(nn.Linear(3 * self.channels, options.visual), nn.ReLU())

    def pictures(self, pairs: PairBatch) -> tuple[Tensor, ...]:
        before, after = self.cells(pairs)
        if self.dual:
            weights = self.attention.of_both(before, after)
        else:
            weights = self.attention(torch.cat([before, after], dim=1)).unsqueeze(1)
        each = (before, weights[:, 0]), (after, weights[:, -1])
        left, right = (self.options.scale * attend(cells, own) for cells, own in each)
        return self.embed_visual(torch.cat([left, right - left, right], dim=1)), weights

    def further_loss(self, state: State, unrolled: list[State], said: Tensor, changed: Tensor) -> Tensor:  # noqa: ARG002
        return self.options.attention_weight * attention_size(state.pictures[1], changed)


class CaptAtt(_Attended):
    name = "capt-att"
    dual = False


class CaptDualAtt(_Attended):
    name = "capt-dual-att"
    dual = True
