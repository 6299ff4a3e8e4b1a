"""CCR: a pair and its caption are found among others, beside DIRL.

Tu et al., "Distractors-Immune Representation Learning with Cross-modal Contrastive Regularization for Change
Captioning", ECCV 2024; the idea is that of Guo et al., "CLIP4IDC: CLIP for Image Difference Captioning", AACL
2022, without CLIP's weights.

    p = W_p [mean d_before; mean d_after],   c = W_c LSTM(w_1 .. w_M)
    L_contrast = -1/2 log softmax_j cos(p_i, c_j) / tau - 1/2 log softmax_j cos(p_j, c_i) / tau

over the captions of a batch, j = i and those that say another thing; DIRL's loss and weight L_contrast are
lowered.

Where the papers are silent, and departures:
* Captions of the same pair, of the same words, and two that nothing changed are never wrong for each other.
* CLIP4IDC retrieves first and captions afterwards; here both are learnt at once, as in CCR.
* tau .1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, normalize

from models.encoders.encoder import Encoder
from models.language.vocabulary import PAD, Vocabulary
from models.papers.dirl import DIRL, SaidSentences


class CCR(DIRL):
    """See the head of this file."""

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Options(DIRL.Options):
        """DIRL's, and the contrast's.

        Attributes:
            common: size of the vectors of pairs and captions.
            contrast_weight: of L_contrast in the loss.
            temperature: tau.
        """

        common: int = 128
        contrast_weight: float = 0.5
        temperature: float = 0.1

        def __post_init__(self) -> None:
            """Refuse a temperature that divides by nothing."""
            if self.temperature <= 0:
                raise ValueError(f"temperature must be above 0, not {self.temperature}")

    name = "ccr"
    options: Options

    def __init__(self, vocabulary: Vocabulary, encoder: Encoder, **arguments: Any) -> None:
        super().__init__(vocabulary, encoder, **arguments)
        options = self.options
        self.of_pair = nn.Linear(2 * options.features, options.common)
        self.read = nn.LSTM(options.words, options.common, batch_first=True)
        self.of_caption = nn.Linear(options.common, options.common)

    def further(self, embedded: Tensor, told: SaidSentences) -> Tensor:
        """See `DIRL`: L_contrast."""
        pairs = self.of_pair(self.unexplained(embedded).mean(dim=1).flatten(1))[told.pair]
        states, _ = self.read(self.dropout(self.embed_word(told.tokens)))
        last = (told.tokens != PAD).sum(dim=1) - 1
        captions = self.of_caption(states[torch.arange(len(last), device=last.device), last])
        alike = normalize(pairs.float(), dim=1) @ normalize(captions.float(), dim=1).mT
        own = torch.arange(len(alike), device=alike.device)
        counted = told.wrong() | torch.eye(len(alike), dtype=torch.bool, device=alike.device)
        logits = (alike / self.options.temperature).masked_fill(~counted, -torch.inf)
        both = cross_entropy(logits, own) + cross_entropy(logits.mT, own)
        return self.options.contrast_weight * both / 2
