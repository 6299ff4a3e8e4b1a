"""The words: a small LSTM that is told the claims and finds a sentence for them.

It needs no pictures to learn: the grammar of `models.language.phrases` says what people say of every claim.
What a camera alone knows, its zones' names and a time that has passed, it says as `ZONE`, `END` and `WHILE`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn

from models.decoding import decode
from models.language.claims import CLOTHES, MANNERS, Claims
from models.language.facts import TYPES as FACT_TYPES
from models.language.phrases import NOUNS, plain_sentence, tells
from models.language.places import PLACES
from models.language.vocabulary import BOS, PAD, Vocabulary, surface
from models.state import State

ZONE, END, WHILE = "zone-there", "zone-then", "time-passed"
"""Words that stand for a zone's own, for the zone's where a way ends, and for a time such as "3 minutes"."""

TYPES = ("none", *FACT_TYPES)
"""What it can tell of, the sentence of nothing first."""
MOST = 11
"""Counts from this on are one."""

_SIDES = ("", "left", "right", "middle", "far", "near")
_VALUES: tuple[tuple[str, tuple[str | int | bool, ...]], ...] = (
    ("type", TYPES),
    ("object", tuple(NOUNS)),
    ("count", tuple(range(MOST + 1))),
    ("manner", ("", *dict.fromkeys(manner for manners in MANNERS.values() for manner in manners))),
    ("origin", _SIDES),
    ("target", _SIDES),
    ("place", ("", *PLACES, ZONE)),
    ("end", ("", END)),
    ("rests", (False, True)),
    ("look", ("", *CLOTHES)),
    ("waited", ("", WHILE)),
    ("seen", (False, True)),
)
"""The fields of `Claims` that it is told, each with its values."""

FACTS = tuple(len(values) for _, values in _VALUES)
"""How many values each told field has."""


class Speaker(nn.Module):
    """Log P(next word | claims, words so far)."""

    def __init__(self, vocabulary: int, *, words: int = 64, hidden: int = 128) -> None:
        """Build with random weights.

        Args:
            vocabulary: number of its words.
            words: size of the word vectors and of the claims' vectors.
            hidden: size of the LSTM.
        """
        super().__init__()
        self.facts = nn.ModuleList(nn.Embedding(values, words) for values in FACTS)
        self.first = nn.Linear(words, 2 * hidden)
        self.embed_word = nn.Embedding(vocabulary, words, padding_idx=PAD)
        self.lstm = nn.LSTMCell(2 * words, hidden)
        self.next_word = nn.Linear(hidden + words, vocabulary)

    def begin(self, facts: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """What is told, ``(N, words)``, and the first memory, from `facts_of` int64 ``(N, len(FACTS))``."""
        told: Tensor = torch.stack([embed(facts[:, k]) for k, embed in enumerate(self.facts)]).sum(0)
        hidden, cell = self.first(told).chunk(2, dim=1)
        return told, (hidden, cell)

    def step(
        self, tokens: Tensor, told: Tensor, memory: tuple[Tensor, Tensor]
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Log probabilities ``(N, V)`` of the word after `tokens` ``(N,)``, and the memory after it."""
        words = self.embed_word(tokens)
        hidden, cell = self.lstm(torch.cat([words, told], dim=1), memory)
        log_probs = self.next_word(torch.cat([hidden, told], dim=1)).log_softmax(dim=1)
        return log_probs, (hidden, cell)

    def log_likelihood(self, facts: Tensor, sentences: Tensor) -> Tensor:
        """Log probability ``(N,)`` of sentences, int64 ``(N, L)``, given their facts ``(N, len(FACTS))``."""
        told, memory = self.begin(facts)
        total, last = told.new_zeros(len(told)), torch.full_like(sentences[:, 0], BOS)
        for position in range(sentences.shape[1]):
            log_probs, memory = self.step(last, told, memory)
            last = sentences[:, position]
            here = log_probs.gather(1, last.unsqueeze(1))[:, 0]
            total = total + torch.where(last != PAD, here, 0.0)
        return total


def facts_of(claims: Sequence[Claims | None]) -> Tensor:
    """Claims as the speaker takes them; None is the sentence of nothing.

    Returns:
        int64 ``(len(claims), len(FACTS))``.
    """
    return torch.tensor([_row(each) for each in claims], dtype=torch.int64).view(-1, len(FACTS))


def veiled(claims: Claims) -> Claims:
    """Claims with the words that stand for what only a camera knows in place of its own."""
    place = claims.place if claims.place in PLACES or not claims.place else ZONE
    return replace(
        claims,
        count=min(claims.count, MOST),
        place=place,
        end=END if claims.end else "",
        waited=WHILE if claims.waited else "",
    )


def unveiled(words: Sequence[str], claims: Claims) -> str:
    """The sentence of decoded words, with the claims' own in place of `ZONE`, `END` and `WHILE`."""
    own = {ZONE: claims.place, END: claims.end, WHILE: claims.waited}
    return surface([own.get(word, word) for word in words])


def said(words: Sequence[str], claims: Claims) -> str:
    """The sentence of decoded words, if it tells the claims, else the plain one."""
    text = unveiled(words, claims)
    return plain_sentence(claims) if claims.other or claims.among or not tells(text, claims) else text


@torch.inference_mode()
def speak(
    speaker: Speaker, vocabulary: Vocabulary, claims: Sequence[Claims], most: int = 40
) -> list[list[str]]:
    """The likeliest words for each claims, decoded greedily; for `said`.

    Args:
        speaker: a trained one.
        vocabulary: its words.
        claims: what is to be told.
        most: words of a sentence.
    """
    if not claims:
        return []

    def step(tokens: Tensor, state: State) -> tuple[Tensor, State]:
        hidden, cell = state.memory
        log_probs, memory = speaker.step(tokens, state.pictures[0], (hidden, cell))
        return log_probs, state.remember(*memory)

    told, memory = speaker.begin(facts_of(claims).to(speaker.first.weight.device))
    decoded = decode(step, State.of_pairs((told,), memory), 1, most)
    return [vocabulary.decode(row.tokens) for row in decoded]


def _row(claims: Claims | None) -> list[int]:
    if claims is None:
        return [0] * len(FACTS)
    told = veiled(claims)
    return [values.index(getattr(told, name)) for name, values in _VALUES]
