"""SCORER's backward reasoning: from the before frame and what is said to the after frame, beside DIRL.

Tu et al., "Self-supervised Cross-view Representation Reconstruction for Change Captioning", ICCV 2023.

    h_n = x_n + softmax(q(x_n) k(s)^T / sqrt(size)) v(s)      a cell of the before frame, as it is told
    L_back = -log softmax_j cos(max_n h_n, max_n x_jn) / tau      right is the after frame

s are the decoder's states along the true words, so that the gradient asks them for what the picture needs; x
are the embedded cells. Wrong are the after frames of the batch's other pairs and the own before frame. DIRL's
loss and weight L_back are lowered.

Where the paper is silent, and departures:
* The own before frame is among the wrong ones: without it the after frame is found from the before frame
  alone. Of a distractor it is not, since there it is as right.
* The subtraction is DIRL's, in place of SCORER's matching of views by heads and its reconstruction loss.
* The maximum over cells, in place of their mean: of 196 cells few change.
* tau .1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, normalize

from models.encoders.encoder import Encoder
from models.language.vocabulary import PAD, Vocabulary
from models.papers.dirl import DIRL, SaidSentences


class SCORER(DIRL):
    """See the head of this file."""

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Options(DIRL.Options):
        """DIRL's, and the backward reasoning's.

        Attributes:
            back_weight: of L_back in the loss.
            temperature: tau.
        """

        back_weight: float = 0.5
        temperature: float = 0.1

        def __post_init__(self) -> None:
            """Refuse a temperature that divides by nothing."""
            if self.temperature <= 0:
                raise ValueError(f"temperature must be above 0, not {self.temperature}")

    name = "scorer"
    options: Options

    def __init__(self, vocabulary: Vocabulary, encoder: Encoder, **arguments: Any) -> None:
        super().__init__(vocabulary, encoder, **arguments)
        size, state = self.options.features, self.next_word.in_features
        self.cell_query = nn.Linear(size, size)
        self.word_key, self.word_value = nn.Linear(state, size), nn.Linear(state, size)

    def further(self, embedded: Tensor, told: SaidSentences) -> Tensor:
        """See `DIRL`: L_back."""
        before, after = embedded[told.pair].float().unbind(dim=2)
        scores = self.cell_query(before) @ self.word_key(told.seen).mT / math.sqrt(before.shape[-1])
        spoken = (told.tokens != PAD).unsqueeze(1)
        imagined = before + scores.masked_fill(~spoken, -torch.inf).softmax(dim=2) @ self.word_value(
            told.seen
        )
        views = [normalize(x.amax(dim=1), dim=1) for x in (imagined, after, before)]
        n = len(before)
        own = torch.arange(n, device=before.device)
        same = told.pair.unsqueeze(1) == told.pair.unsqueeze(0)
        others = ~same | torch.eye(n, dtype=torch.bool, device=before.device)
        changed = torch.ones_like(own, dtype=torch.bool)
        if told.pairs.changed is not None:
            changed = told.pairs.changed[told.pair]
        logits = torch.cat(
            [
                (views[0] @ views[1].mT).masked_fill(~others, -torch.inf),
                (views[0] * views[2]).sum(dim=1, keepdim=True).masked_fill(~changed.unsqueeze(1), -torch.inf),
            ],
            dim=1,
        )
        return self.options.back_weight * cross_entropy(logits / self.options.temperature, own)
