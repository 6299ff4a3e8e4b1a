"""DUDA: dual dynamic attention.

Park, Darrell and Rohrbach, "Robust Change Captioning", ICCV 2019; the captioner of Hosseinzadeh and Wang,
"Image Change Captioning by Learning from an Auxiliary Task", CVPR 2021.

    d = f_after - f_before
    a_i = sigmoid(conv2(ReLU(dropout(norm(conv1([f_i; d]))))))      a cell's weight, of each image
    l_b = s sum a_before f_before, l_a = s sum a_after f_after, l_d = l_a - l_b
    u = ReLU(W [l_b; l_d; l_a])
    h1 = LSTM([u; h2]), w = softmax(W h1)                           before, difference or after?
    h2 = LSTM([word; w_b l_b + w_d l_d + w_a l_a]), P(word) = softmax(W h2)
    L = L_words + 2.5e-3 attention - 1e-4 entropy of w

L_words is told in `models.papers.change_captioner`; attention is the mean sum of the weights a_i, which
keeps them sparse. Defaults are the papers' sizes: with encoder "resnet101_stage3" f has 1024 channels and
two of coordinates, [f_i; d] 2052, [l_b; l_d; l_a] 3078.

Where the papers are silent, and departures:
* The sums are not normalised, as in the released code. They saturate the LSTMs until the attention's term has
  made them small; a `scale` below 1 learns sooner (on the generated benchmark, 1/14: perplexity 15 instead of
  42 after the first epoch, 2.7 and 2.8 after the fifth). 1/196 would make means of them.
* h2 of the first LSTM's input is that of the word before. Both LSTMs begin with zeros.
* Dropout of word vectors and of h2 before the next word.
* The code's three errors are not repeated: captions are decoded greedily or by beam in validation and test
  alike, one snapshot is kept for all metrics, and sentences have an end.
* Encoder: any of `ENCODERS`.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from models.captioner import PairBatch
from models.encoders.encoder import Encoder
from models.language.vocabulary import PAD, Vocabulary
from models.papers.change_captioner import ChangeCaptioner, SpatialAttention, attended, attention_size
from models.state import State


class DUDA(ChangeCaptioner):
    """See the head of this file.

    A row's `State.pictures` are u ``(N, visual)``, l of before, difference and after ``(N, 3, channels)`` and
    the attention over both images ``(N, 2, 196)``; its `State.memory` ends with the last word's w ``(N, 3)``.
    """

    name = "duda"

    def __init__(
        self,
        vocabulary: Vocabulary,
        encoder: Encoder,
        *,
        attention: int = 128,
        groups: int = 32,
        attention_dropout: float = 0.5,
        scale: float = 1.0,
        visual: int = 512,
        words: int = 300,
        hidden: int = 512,
        dropout: float = 0.5,
        changed_weight: float = 0.5,
        attention_weight: float = 2.5e-3,
        entropy_weight: float = 1e-4,
    ) -> None:
        """Build with random weights.

        Args:
            vocabulary: what it can say.
            encoder: its eyes.
            attention: channels between the attention's convolutions, a multiple of `groups`.
            groups: of the attention's group norm.
            attention_dropout: inside the attention.
            scale: s, of the attention-weighted sums; 1 is the papers'.
            visual: size of u.
            words: size of the word vectors.
            hidden: size of both LSTMs.
            dropout: of word vectors and of h2.
            changed_weight: share of the loss of changed pairs, the rest is that of distractors.
            attention_weight: of the sum of the attention in the loss.
            entropy_weight: of the entropy of w in the loss.

        Raises:
            ValueError: `changed_weight` is not in 0..1, or `attention` no multiple of `groups`.
        """
        super().__init__(vocabulary, encoder, changed_weight)
        self._arguments |= {
            "attention": attention,
            "groups": groups,
            "attention_dropout": attention_dropout,
            "scale": scale,
            "visual": visual,
            "words": words,
            "hidden": hidden,
            "dropout": dropout,
            "attention_weight": attention_weight,
            "entropy_weight": entropy_weight,
        }
        self.attention_weight, self.entropy_weight, self.scale = attention_weight, entropy_weight, scale
        self.attention = SpatialAttention(2 * self.channels, attention, groups, attention_dropout)
        self.embed_visual = nn.Sequential(nn.Linear(3 * self.channels, visual), nn.ReLU())
        self.choosing = nn.LSTMCell(visual + hidden, hidden)
        self.choice = nn.Linear(hidden, 3)
        self.embed_word = nn.Embedding(len(vocabulary), words, padding_idx=PAD)
        self.telling = nn.LSTMCell(words + self.channels, hidden)
        self.next_word = nn.Linear(hidden, len(vocabulary))
        self.dropout = nn.Dropout(dropout)

    def encode(self, pairs: PairBatch) -> State:
        """See `Captioner`: one row per pair."""
        before, after = self.cells(pairs)
        difference = after - before
        attention = [self.attention(torch.cat([cells, difference], dim=1)) for cells in (before, after)]
        left, right = (self.scale * attended(x, a) for x, a in zip((before, after), attention, strict=True))
        parts = torch.stack([left, right - left, right], dim=1)
        visual = self.embed_visual(parts.flatten(1))
        zeros = visual.new_zeros(len(visual), self.telling.hidden_size)
        chosen = visual.new_full((len(visual), 3), 1 / 3)
        return State.of_pairs(
            (visual, parts, torch.stack(attention, dim=1)), (zeros, zeros, zeros, zeros, chosen)
        )

    def advance(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """See `Recurrent`: h2, ``(N, hidden)``."""
        visual, parts, _ = state.pictures
        hidden1, cell1, hidden2, cell2, _ = state.memory
        hidden1, cell1 = self.choosing(torch.cat([visual, hidden2], dim=1), (hidden1, cell1))
        chosen = self.choice(hidden1).softmax(dim=1)
        looked = (chosen.unsqueeze(1) @ parts)[:, 0]
        words = self.dropout(self.embed_word(tokens))
        hidden2, cell2 = self.telling(torch.cat([words, looked], dim=1), (hidden2, cell2))
        return self.dropout(hidden2), state.remember(hidden1, cell1, hidden2, cell2, chosen)

    def further_loss(self, state: State, unrolled: list[State], said: Tensor) -> Tensor:
        """Sparse attention, and a choice between the images that is not settled too soon."""
        chosen = torch.stack([each.memory[-1] for each in unrolled], dim=1)[said]
        entropy = -(chosen * chosen.clamp(min=1e-9).log()).sum(dim=1).mean()
        size = attention_size(state.pictures[2])
        return self.attention_weight * size - self.entropy_weight * entropy
