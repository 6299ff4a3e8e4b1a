"""Base classes of captioners with a recurrent decoder, and of those that see whole pairs."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from models.papers.captioner import WordCaptioner
from models.papers.pair_batch import PairBatch
from models.papers.state import State
from models.papers.vocabulary import BOS, EOS, PAD


class Recurrent(WordCaptioner):
    next_word: nn.Linear

    @abstractmethod
    def advance(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """From the last words ``(N,)`` to what predicts the next ones, ``(N, ...)``, and the new state."""

    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        seen, state = self.advance(tokens, state)
        return self.next_word(seen).float().log_softmax(dim=1), state

    def unroll(self, state: State, sentences: Tensor) -> Iterator[tuple[Tensor, State]]:
        """Outputs of `advance` at every position of the given sentences, int64 ``(N, L)``."""
        said = torch.cat([torch.full_like(sentences[:, :1], BOS), sentences[:, :-1]], dim=1)
        for position in range(sentences.shape[1]):
            seen, state = self.advance(said[:, position], state)
            yield seen, state

    def sentence_log_likelihood(self, state: State, sentences: Tensor) -> Tensor:
        """Log probability ``(N,)`` of the given sentence ``(N, L)`` in each row; N >= 1."""
        tokens = trim_padding(sentences)
        seen = torch.stack([each for each, _ in self.unroll(state, tokens)], dim=1)
        return self.word_log_likelihood(seen, tokens).sum(dim=1)

    def word_log_likelihood(self, seen: Tensor, tokens: Tensor) -> Tensor:
        """Log probability of every word ``(N, L)``, 0 for padding, from what predicts it ``(N, L, ...)``."""
        real = tokens != PAD
        log_probs = self.next_word(seen[real]).float().log_softmax(dim=1)  # halves could not be put beside
        likelihood = log_probs.gather(1, tokens[real].unsqueeze(1))[:, 0]
        log_p: Tensor = likelihood.new_zeros(tokens.shape).index_put(real.nonzero(as_tuple=True), likelihood)
        return log_p


class WholePair(Recurrent):
    """Sees a pair as a whole: one sentence about each or, `joined`, one story, BOS between sentences."""

    whole = True
    needs_masks = False
    joined: bool = False

    @property
    def restarts(self) -> bool:
        return self.joined

    def targets(self, sentences: Tensor) -> Tensor:
        """Training targets of sentences ``(B, T, L)``: each by itself, or all as one story."""
        return stories(sentences) if self.joined else sentences

    def loss(self, pairs: PairBatch, sentences: Tensor) -> Tensor:
        """-log P(S_1 .. S_T | X), mean over the pairs that have sentences."""
        log_p = self.log_likelihood(pairs, sentences)
        counted = (sentences[:, :, 0] != PAD).any(dim=1).sum()
        return -log_p.sum() / counted.clamp(min=1).to(log_p.device)

    def log_likelihood(self, pairs: PairBatch, sentences: Tensor) -> Tensor:
        pairs, sentences = pairs.to(self.device), sentences.to(self.device)
        targets = self.targets(sentences)
        state, log_p = self.encode(pairs), torch.zeros(sentences.shape[:2], device=self.device)
        b, t = (targets[:, :, 0] != PAD).nonzero(as_tuple=True)
        if not len(b):  # a zero that a gradient can go through
            return log_p + 0.0 * sum(x.sum() for x in state.memory)
        return log_p.index_put((b, t), self.sentence_log_likelihood(state.select(b), targets[b, t]))


def trim_padding(sentences: Tensor) -> Tensor:
    """Sentences ``(N, L)`` up to the end of the longest; N >= 1."""
    return sentences[:, : int((sentences != PAD).sum(dim=1).max())]


def stories(sentences: Tensor) -> Tensor:
    """The sentences ``(B, T, L)`` of a pair as one row ``(B, 1, M)``, BOS for each EOS but the last."""
    rows = [sentences.new_full((1,), PAD)]
    for pair in sentences:
        story = pair[pair != PAD]
        ends = (story == EOS).nonzero().flatten()
        rows.append(story.index_fill(0, ends[:-1], BOS))
    return nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PAD)[1:, None, :]
