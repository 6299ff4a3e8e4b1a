"""IDC-PCL: a difference encoder and a cross-modal transformer that writes by filling in [MASK].

Yao, Wang and Jin, "Image Difference Captioning with Pre-training and Contrastive Learning", AAAI 2022.

    T = [CLS] [BOS] w_1 .. w_M [EOS],   V1 = [IMG1] v_1 .. v_49,   V2 = [IMG2] v_1 .. v_49

Each with position and type embeddings. Every image goes through the single-image layer, both together through
the pair layer (these two are the difference encoder), then words and images through the cross-modal layers.
Pre-training (`train.papers.objectives.pretraining`) lets all of them attend to all; writing has a
uni-directional mask, so that images attend to images and a word to the images and what was said before it.
A word is predicted at a [MASK] behind them. Fine-tuning lowers

    -log P([MASK] = w_i | w_1 .. w_i-1, V1, V2) + -log P(distractor | [IMG1], [IMG2])

Where the paper is silent, and departures:
* The paper masks 15 % of the words in fine-tuning, so that some of what stands before a masked word is masked
  as well. Here every word is predicted in one pass, from [MASK]s beside the sentence that each see only true
  words, exactly as in writing; `share` counts a random part of them only.
* The 49 grid features are the encoder's map pooled to 7x7, through a linear layer and a layer norm. Positions
  of words are sinusoids, those of cells are learned, from sinusoids of row and column on.
* The judge reads both [IMG] vectors after the cross-modal layers: two layers, one answer. It does not silence
  the words, which may themselves say that nothing changed; see `distractors`.
* `comparing` lets the layers in which the images meet first begin where a long training brings them: each
  cell attends to the same cell of the other image, by a bias learned per head, and what it finds there is
  subtracted. From random weights some thousand steps are spent on finding that cell
  (benchmarks/papers/idc-pcl.md). These are the pair layers, and without a difference encoder the first
  cross-modal layer: that row of the ablation loses the encoder, not what was set by hand.
* After the last layer stands a layer norm, as pre-norm needs. Words are predicted by a linear layer of their
  own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import avg_pool2d, binary_cross_entropy_with_logits, cross_entropy

from models.encoders.encoder import Encoder
from models.papers.captioner import WordCaptioner
from models.papers.pair_batch import PairBatch
from models.papers.state import State
from models.papers.transformer import Layer, Stack, sinusoids
from models.papers.vocabulary import BOS, PAD, Vocabulary
from models.papers.wording import read

SIDE = 7
"""Cells of an image, in both directions."""

CELLS = SIDE * SIDE
IMAGE = CELLS + 1
"""Vectors of an image: [IMG] and its cells."""

_KIND, _SAME_CELL, _SUBTRACTED = 0.3, 7.0, 1.2
"""A pair layer that compares at first: standard deviation of the type embeddings (without them a cell where
nothing changed becomes noise), the bias of the same cell (e^7 against 99 others), how much is subtracted."""


class IDCPCL(WordCaptioner):
    @dataclass(frozen=True, slots=True, kw_only=True)
    class Options(WordCaptioner.Options):
        size: int = 512  # of all vectors, even, a multiple of `heads`
        inner: int = 2048  # size of the feed-forward networks
        heads: int = 8  # of every attention
        layers: int = 3  # of the cross-modal transformer; the paper has 3, for birds 2
        single_layers: int = 1  # of the single-image encoder
        pair_layers: int = 1  # of the pair encoder
        difference_encoder: bool = True  # whether there are these two; False is a row of the ablation
        # whether the layers in which images meet first begin by comparing cells, see the head of this file;
        # False from random weights, as in the paper
        comparing: bool = False
        # whether fine-tuning also learns to tell distractors; False is a row of the ablation
        judge: bool = True
        judge_weight: float = 1.0  # of that beside the words; the paper adds both
        share: float = 1.0  # of the words that count in fine-tuning, above 0 and at most 1
        dropout: float = 0.2  # share 0..1, everywhere
        attention_dropout: float | None = None  # of attention weights; None takes `dropout`

        def __post_init__(self) -> None:
            if not 0 < self.share <= 1 or self.size % 2:
                raise ValueError(
                    f"share ({self.share}) must be above 0 and at most 1, size ({self.size}) even"
                )

    name = "idc-pcl"
    whole = True
    needs_masks = False
    options: Options

    def __init__(self, vocabulary: Vocabulary, encoder: Encoder, **arguments: Any) -> None:
        super().__init__(vocabulary, encoder, **arguments)
        options = self.options
        self.size = size = options.size
        self.cls, self.mask = len(vocabulary), len(vocabulary) + 1

        def stack(number: int) -> Stack:
            return Stack(
                Layer(size, options.heads, options.inner, options.dropout, options.attention_dropout)
                for _ in range(number)
            )

        self.embed_word = nn.Embedding(len(vocabulary) + 2, size, padding_idx=PAD)
        self.embed_cell = nn.Sequential(nn.Linear(encoder.channels, size), nn.LayerNorm(size))
        self.place = nn.Parameter(places(size))
        self.image_cls = nn.Parameter(0.02 * torch.randn(2, size))
        comparing = options.comparing
        self.kind = nn.Parameter((_KIND if comparing else 0.02) * torch.randn(3, size))
        self.single = stack(options.single_layers if options.difference_encoder else 0)
        self.pair = stack(options.pair_layers if options.difference_encoder else 0)
        self.same_cell = nn.Parameter(torch.full((options.heads, 1, 1), _SAME_CELL)) if comparing else None
        self.cross = stack(options.layers)
        if comparing:
            for layer in list(self.pair) if options.difference_encoder else list(self.cross)[:1]:
                layer.subtract(_SUBTRACTED)
        self.last_norm = nn.LayerNorm(size)
        self.next_word = nn.Linear(size, len(vocabulary))
        self.judge = (
            nn.Sequential(nn.Linear(2 * size, size), nn.ReLU(), nn.Linear(size, 1)) if options.judge else None
        )
        self.dropout = nn.Dropout(options.dropout)

    def cells(self, pairs: PairBatch) -> Tensor:
        """The grid features of both images, float32 ``(B, 2, 49, channels)``."""
        return grid_features(torch.stack(self.maps(pairs), dim=1))

    def look(self, cells: Tensor, present: Tensor | None = None) -> Tensor:
        """The difference encoder: from cells ``(N, 2, 49, channels)`` to ``(N, 100, size)``, [IMG] first.

        `present`, bool ``(N, 2)``: which images there are; None both.
        """
        heads = self.image_cls.expand(len(cells), 2, self.size).unsqueeze(2)
        x = torch.cat([heads, self.embed_cell(cells)], dim=2) + self.place + self.kind[1:].unsqueeze(1)
        x = self.single(self.dropout(x).flatten(0, 1)).view(x.shape)
        pictures: Tensor = self.pair(x.flatten(1, 2), image_mask(present), self._comparison_bias(x))
        return pictures

    def fuse(self, tokens: Tensor, pictures: Tensor, present: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Words ``(N, M)`` and pictures of `look` through the cross-modal layers, all attending to all.

        Returns ``(N, M, size)`` and ``(N, 100, size)``.
        """
        x = torch.cat([self.words(tokens, torch.arange(tokens.shape[1], device=tokens.device)), pictures], 1)
        images = torch.ones_like(pictures[..., 0], dtype=torch.bool).unsqueeze(1)
        shown = image_mask(present)
        allowed = torch.cat([(tokens != PAD).unsqueeze(1), images if shown is None else shown], dim=2)
        for k, layer in enumerate(self.cross):
            x = layer(x, layer.keys_values(x), allowed, self._first_layer_bias(k, x, tokens.shape[1]))
        text, images_after = self.last_norm(x).split([tokens.shape[1], 2 * IMAGE], dim=1)
        return text, images_after

    def encode(self, pairs: PairBatch) -> State:
        """Keys and values of the images in every cross-modal layer, and no words yet."""
        pairs = pairs.to(self.device)
        kept, _ = self._images(self.look(self.cells(pairs)))
        return State.of_pairs((kept,), (pairs.valid.new_zeros(len(kept), 0, dtype=torch.int64),))

    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """A [MASK] behind BOS and the words so far."""
        said = torch.cat([state.memory[0], tokens.unsqueeze(1)], dim=1)
        masks = self._masks(state.pictures[0], said.roll(-1, dims=1))  # BOS stands for the word to come
        return self.next_word(masks[:, -1]).log_softmax(dim=1), state.remember(said)

    def loss(self, pairs: PairBatch, sentences: Tensor) -> Tensor:
        """-log P of the counted words, mean, and the judge's."""
        pairs, sentences = pairs.to(self.device), sentences.to(self.device)
        kept, pictures = self._images(self.look(self.cells(pairs)))
        b, tokens = _given_sentences(sentences)
        loss = 0.0 * pictures.sum()
        if len(b):
            real = tokens != PAD
            counted = real & (torch.rand(tokens.shape, device=self.device) < self.options.share)
            counted = counted if counted.any() else real
            predicted = self.next_word(self._masks(kept.index_select(0, b), tokens)[counted])
            loss = loss + cross_entropy(predicted, tokens[counted])
        if self.judge is not None:
            worded = (sentences[:, :, 0] != PAD).any(dim=1)
            same = ~self._tells_change(pairs, sentences)
            wrong = binary_cross_entropy_with_logits(self._verdict(pictures), same.float(), reduction="none")
            loss = loss + self.options.judge_weight * (wrong * worded).sum() / worded.sum().clamp(min=1)
        return loss

    def log_likelihood(self, pairs: PairBatch, sentences: Tensor) -> Tensor:
        pairs, sentences = pairs.to(self.device), sentences.to(self.device)
        kept, _ = self._images(self.look(self.cells(pairs)))
        b, tokens = _given_sentences(sentences)
        log_p = 0.0 * kept.flatten(1).sum(dim=1, keepdim=True).expand(sentences.shape[:2])
        if not len(b):
            return log_p
        real = tokens != PAD
        log_probs = self.next_word(self._masks(kept.index_select(0, b), tokens)[real]).log_softmax(dim=1)
        words = log_probs.gather(1, tokens[real].unsqueeze(1))[:, 0]
        total = log_p.new_zeros(tokens.shape).index_put(real.nonzero(as_tuple=True), words).sum(dim=1)
        where = (sentences[:, :, 0] != PAD).nonzero(as_tuple=True)
        return log_p.index_put(where, total)

    @torch.no_grad()
    def distractors(self, pairs: PairBatch) -> Tensor:
        """The judge's probability that nothing changed, float32 ``(B,)``; ValueError without a judge."""
        if self.judge is None:
            raise ValueError("this captioner was built without a judge (judge: false)")
        return self._verdict(self._images(self.look(self.cells(pairs.to(self.device))))[1]).sigmoid()

    def words(self, tokens: Tensor, positions: Tensor) -> Tensor:
        """Embedded words ``(N, M, size)`` at positions ``(M,)``."""
        embedded = self.embed_word(tokens) + sinusoids(positions, self.size) + self.kind[0]
        dropped: Tensor = self.dropout(embedded)
        return dropped

    def _comparison_bias(self, like: Tensor) -> Tensor | None:
        """Attention bias where a cell attends to the same cell of the other image, ``(heads, 100, 100)``."""
        return None if self.same_cell is None else self.same_cell * same_cells(like)

    def _first_layer_bias(self, layer: int, like: Tensor, words: int = 0) -> Tensor | None:
        """The same of a cross-modal layer behind words: of the first, without a difference encoder."""
        if layer or self.options.difference_encoder:
            return None
        bias = self._comparison_bias(like)
        return None if bias is None else nn.functional.pad(bias, (words, 0, words, 0))

    def _images(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values of the images ``(N, layers, 100, 2 * size)``, and what they are in the end."""
        every = []
        for k, layer in enumerate(self.cross):
            own = layer.keys_values(x)
            every.append(own)
            x = layer(x, own, None, self._first_layer_bias(k, x))
        return torch.stack(every, dim=1), self.last_norm(x)

    def _masks(self, kept: Tensor, tokens: Tensor) -> Tensor:
        """Hidden states ``(N, L, size)`` that predict the words, from the images' keys and values."""
        x, allowed = self._streams(tokens)
        for k, layer in enumerate(self.cross):
            x = layer(x, torch.cat([kept[:, k], layer.keys_values(x)], dim=1), allowed)
        masks: Tensor = self.last_norm(x[:, -tokens.shape[1] :])
        return masks

    def _streams(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """The true words [CLS] [BOS] w_1 .. and beside them a [MASK] in place of each, and who sees what.

        Returns ``(N, 2L + 1, size)`` and bool ``(1, 2L + 1, 100 + 2L + 1)``.
        """
        n, length = tokens.shape
        device = tokens.device
        start = torch.tensor([self.cls, BOS], device=device).expand(n, 2)
        both = torch.cat([start, tokens[:, :-1], torch.full_like(tokens, self.mask)], dim=1)
        true, masks = torch.arange(length + 1, device=device), torch.arange(2, length + 2, device=device)
        positions = torch.cat([true, masks])
        before = torch.cat(
            [true <= true.unsqueeze(1), true < masks.unsqueeze(1)]
        )  # a [MASK] sees what is before it, a word also itself
        own = torch.cat([torch.zeros(length + 1, length, device=device), torch.eye(length, device=device)])
        images = torch.ones(2 * length + 1, 2 * IMAGE, dtype=torch.bool, device=device)
        return self.words(both, positions), torch.cat([images, before, own.bool()], dim=1).unsqueeze(0)

    def _verdict(self, pictures: Tensor) -> Tensor:
        assert self.judge is not None  # noqa: S101 - the callers look
        verdict: Tensor = self.judge(pictures[:, ::IMAGE].flatten(1))
        return verdict[:, 0]

    def _tells_change(self, pairs: PairBatch, sentences: Tensor) -> Tensor:
        """True for each pair whose caption mentions a change, bool ``(B,)``."""
        if pairs.changed is not None:
            return pairs.changed
        texts = [[" ".join(self.vocabulary.decode(s)) for s in pair] for pair in sentences.tolist()]
        changed = [any(read(text).type != "none" for text in pair if text) for pair in texts]
        return torch.tensor(changed, device=self.device)


def grid_features(maps: Tensor) -> Tensor:
    """From maps ``(..., channels, 14, 14)`` to cells, float32 ``(..., 49, channels)``."""
    pooled = avg_pool2d(maps.float().flatten(0, -4), 2)
    return pooled.flatten(2).transpose(1, 2).reshape(*maps.shape[:-3], CELLS, maps.shape[-3])


def places(size: int) -> Tensor:
    """Positions of [IMG] and the cells of an image at first, ``(50, size)``: sinusoids of row and column."""
    along = sinusoids(torch.arange(SIDE), size // 2)
    rows, columns = along.repeat_interleave(SIDE, dim=0), along.repeat(SIDE, 1)
    cells = nn.functional.pad(torch.cat([rows, columns], dim=1), (0, size - 2 * along.shape[1]))
    return torch.cat([torch.zeros(1, size), cells])


def same_cells(like: Tensor) -> Tensor:
    """1 where a vector meets that of the same place in the other image, float ``(100, 100)``; else 0."""
    return torch.eye(2 * IMAGE, dtype=like.dtype, device=like.device).roll(IMAGE, dims=0)


def image_mask(present: Tensor | None) -> Tensor | None:
    """Which image vectors may be attended to, bool ``(N, 1, 100)``, of images ``(N, 2)``; None all."""
    return None if present is None else present.repeat_interleave(IMAGE, dim=1).unsqueeze(1)


def _given_sentences(sentences: Tensor) -> tuple[Tensor, Tensor]:
    """Which pair each given sentence is about, int64 ``(N,)``, and its tokens ``(N, L)``."""
    b, t = (sentences[:, :, 0] != PAD).nonzero(as_tuple=True)
    tokens = sentences[b, t]
    return b, tokens[:, : int((tokens != PAD).sum(dim=1).max())] if len(b) else tokens
