"""The speaker learns the grammar from the grammar: what it says of facts that it never heard is so."""

from __future__ import annotations

import numpy as np
import torch

from models.grounded.speaker import END, WHILE, ZONE, speak, unveiled
from models.language.phrases import tells
from train.grounded.grammar import any_claims
from train.grounded.speaker import SpeakingOptions, sentences_of, taught


def test_sentences_are_the_same_for_the_same_seed() -> None:
    assert sentences_of(200, 3) == sentences_of(200, 3)
    assert sentences_of(200, 3) != sentences_of(200, 4)
    claims, words = sentences_of(3000, 0)
    assert claims[0] is None
    assert len(claims) == len(words) == 3000
    heard = {word for text in words for word in text.split()}
    assert {ZONE, END, WHILE} <= heard


def test_a_short_schooling_is_heard() -> None:
    """A fraction of the lessons: most of what it says of new claims tells just these claims."""
    torch.set_num_threads(1)
    speaker, vocabulary = taught(SpeakingOptions(sentences=1500, epochs=5, batch=32))
    assert not speaker.training
    rng = np.random.default_rng(1)
    claims = [any_claims(rng)[1] for _ in range(500)]
    words = speak(speaker, vocabulary, claims)
    assert sum(tells(unveiled(own, each), each) for own, each in zip(words, claims, strict=True)) > 0.6 * 500
