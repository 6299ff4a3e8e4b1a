"""Words for facts: the likelihood is that of the steps, and other facts get other words."""

from __future__ import annotations

import pytest
import torch

from models.decoding import decode
from models.perception import OBJECTS
from models.places import PLACES
from models.speaker import FACTS, MOST, TYPES, Speaker
from models.state import State
from models.vocabulary import BOS, PAD, Vocabulary

TOLD = {
    (1, 0, 1, 3): "a person has appeared on the left",
    (2, 0, 1, 3): "the person on the left is gone",
    (1, 1, 2, 5): "two cars have appeared on the right",
    (3, 1, 1, 4): "the car in the middle has moved",
    (0, 0, 0, len(PLACES)): "nothing has changed",
}
FACT_ROWS = torch.tensor(list(TOLD))


@pytest.fixture
def words() -> Vocabulary:
    return Vocabulary.build(list(TOLD.values()), min_count=1)


@pytest.fixture
def speaker(words: Vocabulary) -> Speaker:
    torch.manual_seed(5)
    return Speaker(len(words), words=12, hidden=24)


def test_facts_have_room_for_every_value() -> None:
    assert (len(TYPES), len(OBJECTS), MOST + 1, len(PLACES) + 1) == FACTS


@torch.no_grad()
def test_likelihood_is_that_of_the_steps(speaker: Speaker, words: Vocabulary) -> None:
    speaker.eval()
    sentences = words.batch([[text] for text in TOLD.values()])[:, 0]
    whole = speaker.log_likelihood(FACT_ROWS, sentences)
    told, memory = speaker.begin(FACT_ROWS)
    last, total = torch.full((len(TOLD),), BOS), torch.zeros(len(TOLD))
    for position in range(sentences.shape[1]):
        log_probs, memory = speaker.step(last, told, memory)
        torch.testing.assert_close(log_probs.exp().sum(1), torch.ones(len(TOLD)))
        last = sentences[:, position]
        total += torch.where(last != PAD, log_probs.gather(1, last[:, None])[:, 0], 0.0)
    torch.testing.assert_close(whole, total)
    longer = torch.nn.functional.pad(sentences, (0, 4), value=PAD)
    torch.testing.assert_close(speaker.log_likelihood(FACT_ROWS, longer), whole)
    assert speaker.log_likelihood(FACT_ROWS[:0], sentences[:0]).shape == (0,)


@torch.no_grad()
@pytest.mark.parametrize("fact", range(4))
def test_every_fact_is_heard(speaker: Speaker, words: Vocabulary, fact: int) -> None:
    speaker.eval()
    sentence = words.batch([["a person has appeared on the left"]])[0]
    one, other = FACT_ROWS[:1].clone(), FACT_ROWS[:1].clone()
    other[0, fact] += 1
    assert not torch.allclose(speaker.log_likelihood(one, sentence), speaker.log_likelihood(other, sentence))


def test_it_learns_which_words_tell_which_facts(speaker: Speaker, words: Vocabulary) -> None:
    sentences = words.batch([[text] for text in TOLD.values()])[:, 0]
    optimiser = torch.optim.Adam(speaker.parameters(), lr=0.02)
    for step in range(150):
        loss = -speaker.log_likelihood(FACT_ROWS, sentences).mean()
        optimiser.zero_grad()
        loss.backward()
        if step == 0:
            assert all(p.grad is not None and torch.isfinite(p.grad).all() for p in speaker.parameters())
            assert all(p.grad is not None and p.grad.any() for p in speaker.parameters())
        optimiser.step()
    speaker.eval()

    def step_of(tokens: torch.Tensor, state: State) -> tuple[torch.Tensor, State]:
        log_probs, memory = speaker.step(tokens, state.pictures[0], (state.memory[0], state.memory[1]))
        return log_probs, state.remember(*memory)

    with torch.no_grad():
        told, memory = speaker.begin(FACT_ROWS)
        rows = torch.arange(len(TOLD))
        state = State(rows, torch.zeros_like(rows), torch.zeros(len(TOLD), 1), (told,), memory)
        said = [" ".join(words.decode(row.tokens)) for row in decode(step_of, state, 1, 24)]
    assert said == list(TOLD.values())
