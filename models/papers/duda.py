"""DUDA: dual dynamic attention.

Park, Darrell and Rohrbach, "Robust Change Captioning", ICCV 2019; the captioner of Hosseinzadeh and Wang,
"Image Change Captioning by Learning from an Auxiliary Task", CVPR 2021.

    d = f_after - f_before
    a_i = sigmoid(conv2(ReLU(dropout(norm(conv1([f_i; d]))))))      a cell's weight, of each image
    l_b = s sum a_before f_before, l_a = s sum a_after f_after, l_d = l_a - l_b
    u = dropout(ReLU(W [l_b; l_d; l_a]))
    h1 = LSTM([u; h2]), w = softmax(W h1)                           before, difference or after?
    h2 = LSTM([word; w_b l_b + w_d l_d + w_a l_a]), P(word) = softmax(W h2)
    L = L_words + 2.5e-3 attention - 1e-4 entropy of w

For L_words see `models.papers.change_captioner`; attention is the mean sum of the weights a_i, which
keeps them sparse, entropy the sum over a sentence's words, mean over sentences; both of changed pairs only.
Dropout of u is drawn again at every word. All of this is the released code's. Defaults are the papers': with
encoder "resnet101_stage3" f has 1024 channels and two of coordinates, [f_i; d] 2052, [l_b; l_d; l_a] 3078.

Where the papers are silent, and departures:
* The sums are not normalised, as in the released code. They saturate the LSTMs until the attention's term has
  made them small; a `scale` below 1 learns sooner (on the generated benchmark, 1/14: perplexity 15 instead of
  42 after the first epoch, 2.7 and 2.8 after the fifth). 1/196 would make means of them.
* h2 of the first LSTM's input is that of the word before. Both LSTMs begin with zeros.
* Two things of the code's are not repeated: captions are decoded greedily or by beam in validation and test
  alike (the code draws words in validation), and one snapshot is kept for all metrics (the code takes each
  metric's best).
* The code's head that names the type of change is left out: nothing is learnt through it.
* The entropy weighs 1e-4, as in the code's description; its own default is 0.
* Encoder: any of `ENCODERS`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from models.encoders.encoder import Encoder
from models.papers.change_captioner import (
    AttendingOptions,
    ChangeCaptioner,
    SpatialAttention,
    attend,
    attention_size,
)
from models.papers.pair_batch import PairBatch
from models.papers.state import State
from models.papers.vocabulary import PAD, Vocabulary


class DUDA(ChangeCaptioner):
    """See the head of this file.

    A row's `State.pictures` are u ``(N, visual)``, l of before, difference and after ``(N, 3, channels)`` and
    the attention over both images ``(N, 2, 196)``; its `State.memory` ends with the last word's w ``(N, 3)``.
    """

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Options(AttendingOptions):
        entropy_weight: float = 1e-4  # of the entropy of w in the loss

    name = "duda"
    options: Options

    def __init__(self, vocabulary: Vocabulary, encoder: Encoder, **arguments: Any) -> None:
        super().__init__(vocabulary, encoder, **arguments)
        options = self.options
        self.attention = SpatialAttention(2 * self.channels, options)
        self.embed_visual = nn.Sequential(nn.Linear(3 * self.channels, options.visual), nn.ReLU())
        self.choosing = nn.LSTMCell(options.visual + options.hidden, options.hidden)
        self.choice = nn.Linear(options.hidden, 3)
        self.embed_word = nn.Embedding(len(vocabulary), options.words, padding_idx=PAD)
        self.telling = nn.LSTMCell(options.words + self.channels, options.hidden)
        self.next_word = nn.Linear(options.hidden, len(vocabulary))
        self.dropout = nn.Dropout(options.dropout)

    def encode(self, pairs: PairBatch) -> State:
        before, after = self.cells(pairs)
        attention = self.attention.of_both(before, after)
        looked = zip((before, after), attention.unbind(dim=1), strict=True)
        left, right = (self.options.scale * attend(cells, each) for cells, each in looked)
        parts = torch.stack([left, right - left, right], dim=1)
        visual = self.embed_visual(parts.flatten(1))
        zeros = visual.new_zeros(len(visual), self.telling.hidden_size)
        chosen = visual.new_full((len(visual), 3), 1 / 3)
        return State.of_pairs((visual, parts, attention), (zeros, zeros, zeros, zeros, chosen))

    def advance(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """H2, ``(N, hidden)``."""
        visual, parts, _ = state.pictures
        hidden1, cell1, hidden2, cell2, _ = state.memory
        hidden1, cell1 = self.choosing(torch.cat([self.dropout(visual), hidden2], dim=1), (hidden1, cell1))
        chosen = self.choice(hidden1).softmax(dim=1)
        looked = (chosen.unsqueeze(1) @ parts)[:, 0]
        words = self.dropout(self.embed_word(tokens).relu())
        hidden2, cell2 = self.telling(torch.cat([words, looked], dim=1), (hidden2, cell2))
        return self.dropout(hidden2), state.remember(hidden1, cell1, hidden2, cell2, chosen)

    def further_loss(self, state: State, unrolled: list[State], said: Tensor, changed: Tensor) -> Tensor:
        """Sparse attention, and a choice between the images that is not settled too soon."""
        chosen = torch.stack([each.memory[-1] for each in unrolled], dim=1)[said]
        entropy = -(chosen * chosen.clamp(min=1e-9).log()).sum() / said.any(dim=1).sum().clamp(min=1)
        size = attention_size(state.pictures[2], changed)
        return self.options.attention_weight * size - self.options.entropy_weight * entropy
