"""NN and NN-MULTI: what was said about the nearest training pair.

Jhamtani and Berg-Kirkpatrick, "Learning to Describe Differences Between Pairs of Similar Images", EMNLP 2018,
section 5: closeness by the features extracted from both images, as scikit-learn's NearestNeighbors measures
it (Euclidean, the one nearest). NN says a random sentence of the neighbour's annotation, NN-MULTI all of it.

Where the paper is silent, and departures:
* Features: the encoder's maps of before and after, each pooled to `pool` x `pool` cells, one after the other.
* Equally near neighbours: the first that was memorised, as in scikit-learn's brute-force search.
* NN draws its sentence once, when it memorises the annotation, so that what it says depends on nothing else.
* Words that the vocabulary does not know are left out; build it with every word (min_count 1).
* A sentence is written through `step` as a distribution that is certain of every word. It gives others
  no probability to speak of, so it has no perplexity (the paper's tables have none either).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import adaptive_avg_pool2d

from models.encoders.encoder import Encoder
from models.papers.captioner import WordCaptioner, stories
from models.papers.decoding import State
from models.papers.pair_batch import PairBatch
from models.papers.vocabulary import EOS, PAD, UNK, Vocabulary

NEVER = -1e4
"""Log probability of any other word; finite, so that sums of it are numbers."""


class Nearest(WordCaptioner):
    """See the head of this file. It has no weights; `memorise` the training pairs instead of training it.

    Attributes:
        memory: float32 ``(M, D)``, features of the memorised pairs.
        told: int64 ``(M, L)``, what is said when each is the nearest.
    """

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
    memory: Tensor
    told: Tensor

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
            known = torch.tensor([self._sayable(pair) for pair in sentences], dtype=torch.bool)
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

    def _sayable(self, sentences: Tensor) -> bool:
        return bool(((sentences != PAD) & (sentences != EOS) & (sentences != UNK)).any())

    def _choose(self, sentences: Tensor, draw: np.random.Generator) -> Tensor:
        """One text from a pair's sentences ``(T, L)``, some of them with known words: ``(L,)``."""
        known = torch.stack([s for s in sentences if self._sayable(s.unsqueeze(0))])
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
    """NN-MULTI, see the head of this file."""

    name = "nn-multi"
    joined = True
