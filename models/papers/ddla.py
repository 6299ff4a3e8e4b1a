"""DDLA, difference description with latent alignment, and its baselines: CAPT, its variants, NN, NN-MULTI.

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

Section 4 projects masks: "we use pyramid reduce downsampling on a smoothed version of cluster mask", from 224
to 14. One level of the pyramid is a Gaussian of sigma 2 * 2 / 6 and a halving, as scikit-image's
`pyramid_reduce` has it; four levels lead from 224 to 14. All of it is linear and separable, so it is one
matrix for the rows and one for the columns.

NN and NN-MULTI say what was said about the nearest training pair, by the features extracted from both images,
as scikit-learn's NearestNeighbors measures it (Euclidean, the one nearest). NN says a random sentence of the
neighbour's annotation, NN-MULTI all of it.

Where the paper is silent about them, and departures:
* Features: the encoder's maps of before and after, each pooled to `pool` x `pool` cells, one after the other.
* Equally near neighbours: the first that was memorised, as in scikit-learn's brute-force search.
* NN draws its sentence once, when it memorises the annotation, so that what it says depends on nothing else.
* Words that the vocabulary does not know are left out; build it with every word (min_count 1).
* A sentence is written through `step` as a distribution that is certain of every word. It gives others
  no probability to speak of, so it has no perplexity (the paper's tables have none either).
"""

import math
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import adaptive_avg_pool1d, adaptive_avg_pool2d

from models.captioner import DescribeOptions
from models.encoders import GRID, Encoder
from models.papers.captioner import FEATURES, PairBatch, Recurrent, WordCaptioner, stories
from models.papers.decoding import State
from models.papers.vocabulary import EOS, PAD, UNK, Vocabulary

MASK_FLOOR = 1e-4  # cells with less of the cluster than this are not attended to


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

    def embed_cells(self, pairs: PairBatch) -> Tensor:
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
        prior: Literal["learned", "uniform"] = "learned"  # "uniform" is the paper's DDLA-UNIFORM
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
        return self.standardise(features) @ self.prior_weights

    def log_prior(self, pairs: PairBatch) -> Tensor:
        """Log P(z | X), float32 ``(B, K)``; -inf for padding."""
        # A finite floor: a pair of padding only must not make the gradient of all others NaN.
        scores = self.prior_scores(pairs.features()).masked_fill(~pairs.valid, -1e30)
        return scores.log_softmax(dim=1).masked_fill(~pairs.valid, -math.inf)

    def encode(self, pairs: PairBatch) -> State:
        embedded = self.embed_cells(pairs)
        pair, cluster = pairs.valid.nonzero(as_tuple=True)
        chosen, log_weights = _support(project_masks(pairs.masks[pair, cluster], self.smoothing).flatten(1))
        flat = (pair.unsqueeze(1) * GRID * GRID + chosen).flatten()
        keys, values = (
            x.flatten(0, 1)[flat].view(*chosen.shape, *x.shape[2:]).transpose(1, 2).contiguous()
            for x in (self.key(embedded), embedded)
        )
        memory = tuple(each.index_select(0, pair) for each in self.first_state(embedded))
        return State(pair, cluster, self.log_prior(pairs), (keys, values, log_weights), memory)

    def select_rows(self, state: State, pairs: PairBatch, options: DescribeOptions) -> Tensor:
        if not self.uniform or options.sentences != 1:
            return super().select_rows(state, pairs, options)
        rows: dict[int, list[int]] = {}
        for row, b in enumerate(state.pair.tolist()):
            rows.setdefault(b, []).append(row)
        boxes = {b: pairs.boxes[b, : len(own)].cpu().numpy().tobytes() for b, own in rows.items()}
        drawn = [own[zlib.crc32(boxes[b]) % len(own)] for b, own in rows.items()]
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
        embedded = self.embed_cells(pairs)
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


FULL, LEVELS = 224, 4  # the paper's mask size, and halvings down to 14
LEVEL_SIGMA = 2 * 2 / 6
TRUNCATE = 4.0  # the Gaussian ends at this many sigma, as in scikit-image


def project_masks(masks: Tensor, smoothing: float) -> Tensor:
    """From masks ``(..., height, width)``, 0..1, to float32 ``(..., 14, 14)``; smoothing 0 is none."""
    rows = _reduction(masks.shape[-2], smoothing).to(masks.device)
    columns = _reduction(masks.shape[-1], smoothing).to(masks.device)
    return rows @ masks.float() @ columns.T


@lru_cache(maxsize=16)
def _reduction(size: int, smoothing: float) -> Tensor:
    """Float32 ``(14, size)``: what each cell takes from each row or column of the mask."""
    with torch.inference_mode(mode=False), torch.no_grad():
        matrix = adaptive_avg_pool1d(torch.eye(size, dtype=torch.float64).unsqueeze(0), FULL)[0].T
        matrix = _gaussian(FULL, smoothing) @ matrix
        for _ in range(LEVELS):
            matrix = _gaussian(len(matrix), LEVEL_SIGMA) @ matrix
            matrix = (matrix[0::2] + matrix[1::2]) / 2
        return matrix.float()


