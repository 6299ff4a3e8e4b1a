"""From a state to words: greedy decoding, for every captioner, all rows at once.

It never decodes padding or UNK, nor BOS but in stories; it decodes at least one word, and ends the sentence
after `max_words` words, so that its EOS always counts in its probability.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from models.papers.vocabulary import BOS, EOS, PAD, UNK


@dataclass(frozen=True, slots=True, eq=False)
class State:
    """N rows, each one sentence in decoding about one cluster of a pair, or about a pair."""

    pair: Tensor  # int64 ``(N,)``, the pair of the batch that a row describes
    cluster: Tensor  # int64 ``(N,)``, its cluster; -1 for the entire pair
    # float32 ``(B, K)``, log P(z = k | X) of every cluster; -inf for padding; zeros ``(B, 1)`` where rows
    # describe entire pairs
    log_prior: Tensor
    pictures: tuple[Tensor, ...]  # visual features, ``(N, ...)`` each; the same at every step
    memory: tuple[Tensor, ...]  # recurrent state, ``(N, ...)`` each; changed by every step

    @classmethod
    def of_pairs(cls, pictures: tuple[Tensor, ...], memory: tuple[Tensor, ...]) -> State:
        """One row for each of B pairs, of tensors ``(B, ...)``."""
        count, device = len(memory[0]), memory[0].device
        return cls(
            torch.arange(count, device=device),
            torch.full((count,), -1, device=device),
            torch.zeros(count, 1, device=device),
            pictures,
            memory,
        )

    def __len__(self) -> int:
        return len(self.pair)

    def select(self, rows: Tensor) -> State:
        """The given rows, in the given order, repeated where given twice; `rows` is int64 ``(M,)``."""
        return replace(
            self,
            pair=self.pair[rows],
            cluster=self.cluster[rows],
            pictures=tuple(x.index_select(0, rows) for x in self.pictures),
            memory=tuple(x.index_select(0, rows) for x in self.memory),
        )

    def remember(self, *memory: Tensor) -> State:
        """The same rows after a step."""
        return replace(self, memory=memory)


Step = Callable[[Tensor, State], tuple[Tensor, State]]
"""From the last tokens ``(N,)`` and the state to log P of the next ``(N, V)``, and the new state."""


@dataclass(frozen=True, slots=True)
class Decoded:
    tokens: tuple[int, ...]  # the words of a sentence, without EOS
    log_prob: float  # the sum over words and EOS

    @property
    def sentences(self) -> tuple[Decoded, ...]:
        """Its sentences: itself, but for a story, where BOS begins each further one.

        The sentences of a story share its log probability by their numbers of words.
        """
        parts: list[list[int]] = [[]]
        for token in self.tokens:
            if token == BOS:
                parts.append([])
            else:
                parts[-1].append(token)
        share = self.log_prob / (len(self.tokens) + 1)
        return tuple(Decoded(tuple(part), share * (len(part) + 1)) for part in parts)

    @property
    def confidence(self) -> float:
        """Geometric mean of the probabilities of words and EOS, 0..1."""
        return math.exp(self.log_prob / (len(self.tokens) + 1))


def decode(step: Step, state: State, max_words: int = 24, *, joined: bool = False) -> list[Decoded]:
    """One sentence per row of the state, the likeliest word at every step; rows that are done cost nothing.

    `joined`: BOS may begin a further sentence after the first word.
    """
    if max_words < 1:
        raise ValueError(f"max_words ({max_words}) must be at least 1")
    if len(state) == 0:
        return []
    barred = [PAD, UNK] if joined else [PAD, UNK, BOS]
    tokens: list[list[int]] = [[] for _ in range(len(state))]
    totals = [0.0] * len(state)
    rows = list(range(len(state)))
    words = torch.full((len(state),), BOS, device=state.pair.device)
    for position in range(max_words + 1):
        log_probs, state = step(words, state)
        best, words = _mask_words(log_probs, position, max_words, barred).max(dim=1)
        for row, log_prob, word in zip(rows, best.tolist(), words.tolist(), strict=True):
            totals[row] += log_prob
            if word != EOS:
                tokens[row].append(word)
        going = (words != EOS).nonzero().flatten()
        if len(going) == 0:
            break
        if len(going) < len(words):
            rows = [rows[i] for i in going.tolist()]
            words, state = words[going], state.select(going)
    return [Decoded(tuple(t), total) for t, total in zip(tokens, totals, strict=True)]


def _mask_words(log_probs: Tensor, position: int, max_words: int, barred: list[int]) -> Tensor:
    """A copy with the words that must not come at this position at -inf."""
    allowed = log_probs.clone()
    if position == max_words:
        allowed.fill_(-math.inf)[:, EOS] = log_probs[:, EOS]
        return allowed
    allowed[:, barred if position else [*barred, BOS, EOS]] = -math.inf
    return allowed
