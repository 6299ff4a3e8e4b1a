"""Which sentences are told, by a captioner that says what the test puts into its clusters; and decoding."""

import itertools
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from models.captioner import DescribeOptions
from models.encoders import Encoder
from models.papers.captioner import PairBatch, WordCaptioner
from models.papers.decoding import Decoded, State, decode
from models.papers.vocabulary import BOS, EOS, PAD, UNK, Vocabulary

FOUR = [(0, 0, 60, 60), (10, 10, 50, 60), (150, 0, 60, 60), (0, 150, 60, 60)]


class Script(WordCaptioner):
    """Says a given sentence about each cluster, each word with a given probability, under a given prior."""

    name = "script"

    def __init__(
        self, vocabulary: Vocabulary, encoder: Encoder, lines: list[tuple[str, float, float]]
    ) -> None:
        super().__init__(vocabulary, encoder)
        self.scale = torch.nn.Parameter(torch.ones(()))
        self.lines = [vocabulary.encode(text) for text, _, _ in lines]
        self.prior = torch.tensor([prior for _, prior, _ in lines])
        self.sure = [sure for _, _, sure in lines]

    def arguments(self) -> dict[str, Any]:
        return {}

    def encode(self, pairs: PairBatch) -> State:
        pair, cluster = pairs.valid.nonzero(as_tuple=True)
        prior = self.prior[: pairs.valid.shape[1]].log().expand(pairs.valid.shape)
        return State(pair, cluster, prior, (), (torch.zeros_like(pair),))

    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        said = state.memory[0]
        probability = torch.zeros(len(state), len(self.vocabulary))
        for row, (k, at) in enumerate(zip(state.cluster.tolist(), said.tolist(), strict=True)):
            probability[row] = (1 - self.sure[k]) / (len(self.vocabulary) - 1)
            probability[row, self.lines[k][at]] = self.sure[k]
        return probability.log(), state.remember(said + 1)

    def loss(self, pairs: PairBatch, sentences: Tensor) -> Tensor:
        return self.scale * 0

    def log_likelihood(self, pairs: PairBatch, sentences: Tensor) -> Tensor:
        return torch.zeros(sentences.shape[:2])

    def prior_scores(self, features: Tensor) -> Tensor:
        return features[..., 2]

    def fit_scaling(self, features: Tensor) -> None:
        pass


@pytest.fixture
def told(vocabulary, encoder, make_pairs) -> Callable[..., list[str]]:
    def tell(lines: list[tuple[str, float, float]], **options: Any) -> list[str]:
        captioner = Script(vocabulary, encoder, lines)
        described = captioner.describe(make_pairs([FOUR[: len(lines)]]), DescribeOptions(**options))
        return [s.text for s in described[0]]

    return tell


CAR, PERSON, BOTTLE, NOTHING = (
    "a red car has appeared",
    "the person is gone",
    "a bottle has moved",
    "nothing has changed",
)


SAID = {CAR: "A red car has appeared.", PERSON: "The person is gone.", BOTTLE: "A bottle has moved."}
FAINT = [(CAR, 0.3, 0.9), (PERSON, 0.5, 0.9), (BOTTLE, 0.15, 0.9), (CAR, 0.05, 0.9)]
UNSURE = [(CAR, 0.3, 0.4), (CAR, 0.6, 0.4), (BOTTLE, 0.1, 0.4)]


@pytest.mark.parametrize(
    ("lines", "options", "expected"),
    [  # the most salient first, the faint left out
        (FAINT, {"min_salience": 0.35}, [PERSON, CAR]),
        (FAINT, {"min_salience": 0.7}, [PERSON]),
        (FAINT, {"min_salience": 0.0}, [PERSON, CAR, BOTTLE, CAR]),
        (FAINT, {"min_salience": 0.0, "max_sentences": 3}, [PERSON, CAR, BOTTLE]),
        # a given number is told whatever the gates
        (UNSURE, {"sentences": 3, "min_confidence": 0.9, "max_sentences": 1}, [CAR, CAR, BOTTLE]),
        (UNSURE, {"sentences": 1}, [CAR]),
        (UNSURE, {"sentences": 0}, []),
        # what is unsure is left out
        ([(CAR, 0.5, 0.6), (BOTTLE, 0.5, 0.9)], {"min_confidence": 0.7}, [BOTTLE]),
        # nothing changed: that is not told
        ([(NOTHING, 0.6, 0.9), (CAR, 0.4, 0.9)], {}, [CAR]),
        ([(NOTHING, 0.6, 0.9), (CAR, 0.4, 0.9)], {"sentences": 1}, []),
        # the same change is told once: twice here, once elsewhere
        ([(CAR, 0.3, 0.9), (CAR, 0.4, 0.9), (CAR, 0.3, 0.9)], {}, [CAR, CAR]),
        # equal priors by area: 60 x 60 before 50 x 60
        ([(BOTTLE, 0.5, 0.9), (CAR, 0.5, 0.9)], {}, [BOTTLE, CAR]),
        ([(PERSON, 0.3, 0.9), (BOTTLE, 0.3, 0.9), (CAR, 0.3, 0.9)], {}, [PERSON, CAR, BOTTLE]),
    ],
)
def test_which_sentences_are_told(told, lines, options, expected):
    assert told(lines, **options) == [SAID[each] for each in expected]


def test_words_that_are_scored(told):
    assert told([(NOTHING, 0.6, 0.9)], sentences=1, no_change=True) == ["Nothing has changed."]


@pytest.mark.parametrize(("learnt", "expected"), [(3, "A red car."), (80, "A red car" + " car" * 40 + ".")])
def test_sentences_are_as_long_as_those_it_learnt_from(vocabulary, encoder, make_pairs, learnt, expected):
    captioner = Script(vocabulary, encoder, [("a red car" + " car" * 40, 1.0, 0.9)])
    captioner.record = {"training": {"max_words": learnt}}
    ((sentence,),) = captioner.describe(make_pairs([FOUR[:1]]))
    assert sentence.text == expected


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