def _gaussian(size: int, sigma: float) -> Tensor:
    """Float64 ``(size, size)``: smooths a line, mirrored at its ends (d c b a | a b c d | d c b a)."""
    if sigma == 0:
        return torch.eye(size, dtype=torch.float64)
    radius = int(TRUNCATE * sigma + 0.5)
    offsets = torch.arange(-radius, radius + 1)
    kernel = torch.exp(-0.5 * (offsets / sigma).double() ** 2)
    source = (torch.arange(size).unsqueeze(1) + offsets) % (2 * size)
    source = torch.where(source >= size, 2 * size - 1 - source, source)
    matrix = torch.zeros(size, size, dtype=torch.float64)
    return matrix.scatter_add_(1, source, (kernel / kernel.sum()).expand(size, -1))


NEVER = -1e4  # log probability of any other word; finite, so that sums of it are numbers


class Nearest(WordCaptioner):
    """See the head of this file. It has no weights; `memorise` the training pairs instead of training it."""

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Options(WordCaptioner.Options):
        pool: int = 1  # cells in both directions that each map is pooled to, at least 1
        seed: int = 0  # of the sentences that NN draws

        def __post_init__(self) -> None:
            if self.pool < 1:
                raise ValueError(f"pool must be at least 1, not {self.pool}")

    name = "nn"
    whole = True
    needs_masks = False
    options: Options
    memory: Tensor  # float32 ``(M, D)``, features of the memorised pairs
    told: Tensor  # int64 ``(M, L)``, what is said when each is the nearest

    def __init__(self, vocabulary: Vocabulary, encoder: Encoder, **arguments: Any) -> None:
        super().__init__(vocabulary, encoder, **arguments)
        self.register_buffer("memory", torch.zeros(0, 2 * encoder.channels * self.options.pool**2))
        self.register_buffer("told", torch.zeros(0, 1, dtype=torch.int64))

    def pair_features(self, pairs: PairBatch) -> Tensor:
        """Features whose distance is measured, float32 ``(B, D)``."""
        both = torch.cat(self.maps(pairs), dim=1).float()
        return adaptive_avg_pool2d(both, self.options.pool).flatten(1)

    @torch.no_grad()
    def memorise(self, batches: Iterable[tuple[PairBatch, Tensor]]) -> None:
        """Forget all and keep these pairs, with the sentences about each, int64 ``(B, T, L)``."""
        draw = np.random.default_rng(self.options.seed)
        features, chosen = [self.memory[:0]], list[Tensor]()
        for pairs, sentences in batches:
            here = pairs.to(self.device)
            known = torch.tensor([self._is_in_vocabulary(pair) for pair in sentences], dtype=torch.bool)
            features.append(self.pair_features(here)[known.to(self.device)])
            chosen += [self._choose(pair, draw) for pair in sentences[known].to(self.device)]
        if not chosen:
            raise ValueError("nothing to memorise: there is no sentence with a word of the vocabulary")
        self.memory = torch.cat(features)
        self.told = nn.utils.rnn.pad_sequence(chosen, batch_first=True, padding_value=PAD)

    def encode(self, pairs: PairBatch) -> State:
        if not len(self.memory):
            raise ValueError("nothing is memorised yet; train it, or load a checkpoint")
        exactly = "donot_use_mm_for_euclid_dist"  # the quick way rounds, and a pair must find itself
        distance = torch.cdist(self.pair_features(pairs), self.memory, compute_mode=exactly)
        nearest = distance.argmin(dim=1)
        return State.of_pairs((self.told[nearest],), (torch.zeros_like(nearest),))

    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        (sentence,), (position,) = state.pictures, state.memory
        beyond = position >= sentence.shape[1]
        words = sentence.gather(1, position.clamp(max=sentence.shape[1] - 1).unsqueeze(1))[:, 0]
        words = words.masked_fill(beyond | (words == PAD), EOS)
        log_probs = torch.full((len(tokens), len(self.vocabulary)), NEVER, device=tokens.device)
        return log_probs.scatter(1, words.unsqueeze(1), 0.0), state.remember(position + 1)

    def _is_in_vocabulary(self, sentences: Tensor) -> bool:
        return bool(((sentences != PAD) & (sentences != EOS) & (sentences != UNK)).any())

    def _choose(self, sentences: Tensor, draw: np.random.Generator) -> Tensor:
        """One text from a pair's sentences ``(T, L)``, some of them with known words: ``(L,)``."""
        known = torch.stack([s for s in sentences if self._is_in_vocabulary(s.unsqueeze(0))])
        if not self.joined:
            known = known[int(draw.integers(len(known)))].unsqueeze(0)
        story = stories(known.unsqueeze(0))[0, 0]
        return story[(story != UNK) & (story != PAD)]

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        """A memory has the size that it was given, which a new captioner can't know."""
        for name in ("memory", "told"):
            if prefix + name in state_dict:
                setattr(self, name, torch.empty_like(state_dict[prefix + name], device=self.device))
        super()._load_from_state_dict(state_dict, prefix, *rest)


class NearestMulti(Nearest):
    name = "nn-multi"
    joined = True
