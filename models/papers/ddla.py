"""DDLA, difference description with latent alignment, and CAPT, CAPT-MASKED and CAPT-MULTI, its baselines.

Jhamtani and Berg-Kirkpatrick, "Learning to Describe Differences Between Pairs of Similar Images", EMNLP 2018.

    (1)  P(S_1 .. S_T | X) = prod_i sum_k P(S_i | z_i = k, X; theta) P(z_i = k | X; w)
         P(z = k | X; w) ~ exp(w . g(k)), g = height, width, area of the tight box, active pixels

LSTM decoder whose first state is a linear transform of both images' features, whatever z is; additive
attention (Xu et al. 2015) over both images at every step, its weights multiplied by the mask of cluster z
brought to 14x14. Training lowers -log (1) with all K clusters decoded; decoding takes the clusters by
falling prior, one sentence each.

The baselines of tables 4 and 5 have the same decoder: a table compares the alignment, nothing else.

    CAPT         soft attention (Xu et al. 2015) over both images; clusters are ignored; one sentence
    CAPT-MASKED  the same, the attention multiplied by the union of all cluster masks
    CAPT-MULTI   CAPT that learns the whole description, its sentences concatenated; T is not given

Where the paper is silent, and departures:
* g is standardised with the training set's mean and standard deviation; raw pixel counts overflow exp.
* Attention is normalised within each image, after the mask, and the two contexts are concatenated: the
  decoder must know which side it sees to tell "appeared" from "disappeared". Cells where the projected mask
  is below 1e-4 are left out.
* Maps are embedded by a linear layer with ReLU, once per pair. The first state comes from their means.
* `coordinates` adds each cell's x and y to the maps (as DUDA's authors do), without which the decoder can
  hardly say where; off by default, as in the paper.
* The next word is predicted from the hidden state and both contexts. Dropout, sizes: see the constructor.
* Smoothing of the mask before the pyramid: a Gaussian of 2 pixels at 224.
* Encoder: any of `ENCODERS`; the paper's is ResNet-101.
* The uniform prior (DDLA-UNIFORM) takes clusters by falling area; where exactly one sentence is asked for,
  its cluster is drawn at random, as in the paper, by a draw that depends on the pair's boxes alone.
* CAPT learns every sentence of a description as a target of its own; the paper says only that it "is trained
  to generate a single sentence". The loss sums over a description's sentences, as DDLA's does.
* CAPT-MASKED: the union is brought to 14x14 as DDLA's masks are. A pair without clusters is seen unmasked, so
  that something can be learnt and said about it.
* CAPT-MULTI: BOS stands between the sentences, so that they can be told apart again (the paper's have full
  stops); their order is that of the annotation.
"""

from __future__ import annotations

import math
import zlib
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from models.captioner import DescribeOptions
from models.encoders.encoder import GRID, Encoder
from models.papers.captioner import FEATURES, Recurrent
from models.papers.decoding import State
from models.papers.masks import project_masks
from models.papers.pair_batch import PairBatch
from models.papers.vocabulary import PAD, Vocabulary

MASK_FLOOR = 1e-4
"""Cells with less of the cluster than this are not attended to."""


