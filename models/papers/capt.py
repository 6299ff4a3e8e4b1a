"""CAPT, CAPT-MASKED and CAPT-MULTI: attention to both images without latent alignment.

Jhamtani and Berg-Kirkpatrick, "Learning to Describe Differences Between Pairs of Similar Images", EMNLP 2018,
section 5, the baselines of tables 4 and 5.

    CAPT         soft attention (Xu et al. 2015) over both images; clusters are ignored; one sentence
    CAPT-MASKED  the same, the attention multiplied by the union of all cluster masks
    CAPT-MULTI   CAPT that learns the whole description, its sentences concatenated; T is not given

All three share DDLA's decoder (`models.papers.attention`): a table compares the alignment, nothing else.

Where the paper is silent, and departures:
* CAPT learns every sentence of a description as a target of its own; the paper says only that it "is trained
  to generate a single sentence". The loss sums over a description's sentences, as DDLA's does.
* CAPT-MASKED: the union is brought to 14x14 as DDLA's masks are. A pair without clusters is seen unmasked, so
  that something can be learnt and said about it.
* CAPT-MULTI: BOS stands between the sentences, so that they can be told apart again (the paper's have full
  stops); their order is that of the annotation.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from models.encoders.encoder import GRID
from models.papers.attention import Attending
from models.papers.ddla import MASK_FLOOR
from models.papers.masks import project_masks
from models.papers.pair_batch import PairBatch
from models.papers.recurrent import WholePair
from models.papers.state import State


class Capt(WholePair, Attending):
    name = "capt"

    def encode(self, pairs: PairBatch) -> State:
        embedded = self.embed(pairs)
        keys, values = (x.transpose(1, 2).contiguous() for x in (self.key(embedded), embedded))
        return State.of_pairs((keys, values, self.log_weights(pairs)), self.first_state(embedded))

    def log_weights(self, pairs: PairBatch) -> Tensor:
        """Logarithm of the mask over the cells, float32 ``(B, 196)``: all cells are open."""
        return torch.zeros(len(pairs.valid), GRID * GRID, device=self.device)


class CaptMulti(Capt):
    name = "capt-multi"
    joined = True


class CaptMasked(Capt):
    @dataclass(frozen=True, slots=True, kw_only=True)
    class Options(Capt.Options):
        smoothing: float = 2.0  # sigma in pixels at 224 of the mask's Gaussian before the pyramid

    name = "capt-masked"
    needs_masks = True
    options: Options

    def log_weights(self, pairs: PairBatch) -> Tensor:
        clusters = pairs.masks & pairs.valid[..., None, None]
        union = project_masks(clusters.any(dim=1), self.options.smoothing).flatten(1)
        union = torch.where((union > MASK_FLOOR).any(dim=1, keepdim=True), union, torch.ones_like(union))
        return union.clamp(min=MASK_FLOOR).log().masked_fill(union <= MASK_FLOOR, -torch.inf)
