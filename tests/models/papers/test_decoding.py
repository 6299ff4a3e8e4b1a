import itertools
import math

import pytest
import torch
from torch import Tensor

from models.papers.decoding import Decoded, State, decode
from models.papers.vocabulary import BOS, EOS, PAD, UNK

WORDS = 9


class Chain:
    """A Markov chain per row: its next word depends on the row and the last word."""

    def __init__(self, rows: int, seed: int, sharpness: float = 3.0) -> None:
        random = torch.Generator().manual_seed(seed)
        self.table = (sharpness * torch.randn(rows, WORDS, WORDS, generator=random)).log_softmax(2)
        index = torch.arange(rows)
        self.state = State(index, torch.zeros_like(index), torch.zeros(rows, 1), (index,), (index * 10,))

    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        assert torch.equal(state.memory[0] // 10, state.pictures[0])  # memory stays with its row
        return self.table[state.pictures[0], tokens], state.remember(*state.memory)


def log_prob(chain: Chain, row: int, tokens: tuple[int, ...]) -> float:
    path = [BOS, *tokens, EOS]
    return sum(float(chain.table[row, a, b]) for a, b in itertools.pairwise(path))


def test_probabilities_are_those_of_the_words():
    chain = Chain(5, 1)
    for row, told in enumerate(decode(chain.step, chain.state, 6)):
        assert 1 <= len(told.tokens) <= 6
        assert not {PAD, BOS, UNK, EOS} & set(told.tokens)
        assert told.log_prob == pytest.approx(log_prob(chain, row, told.tokens), abs=1e-4)
        assert told.confidence == pytest.approx(math.exp(told.log_prob / (len(told.tokens) + 1)))


def test_the_likeliest_word_is_taken_at_every_step():
    chain = Chain(1, 0)
    chain.table[0] = torch.full((WORDS, WORDS), -20.0)
    chain.table[0, BOS, 4], chain.table[0, BOS, 5] = math.log(0.6), math.log(0.4)
    chain.table[0, 4, EOS], chain.table[0, 5, EOS] = math.log(0.1), math.log(1.0)
    chain.table[0, 4, 6], chain.table[0, 6, EOS] = math.log(0.2), math.log(0.3)
    assert decode(chain.step, chain.state, 5)[0].tokens == (4, 6)


def test_sentences_end_at_the_longest_length():
    chain = Chain(2, 3)
    chain.table[:, :, EOS] = -50.0
    for told in decode(chain.step, chain.state, 4):
        assert len(told.tokens) == 4
        assert told.log_prob < -50


def test_sentences_of_a_story_share_its_probability_by_their_words_and_ends():
    parts = Decoded((5, 6, BOS, 7), -5.0).sentences
    assert [(part.tokens, part.log_prob) for part in parts] == [((5, 6), -3.0), ((7,), -2.0)]