class Attending(Recurrent):
    """The decoder of all, an LSTM that attends to both images.

    A row's `State.pictures` are keys and values ``(N, 2, M, ...)`` of M cells and the logarithms of their
    weights under the mask, ``(N, M)``; its `State.memory` is the LSTM's.
    """

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Options(Recurrent.Options):
        features: int = 192  # size of the embedded maps
        words: int = 128  # size of the word vectors
        hidden: int = 384  # size of the LSTM
        attention: int = 128  # size of the attention
        dropout: float = 0.3  # share 0..1, of word vectors and of what the next word is predicted from
        coordinates: bool = False  # whether every cell of the maps also holds its x and y

    options: Options
    coordinates: Tensor | None

    def __init__(self, vocabulary: Vocabulary, encoder: Encoder, **arguments: Any) -> None:
        super().__init__(vocabulary, encoder, **arguments)
        options = self.options
        self.register_buffer(
            "coordinates", cell_coordinates() if options.coordinates else None, persistent=False
        )
        self.embed_map = nn.Sequential(
            nn.Linear(encoder.channels + 2 * options.coordinates, options.features), nn.ReLU()
        )
        self.first = nn.Linear(2 * options.features, 2 * options.hidden)
        self.key = nn.Linear(options.features, options.attention)
        self.query = nn.Linear(options.hidden, options.attention, bias=False)
        self.score = nn.Linear(options.attention, 1, bias=False)
        self.embed_word = nn.Embedding(len(vocabulary), options.words, padding_idx=PAD)
        self.lstm = nn.LSTMCell(options.words + 2 * options.features, options.hidden)
        self.next_word = nn.Linear(options.hidden + 2 * options.features, len(vocabulary))
        self.dropout = nn.Dropout(options.dropout)

    def embed(self, pairs: PairBatch) -> Tensor:
        """Both images' cells, float32 ``(B, 196, 2, features)``."""
        maps = torch.stack(self.maps(pairs), dim=1).float()  # a cache may hold halves
        cells = maps.flatten(3).permute(0, 3, 1, 2)
        if self.coordinates is not None:
            at = self.coordinates.view(1, GRID * GRID, 1, 2).expand(*cells.shape[:3], 2)
            cells = torch.cat([cells, at], dim=3)
        embedded: Tensor = self.embed_map(cells)
        return embedded

    def first_state(self, embedded: Tensor) -> tuple[Tensor, Tensor]:
        """Hidden and cell state before the first word, ``(B, hidden)`` each, of `embedded`."""
        hidden, cell = self.first(embedded.mean(dim=1).flatten(1)).chunk(2, dim=1)
        return hidden, cell

    def advance(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """The hidden state and both contexts, ``(N, hidden + 2 * features)``."""
        hidden, cell = state.memory
        context = self._context(self.query(hidden), *state.pictures)
        words = self.dropout(self.embed_word(tokens))
        hidden, cell = self.lstm(torch.cat([words, context], dim=1), (hidden, cell))
        return self.dropout(torch.cat([hidden, context], dim=1)), state.remember(hidden, cell)

    def _context(self, queries: Tensor, keys: Tensor, values: Tensor, log_weights: Tensor) -> Tensor:
        """Contexts of both images for each row, ``(N, 2 * features)``."""
        matched = torch.tanh(keys + queries[:, None, None, :])
        # Multiplying the weights by the mask and renormalising is adding its logarithm before the softmax.
        weights = (self.score(matched)[..., 0] + log_weights.unsqueeze(1)).softmax(dim=2)
        seen: Tensor = weights.unsqueeze(2) @ values
        return seen.flatten(1)


def marginal_log_likelihood(log_prior: Tensor, log_likelihood: Tensor) -> Tensor:
    """Log of a factor of (1), ``(B, T)``, of ``(B, K)`` and ``(B, T, K)``; -inf without clusters."""
    return torch.logsumexp(log_prior.unsqueeze(1) + log_likelihood, dim=2)


class DDLA(Attending):
    @dataclass(frozen=True, slots=True, kw_only=True)
    class Options(Attending.Options):
        # "learned", or "uniform" for the paper's DDLA-UNIFORM
        prior: Literal["learned", "uniform"] = "learned"
        smoothing: float = 2.0  # sigma in pixels at 224 of the mask's Gaussian before the pyramid

        def __post_init__(self) -> None:
            if self.prior not in ("learned", "uniform"):
                raise ValueError(f"prior must be 'learned' or 'uniform', not {self.prior!r}")

    name = "ddla"
    options: Options

    def __init__(self, vocabulary: Vocabulary, encoder: Encoder, **arguments: Any) -> None:
        super().__init__(vocabulary, encoder, **arguments)
        self.uniform, self.smoothing = self.options.prior == "uniform", self.options.smoothing
        self.prior_weights = nn.Parameter(torch.zeros(FEATURES), requires_grad=not self.uniform)

    def prior_scores(self, features: Tensor) -> Tensor:
        """The paper's w . g(z), see `Captioner`; all 0 for the uniform prior."""
        return self.scaled(features) @ self.prior_weights

    def log_prior(self, pairs: PairBatch) -> Tensor:
        """Log P(z | X), float32 ``(B, K)``; -inf for padding."""
        # A finite floor: a pair of padding only must not make the gradient of all others NaN.
        scores = self.prior_scores(pairs.features()).masked_fill(~pairs.valid, -1e30)
        return scores.log_softmax(dim=1).masked_fill(~pairs.valid, -math.inf)

    def encode(self, pairs: PairBatch) -> State:
        embedded = self.embed(pairs)
        pair, cluster = pairs.valid.nonzero(as_tuple=True)
        chosen, log_weights = _support(project_masks(pairs.masks[pair, cluster], self.smoothing).flatten(1))
        flat = (pair.unsqueeze(1) * GRID * GRID + chosen).flatten()
        keys, values = (
            x.flatten(0, 1).index_select(0, flat).view(*chosen.shape, 2, -1).transpose(1, 2).contiguous()
            for x in (self.key(embedded), embedded)
        )
        memory = tuple(each.index_select(0, pair) for each in self.first_state(embedded))
        return State(pair, cluster, self.log_prior(pairs), (keys, values, log_weights), memory)

    def select_rows(self, state: State, pairs: PairBatch, options: DescribeOptions) -> Tensor:
        """The uniform prior draws the cluster of a single sentence."""
        if not self.uniform or options.sentences != 1:
            return super().select_rows(state, pairs, options)
        rows: dict[int, list[int]] = {}
        for row, b in enumerate(state.pair.tolist()):
            rows.setdefault(b, []).append(row)
        drawn = [
            own[zlib.crc32(pairs.boxes[b, : len(own)].cpu().numpy().tobytes()) % len(own)]
            for b, own in rows.items()
        ]
        return torch.tensor(drawn, dtype=torch.int64, device=state.pair.device)

    def log_likelihood(self, pairs: PairBatch, sentences: Tensor) -> Tensor:
        pairs, sentences = pairs.to(self.device), sentences.to(self.device)
        worded = (sentences[:, :, 0] != PAD) & pairs.valid.any(dim=1, keepdim=True)
        log_prior, likelihood = self.alignment_likelihoods(pairs, sentences)
        b, t = worded.nonzero(as_tuple=True)
        log_p = marginal_log_likelihood(log_prior[b], likelihood[b, t].unsqueeze(1))[:, 0]
        return log_p.new_zeros(worded.shape).index_put((b, t), log_p)

    def alignment_likelihoods(self, pairs: PairBatch, sentences: Tensor) -> tuple[Tensor, Tensor]:
        """Log P(z = k | X) ``(B, K)``, -inf for padding, and log P(S_i | z = k, X) ``(B, T, K)``.

        The latter is 0 where there is no sentence or no cluster.
        """
        pairs, sentences = pairs.to(self.device), sentences.to(self.device)
        state = self.encode(pairs)
        worded = sentences[:, :, 0] != PAD
        row, t = worded[state.pair].nonzero(as_tuple=True)
        b, k = state.pair[row], state.cluster[row]
        log_p = (
            self.word_log_likelihood(state.select(row), sentences[b, t]).sum(dim=1)
            if len(row)
            else state.log_prior.new_zeros(0)
        )
        likelihood = log_p.new_zeros(*worded.shape, pairs.valid.shape[1]).index_put((b, t, k), log_p)
        return state.log_prior, likelihood

    @torch.no_grad()
    def alignment(self, pairs: PairBatch, sentences: Tensor) -> Tensor:
        """The cluster that a sentence describes, argmax_k P(z = k) P(S_i | z = k, X), ``(B, T)``; -1 none."""
        log_prior, likelihood = self.alignment_likelihoods(pairs, sentences)
        worded = (sentences[:, :, 0] != PAD) & pairs.valid.any(dim=1, keepdim=True)
        if not pairs.valid.shape[1]:  # argmax over no clusters at all is an error
            return torch.full_like(worded, -1, dtype=torch.int64, device=self.device)
        best = (log_prior.unsqueeze(1) + likelihood).argmax(dim=2)
        return best.masked_fill(~worded.to(self.device), -1)


class Capt(Attending):
    name = "capt"
    whole = True
    needs_masks = False

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


def cell_coordinates() -> Tensor:
    """The centre of each cell, x then y, in -1..1, ``(196, 2)``, row by row."""
    along = (torch.arange(GRID) + 0.5) / GRID * 2 - 1
    y, x = torch.meshgrid(along, along, indexing="ij")
    return torch.stack([x, y], dim=-1).flatten(0, 1)


def _support(weights: Tensor) -> tuple[Tensor, Tensor]:
    """The cells of each projected mask ``(N, 196)``, int64 ``(N, M)``, and the logarithms of their weights.

    Padding is -inf. A mask keeps at least one cell, so that the attention over it is defined.
    """
    most = int((weights > MASK_FLOOR).sum(dim=1).max()) if len(weights) else 1
    ordered, cells = weights.topk(max(most, 1), dim=1)
    log_weights = ordered.clamp(min=MASK_FLOOR).log().masked_fill(ordered <= MASK_FLOOR, -math.inf)
    log_weights[:, 0] = ordered[:, 0].clamp(min=MASK_FLOOR).log()
    return cells, log_weights
