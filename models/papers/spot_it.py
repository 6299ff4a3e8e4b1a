"""Spot It: one signed picture of the difference, a CNN that is trained, and a recurrent network.

Fan and Wang, "Spot It: Translating Differences between Paired Pictures", 2019.

    D = [A | B] - [B | A]                     A and B side by side; signed
    v = ReLU(norm(W mean(CNN(D))))            512 numbers
    P(w_t | w_0 .. w_t-1, D) by an LSTM or GRU whose first input is v, and then BOS, w_1, ...

D keeps its sign: an absolute difference would lose which image came first. The paper reports no scores.

Where the paper is silent, and departures:
* CNN: a trained copy of the encoder, whichever that is; the paper's is a ResNet with 1024 features. Norms
  inside it keep the statistics of their pre-training. It sees 127.5 + D / 2, so that no difference is grey.
* Each image is squeezed to half its width, so that D has the size that the encoder takes.
* `halves`: v comes from the mean of the CNN's map over each half of D by itself. The paper, it seems, takes
  one mean over all of it. Then which image came first is lost again, signed or not: to swap A and B is to
  swap the halves of D, and the mean over a convolution's map hardly sees that (with EfficientNet-Lite0 a swap
  moves it by a tenth of what the change itself does, by a fifth with halves). False does as the paper does.
* Word vectors have the size of v, since both enter the same network.
* Dropout of word vectors and of what the next word is predicted from.
* A batch of one pair is normalised by the running statistics, its own are none.
* `rotation` and `zoom` are the paper's suggested augmentation: in training both images are turned and
  enlarged alike, and the caption stays. They are small by default, since left must stay left.
* `attention` is its other suggestion, for local differences: additive attention (Xu et al. 2015) over the
  cells of the CNN's map at every word. 0 leaves it out, as in the paper. The cells are normalised (layer
  norm): as it learns, the CNN's map grows to many times its size, and would drown the words.
"""

import copy
import math
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import adaptive_avg_pool2d, affine_grid, grid_sample, interpolate, layer_norm

from models.encoders import EfficientNetLite0, Encoder
from models.papers.captioner import PairBatch, Recurrent, batch_normalise
from models.papers.decoding import State
from models.papers.vocabulary import PAD, Vocabulary

GREY = 127.5  # input of the CNN where nothing differs


