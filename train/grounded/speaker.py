"""Teach the speaker: it learns its words from the grammar alone, without pictures, in about a minute."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from models.grounded.speaker import Speaker, facts_of, veiled
from models.language.claims import Claims
from models.language.vocabulary import PAD, Vocabulary
from train.grounded.grammar import NO_CHANGE, any_claims, wording

_RATE = 6e-3  # the largest; it rises and falls once (Smith and Topin 2018)


@dataclass(frozen=True, slots=True)
class SpeakingOptions:
    """How it is taught.

    Attributes:
        sentences: number of sentences that it hears, none twice on purpose.
        epochs: how often it hears them.
        batch: sentences per step.
        seed: of the sentences, the weights and their order.
    """

    sentences: int = 30_000
    epochs: int = 6
    batch: int = 256
    seed: int = 0


def sentences_of(count: int, seed: int) -> tuple[list[Claims | None], list[str]]:
    """Random claims, what only a camera knows veiled, each with one of its wordings; None is nothing."""
    rng = np.random.default_rng(seed)
    claims: list[Claims | None] = [None, None]
    words = list(NO_CHANGE)
    while len(claims) < count:
        claim = veiled(any_claims(rng)[1])
        claims.append(claim)
        words.append(wording(claim, rng))
    return claims, words


def taught(options: SpeakingOptions) -> tuple[Speaker, Vocabulary]:
    """A speaker that has learnt the grammar, and its words."""
    claims, words = sentences_of(options.sentences, options.seed)
    vocabulary = Vocabulary.build(words, min_count=1)
    torch.manual_seed(options.seed)
    speaker = Speaker(len(vocabulary))
    teach(speaker, vocabulary, claims, words, options)
    return speaker, vocabulary


def teach(
    speaker: Speaker,
    vocabulary: Vocabulary,
    claims: Sequence[Claims | None],
    words: Sequence[str],
    options: SpeakingOptions,
) -> None:
    """Raise the likelihood of N sentences given their claims; leaves the speaker ready to speak."""
    facts = facts_of(claims)
    tokens = vocabulary.batch([[text] for text in words])[:, 0]
    length = (tokens != PAD).sum(1)
    order = length.argsort()  # sentences of one length share a batch: no step is spent on padding
    batches = [order[n : n + options.batch] for n in range(0, len(order), options.batch)]
    optimiser = torch.optim.Adam(speaker.parameters(), lr=_RATE)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimiser, _RATE, total_steps=len(batches) * options.epochs
    )
    shuffle = np.random.default_rng(options.seed)
    speaker.train()
    for _ in range(options.epochs):
        for n in shuffle.permutation(len(batches)).tolist():
            rows = batches[n]
            loss = -speaker.log_likelihood(facts[rows], tokens[rows, : int(length[rows].max())]).mean()
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(speaker.parameters(), 1.0)
            optimiser.step()
            schedule.step()
    speaker.eval()
