"""Words for claims: the likelihood is that of the steps, other claims get other words, none are lies."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from models.grounded.speaker import END, FACTS, WHILE, ZONE, Speaker, facts_of, said, speak, unveiled, veiled
from models.language.claims import Claims
from models.language.phrases import plain_sentence, tells
from models.language.vocabulary import BOS, PAD, Vocabulary

TOLD: dict[Claims | None, str] = {
    Claims("appeared", "person", place="on the left"): "a person has appeared on the left",
    Claims("disappeared", "person", place="on the left"): "the person on the left has gone",
    Claims("appeared", "car", 2, place="on the right"): "two cars have appeared on the right",
    Claims("moved", "car", origin="left", target="right"): "the car has moved from the left to the right",
    None: "nothing has changed",
}
FACT_ROWS = facts_of(list(TOLD))
FULL = Claims("appeared", "car", 2, "came in", "left", "", "at the gate", "", True, "red", "3 minutes")


@pytest.fixture
def words() -> Vocabulary:
    return Vocabulary.build(list(TOLD.values()), min_count=1)


@pytest.fixture
def speaker(words: Vocabulary) -> Speaker:
    torch.manual_seed(5)
    return Speaker(len(words), words=12, hidden=24)


def test_facts_have_room_for_every_value() -> None:
    rows = facts_of([FULL, replace(FULL, count=40, place="", waited=""), None])
    assert rows.shape == (3, len(FACTS))
    assert (rows < torch.tensor(FACTS)).all()
    assert (rows >= 0).all()
    assert rows[2].eq(0).all()
    assert facts_of([]).shape == (0, len(FACTS))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("type", "unknown"),
        ("object", "bus"),
        ("count", 3),
        ("manner", "arrived"),
        ("origin", "far"),
        ("target", "near"),
        ("place", "on the left"),
        ("end", "by the door"),
        ("rests", False),
        ("look", "dark"),
        ("waited", ""),
        ("seen", True),
    ],
)
@torch.no_grad()
def test_every_claim_is_heard(speaker: Speaker, words: Vocabulary, field: str, value: Any) -> None:
    speaker.eval()
    sentence = words.batch([["a person has appeared on the left"]])[0]
    one, other = facts_of([FULL]), facts_of([replace(FULL, **{field: value})])
    assert (one != other).sum() == 1
    assert not torch.allclose(speaker.log_likelihood(one, sentence), speaker.log_likelihood(other, sentence))


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
    claims = [each for each in TOLD if each is not None]
    assert [" ".join(own) for own in speak(speaker, words, claims)] == list(TOLD.values())[:-1]
    assert speak(speaker, words, []) == []


def test_what_only_the_camera_knows_is_put_in() -> None:
    told = veiled(FULL)
    assert (told.place, told.waited, told.end) == (ZONE, WHILE, "")
    plain = plain_sentence(FULL)
    assert unveiled(plain_sentence(told).rstrip(".").split(), FULL) == plain
    away = Claims("moved", "car", place="at the gate", end="by the door")
    assert veiled(away).end == END
    assert unveiled(["the", "car", ZONE, "has", "moved", "and", "is", "now", END], away) == plain_sentence(
        away
    )


def test_words_that_lie_are_not_said() -> None:
    claims = Claims("disappeared", "car", place="on the left")
    assert said(["the", "car", "on", "the", "left", "is", "gone"], claims) == "The car on the left is gone."
    for lie in ("the van on the left is gone", "the car is gone", "the red car on the left is gone", ""):
        assert said(lie.split(), claims) == plain_sentence(claims)
    other = replace(claims, other=True)
    assert (
        said(["the", "car", "on", "the", "left", "is", "gone"], other) == "Another car on the left has gone."
    )
    assert tells(plain_sentence(other), other)
