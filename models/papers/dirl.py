"""DIRL: what the other image explains is subtracted, of features in which light and noise are decorrelated.

Tu et al., "Distractors-Immune Representation Learning with Cross-modal Contrastive Regularization for Change
Captioning", ECCV 2024; the subtraction as in Tu et al., "Self-supervised Cross-view Representation
Reconstruction for Change Captioning" (SCORER), ICCV 2023.

    C = mean over pairs and cells of z(x_before) z(x_after)^T,   z: every channel to mean 0 and variance 1
    L_immune = mean_c (1 - C_cc)^2 + lambda mean_c sum_d!=c C_cd^2
    u_i = softmax(q(x_i) k(x_j)^T / sqrt(size)) x_j               what of image i image j explains
    d_i = norm(x_i - u_i)                                         what it does not
    L = -log P(S | d_before, d_after) + weight L_immune

C compares the same cells of both images: a channel must say the same of a cell that did not change,
whatever the light, and no channel what another one says.

Where the papers are silent, and departures:
* The decoder is that of CAPT (`models.papers.attention`), not a transformer, so that the row differs from
  CAPT in what it looks at alone. It attends to d_before and d_after.
* One layer and one head of attention, its values not projected: what is subtracted is of the same kind.
* Every cell holds its x and y, in place of learned positions.
* `same_cell` lets the attention begin at the same cell of the other image; from 0, as in the papers, a short
  training does not find it.
* The contrast with captions, which is DIRL's second half, is `models.papers.ccr`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from models.captioner import PairBatch
from models.encoders.encoder import Encoder
from models.language.vocabulary import PAD, Vocabulary
from models.papers.attention import Attending
from models.papers.recurrent import WholePair, unpadded
from models.state import State


class DIRL(WholePair, Attending):
    """See the head of this file."""

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Options(Attending.Options):
        """The decoder's, and what is subtracted.

        Attributes:
            coordinates: whether every cell of the maps also holds its x and y.
            immune_weight: of L_immune in the loss.
            off_diagonal: lambda.
            same_cell: by how much a cell prefers the same cell of the other image at first; learned.
        """

        coordinates: bool = True
        immune_weight: float = 0.1
        off_diagonal: float = 0.05
        same_cell: float = 0.0

    name = "dirl"
    options: Options

    def __init__(self, vocabulary: Vocabulary, encoder: Encoder, **arguments: Any) -> None:
        super().__init__(vocabulary, encoder, **arguments)
        size = self.options.features
        self.ask, self.answer = nn.Linear(size, size), nn.Linear(size, size)
        self.same_cell = nn.Parameter(torch.tensor(float(self.options.same_cell)))
        self.norm = nn.LayerNorm(size)

    def encode(self, pairs: PairBatch) -> State:
        """See `Captioner`: one row per pair, with what either image does not explain of the other."""
        return self.state_of(self.embedded(pairs))

    def state_of(self, embedded: Tensor) -> State:
        """The state before the first word, of both images' cells ``(B, 196, 2, features)``."""
        seen = self.unexplained(embedded)
        keys, values = (x.transpose(1, 2).contiguous() for x in (self.key(seen), seen))
        open_cells = torch.zeros(seen.shape[:2], device=seen.device)
        return State.of_pairs((keys, values, open_cells), self.first_state(seen))

    def unexplained(self, embedded: Tensor) -> Tensor:
        """d_before and d_after, ``(B, 196, 2, features)``."""
        own = embedded.transpose(1, 2)
        other = own.flip(1)
        scores = self.ask(own) @ self.answer(other).mT / math.sqrt(own.shape[-1])
        scores = scores + self.same_cell * torch.eye(scores.shape[-1], device=scores.device)
        left: Tensor = self.norm(own - scores.softmax(dim=-1) @ other)
        return left.transpose(1, 2)

    def loss(self, pairs: PairBatch, sentences: Tensor) -> Tensor:
        """-log P of the sentences, mean over the pairs that have any, and the further terms."""
        pairs, sentences = pairs.to(self.device), sentences.to(self.device)
        embedded = self.embedded(pairs)
        state = self.state_of(embedded)
        b, t = (sentences[:, :, 0] != PAD).nonzero(as_tuple=True)
        if not len(b):  # a zero that a gradient can go through
            return 0.0 * embedded.sum()
        tokens = unpadded(sentences[b, t])
        seen = torch.stack([each for each, _ in self.unrolled(state.select(b), tokens)], dim=1)
        of_words = -self.word_log_likelihood(seen, tokens).sum() / len(set(b.tolist()))
        told = SaidSentences(pairs, b, tokens, seen)
        return of_words + self.options.immune_weight * self.immune(embedded) + self.further(embedded, told)

    def further(self, embedded: Tensor, told: SaidSentences) -> Tensor:  # noqa: ARG002 - for those built on it
        """Further terms of the loss, a scalar.

        Args:
            embedded: both images' cells ``(B, 196, 2, features)``.
            told: the sentences about them.
        """
        return embedded.new_zeros(())

    def immune(self, embedded: Tensor) -> Tensor:
        """L_immune of both images' cells ``(B, 196, 2, features)``."""
        flat = embedded.float().flatten(0, 1)
        before, after = ((x - x.mean(dim=0)) / (x.std(dim=0) + 1e-3) for x in flat.unbind(dim=1))
        alike = before.mT @ after / len(flat)
        right = (1 - alike.diagonal()).square().mean()
        wrong = (alike.square().sum() - alike.diagonal().square().sum()) / len(alike)
        return right + self.options.off_diagonal * wrong


@dataclass(frozen=True, slots=True, eq=False)
class SaidSentences:
    """N sentences about pairs of a batch.

    Attributes:
        pairs: the batch.
        pair: int64 ``(N,)``, which pair each is about.
        tokens: int64 ``(N, L)``.
        seen: what predicts each word, float ``(N, L, ...)``.
    """

    pairs: PairBatch
    pair: Tensor
    tokens: Tensor
    seen: Tensor

    def wrong(self) -> Tensor:
        """Which sentences say another thing than each, bool ``(N, N)``.

        Not those of the same pair, those of the same words, nor two that nothing changed.
        """
        other = (self.tokens.unsqueeze(1) != self.tokens.unsqueeze(0)).any(dim=2)
        other &= self.pair.unsqueeze(1) != self.pair.unsqueeze(0)
        if self.pairs.changed is not None:
            changed = self.pairs.changed[self.pair]
            other &= changed.unsqueeze(1) | changed.unsqueeze(0)
        return other
