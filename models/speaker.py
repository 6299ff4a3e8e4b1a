"""The words: a small LSTM that is told the facts and finds a sentence for them."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from models.perception import OBJECTS
from models.places import PLACES, place_bin
from models.telling import Tale
from models.vocabulary import BOS, PAD

TYPES = ("none", "appeared", "disappeared", "moved", "replaced", "more", "fewer")
MOST = 5
"""Counts from this on are one fact: many."""
FACTS = (len(TYPES), len(OBJECTS), MOST + 1, len(PLACES) + 1)
"""How many values each fact has: type, object, count (0 for none), place (the last for nowhere)."""


class Speaker(nn.Module):
    """Log P(next word | facts, words so far)."""

    def __init__(self, vocabulary: int, *, words: int = 48, hidden: int = 128, dropout: float = 0.1) -> None:
        """Build with random weights.

        Args:
            vocabulary: number of its words.
            words: size of the word vectors and of the facts' vectors.
            hidden: size of the LSTM.
            dropout: of word vectors.
        """
        super().__init__()
        self.facts = nn.ModuleList(nn.Embedding(values, words) for values in FACTS)
        self.first = nn.Linear(words, 2 * hidden)
        self.embed_word = nn.Embedding(vocabulary, words, padding_idx=PAD)
        self.lstm = nn.LSTMCell(2 * words, hidden)
        self.next_word = nn.Linear(hidden + words, vocabulary)
        self.dropout = nn.Dropout(dropout)

    def begin(self, facts: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """What is told, ``(N, words)``, and the first memory, from facts int64 ``(N, 4)``."""
        told: Tensor = torch.stack([embed(facts[:, k]) for k, embed in enumerate(self.facts)]).sum(0)
        hidden, cell = self.first(told).chunk(2, dim=1)
        return told, (hidden, cell)

    def step(
        self, tokens: Tensor, told: Tensor, memory: tuple[Tensor, Tensor]
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Log probabilities ``(N, V)`` of the word after `tokens` ``(N,)``, and the memory after it."""
        words = self.dropout(self.embed_word(tokens))
        hidden, cell = self.lstm(torch.cat([words, told], dim=1), memory)
        log_probs = self.next_word(torch.cat([hidden, told], dim=1)).log_softmax(dim=1)
        return log_probs, (hidden, cell)

    def log_likelihood(self, facts: Tensor, sentences: Tensor) -> Tensor:
        """Log probability of each sentence, int64 ``(N, L)``, given its facts ``(N, 4)``: ``(N,)``."""
        told, memory = self.begin(facts)
        total, last = told.new_zeros(len(told)), torch.full_like(sentences[:, 0], BOS)
        for position in range(sentences.shape[1]):
            log_probs, memory = self.step(last, told, memory)
            last = sentences[:, position]
            here = log_probs.gather(1, last.unsqueeze(1))[:, 0]
            total = total + torch.where(last != PAD, here, 0.0)
        return total


def facts_of(tales: Sequence[Tale | None]) -> Tensor:
    """The facts of each tale as the speaker takes them; None is the sentence of nothing.

    Returns:
        int64 ``(len(tales), 4)``, see `FACTS`; a type that it was not taught is told as the first.
    """
    facts = [
        (0, 0, 0, len(PLACES))
        if tale is None
        else (
            TYPES.index(tale.type) if tale.type in TYPES else 0,
            OBJECTS.index(tale.object),
            min(tale.count, MOST),
            place_bin(tale.place_box),
        )
        for tale in tales
    ]
    return torch.tensor(facts, dtype=torch.int64).view(-1, 4)