class SpotIt(Recurrent):
    """See the head of this file.

    A row's `State.pictures` are keys and values ``(N, 196, ...)`` of the attention, if there is one; its
    `State.memory` is the recurrent network's.
    """

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Options(Recurrent.Options):
        recurrent: Literal["lstm", "gru"] = "lstm"  # "lstm" or "gru"
        features: int = 512  # size of v and of the word vectors
        hidden: int = 512  # size of the recurrent network
        dropout: float = 0.1  # share 0..1, see the head of this file
        rotation: float = 5.0  # pairs are turned by up to this many degrees in training
        zoom: float = 0.15  # pairs are enlarged by up to this share in training
        halves: bool = True  # whether the halves of the difference are pooled apart
        attention: int = 0  # size of the attention; 0 for none
        trained: bool = True  # whether the CNN is trained
        # whether its layers down to stride 8 are trained, too: half of the time of training. False takes the
        # encoder efficientnet_lite0.
        finest: bool = True

        def __post_init__(self) -> None:
            if self.recurrent not in ("lstm", "gru"):
                raise ValueError(f"recurrent must be 'lstm' or 'gru', not {self.recurrent!r}")

    name = "spot-it"
    whole = True
    needs_images = True
    needs_masks = False
    options: Options

    def __init__(self, vocabulary: Vocabulary, encoder: Encoder, **arguments: Any) -> None:
        super().__init__(vocabulary, encoder, **arguments)
        options = self.options
        features, hidden, attention = options.features, options.hidden, options.attention
        self.cnn = copy.deepcopy(encoder).requires_grad_(options.trained)
        if not options.finest:
            if not isinstance(self.cnn, EfficientNetLite0):
                raise ValueError(f"finest: false takes encoder efficientnet_lite0, not {encoder.name}")
            self.cnn.stem.requires_grad_(requires_grad=False)
            self.cnn.stride8.requires_grad_(requires_grad=False)
        self.reduce = nn.Linear(encoder.channels * (1 + options.halves), features)
        self.norm = nn.BatchNorm1d(features)
        self.embed_word = nn.Embedding(len(vocabulary), features, padding_idx=PAD)
        inputs = features * (2 if attention else 1)
        self.cell = nn.LSTMCell(inputs, hidden) if options.recurrent == "lstm" else nn.GRUCell(inputs, hidden)
        self.next_word = nn.Linear(hidden, len(vocabulary))
        self.dropout = nn.Dropout(options.dropout)
        self.attended: nn.ModuleDict | None = None
        if attention:
            value, key = nn.Linear(encoder.channels, features), nn.Linear(encoder.channels, attention)
            query, score = nn.Linear(hidden, attention, bias=False), nn.Linear(attention, 1, bias=False)
            self.attended = nn.ModuleDict({"value": value, "key": key, "query": query, "score": score})

    def encode(self, pairs: PairBatch) -> State:
        if pairs.before is None or pairs.after is None:
            raise ValueError(f"{self.name} looks at pixels: give a PairBatch with its images, not maps only")
        before, after = pairs.before.float(), pairs.after.float()
        if self.training:
            before, after = self._augment(before, after)
        seen = GREY + difference(before, after) / 2
        seen_map = self.cnn.features(seen.contiguous(memory_format=torch.channels_last))
        pooled = adaptive_avg_pool2d(seen_map, (1, 1 + self.options.halves)).flatten(1)
        vector = batch_normalise(self.norm, self.reduce(pooled))
        zeros = vector.new_zeros(len(vector), self.cell.hidden_size)
        memory = (zeros, zeros) if isinstance(self.cell, nn.LSTMCell) else (zeros,)
        pictures: tuple[Tensor, ...] = ()
        if self.attended is not None:
            cells = layer_norm(seen_map.flatten(2).mT, seen_map.shape[1:2])
            pictures = (self.attended["key"](cells), torch.relu(self.attended["value"](cells)))
        return self._step_rnn(torch.relu(vector), State.of_pairs(pictures, memory))

    def advance(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """The hidden state, ``(N, hidden)``."""
        state = self._step_rnn(self.dropout(self.embed_word(tokens)), state)
        return self.dropout(state.memory[0]), state

    def _step_rnn(self, inputs: Tensor, state: State) -> State:
        """The recurrent network one step on, inputs ``(N, features)``."""
        if self.attended is not None:
            keys, values = state.pictures
            query = self.attended["query"](state.memory[0]).unsqueeze(1)
            weights = self.attended["score"](torch.tanh(keys + query)).softmax(dim=1)
            inputs = torch.cat([inputs, (weights * values).sum(dim=1)], dim=1)
        if isinstance(self.cell, nn.LSTMCell):
            hidden, cell = state.memory
            return state.remember(*self.cell(inputs, (hidden, cell)))
        return state.remember(self.cell(inputs, state.memory[0]))

    def _augment(self, before: Tensor, after: Tensor) -> tuple[Tensor, Tensor]:
        device = before.device  # drawn on the CPU, so that a seed gives the same on every device
        angle = (torch.rand(len(before)) * 2 - 1).to(device) * math.radians(self.options.rotation)
        scale = 1 / (1 + torch.rand(len(before)).to(device) * self.options.zoom)
        cos, sin, zero = scale * angle.cos(), scale * angle.sin(), torch.zeros_like(angle)
        turn = torch.stack([torch.stack([cos, -sin, zero], 1), torch.stack([sin, cos, zero], 1)], 1)
        grid = affine_grid(turn, list(before.shape), align_corners=False)
        turned = (grid_sample(x, grid, padding_mode="border", align_corners=False) for x in (before, after))
        left, right = turned
        return left, right


def difference(before: Tensor, after: Tensor) -> Tensor:
    """[A | B] - [B | A], signed, each image ``(B, 3, height, width)`` squeezed to half its width."""
    height, width = before.shape[2:]
    left, right = (
        interpolate(x, size=(height, half), mode="area")
        for x, half in ((before - after, width // 2), (after - before, width - width // 2))
    )
    return torch.cat([left, right], dim=3)
