"""From a state to words: greedy and beam search, for every captioner, all rows at once.

Both are deterministic. Neither decodes padding or UNK, nor BOS but in stories; both decode at least one word,
and end the sentence after `max_words` words, so that its EOS always counts in its probability.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from models.papers.vocabulary import BOS, EOS, PAD, UNK


@dataclass(frozen=True, slots=True, eq=False)
class State:
    """N rows, each one sentence in decoding about one cluster of a pair, or about a pair.

    Attributes:
        pair, cluster: int64 ``(N,)``, the pair of the batch and its cluster that a row describes,
            -1 for the entire pair.
        log_prior: float32 ``(B, K)``, log P(z = k | X) of every cluster; -inf for padding; zeros ``(B, 1)``
            where rows describe entire pairs.
        pictures: visual features, ``(N, ...)`` each; the same at every step.
        memory: recurrent state, ``(N, ...)`` each; changed by every step.
    """

    pair: Tensor
    cluster: Tensor
    log_prior: Tensor
    pictures: tuple[Tensor, ...]
    memory: tuple[Tensor, ...]

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

    def reorder(self, rows: Tensor) -> State:
        """Like `select`, for N rows that each take the memory of a row of the same pair and cluster."""
        return replace(self, memory=tuple(x.index_select(0, rows) for x in self.memory))

    def remember(self, *memory: Tensor) -> State:
        """The same rows after a step."""
        return replace(self, memory=memory)


Step = Callable[[Tensor, State], tuple[Tensor, State]]
"""From the last tokens ``(N,)`` and the state to log P of the next ``(N, V)``, and the new state."""

NEVER_DECODED = (PAD, BOS, UNK)
"""BOS may still begin further sentences of a story."""


@dataclass(frozen=True, slots=True)
class Decoded:
    """One sentence.

    Attributes:
        tokens: its words, without EOS.
        log_prob: the sum over words and EOS.
    """

    tokens: tuple[int, ...]
    log_prob: float

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


def decode(
    step: Step, state: State, beam_size: int = 1, max_words: int = 24, *, joined: bool = False
) -> list[Decoded]:
    """One sentence per row of the state.

    Args:
        step: of the captioner.
        state: N rows.
        beam_size: 1 is greedy.
        max_words: of a row, at most.
        joined: BOS may begin a further sentence after the first word.

    Raises:
        ValueError: `beam_size` or `max_words` is less than 1.
    """
    if beam_size < 1 or max_words < 1:
        raise ValueError(f"beam_size ({beam_size}) and max_words ({max_words}) must be at least 1")
    if len(state) == 0:
        return []
    barred = (PAD, UNK) if joined else NEVER_DECODED
    if beam_size == 1:
        return greedy(step, state, max_words, barred)
    return beam(step, state, beam_size, max_words, barred)


def greedy(step: Step, state: State, max_words: int, barred: Sequence[int] = NEVER_DECODED) -> list[Decoded]:
    """The likeliest word at every step. Rows that are done cost nothing further."""
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


def beam(
    step: Step, state: State, beam_size: int, max_words: int, barred: Sequence[int] = NEVER_DECODED
) -> list[Decoded]:
    """The best of `beam_size` hypotheses per row.

    Hypotheses are pruned by their sum of log probabilities and the last choice is by the mean, so that a
    short sentence is not preferred for being short.
    """
    n, device = len(state), state.pair.device
    start = torch.arange(n, device=device).repeat_interleave(beam_size)
    state = state.select(start)
    totals = torch.full((n, beam_size), -math.inf, device=device)
    totals[:, 0] = 0.0
    words = torch.full((n, beam_size), BOS, device=device)
    prefix = torch.zeros(n, beam_size, 0, dtype=torch.int64, device=device)
    done = torch.zeros(n, beam_size, dtype=torch.bool, device=device)
    for position in range(max_words + 1):
        log_probs, state = step(words.flatten(), state)
        log_probs = _mask_words(log_probs, position, max_words, barred).view(n, beam_size, -1)
        log_probs[done] = -math.inf
        log_probs[..., PAD][done] = 0.0
        vocabulary = log_probs.shape[2]
        totals, best = (totals.unsqueeze(2) + log_probs).view(n, -1).topk(beam_size, dim=1)
        parents, words = best // vocabulary, best % vocabulary
        prefix = torch.cat(
            [prefix.gather(1, parents.unsqueeze(2).expand_as(prefix)), words.unsqueeze(2)],
            dim=2,
        )
        done = done.gather(1, parents) | (words == EOS)
        if bool(done.all()):
            break
        state = state.reorder((torch.arange(n, device=device).unsqueeze(1) * beam_size + parents).flatten())
    lengths = (prefix != PAD).sum(dim=2)
    best = (totals / lengths).argmax(dim=1)
    decoded = []
    for row, which in enumerate(best.tolist()):
        sentence = tuple(t for t in prefix[row, which].tolist() if t not in (PAD, EOS))
        decoded.append(Decoded(sentence, totals[row, which].item()))
    return decoded


def _mask_words(log_probs: Tensor, position: int, max_words: int, barred: Sequence[int]) -> Tensor:
    """A copy with the words that must not come at this position at -inf."""
    if position == max_words:
        allowed = torch.full_like(log_probs, -math.inf)
        allowed[:, EOS] = log_probs[:, EOS]
        return allowed
    allowed = log_probs.clone()
    allowed[:, list(barred)] = -math.inf
    if position == 0:
        allowed[:, [BOS, EOS]] = -math.inf
    return allowed
