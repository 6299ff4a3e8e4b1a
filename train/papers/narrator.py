"""The daemon's own narrator as a row: its facts, spoken in the benchmark's grammar.

It is not trained on the benchmark and has not heard its words. Scores of text would punish it for saying "has
driven off" where annotators say "is gone"; so what it found (type, object, number, colour, place) is said in
the plain wording of `train.papers.generated.captions`, of composed pairs in that of `train.compose.grammar`,
and silence as the training captions say it. It sees the pictures as the daemon does, in their own size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields

from models import load_captioner
from models.captioner import Captioner, Sentence
from models.language.wording import read
from pipeline.changes import SceneEvent, find_changes
from pipeline.narration.narration import narrate
from train.compose.claims import claims_of
from train.compose.facts import Fact
from train.compose.phrases import NOUNS, NUMBERS, slots, wordings
from train.footage.recipe import Mix
from train.learning.batches import Split
from train.learning.evaluation import silence_of
from train.learning.frame_pairs import frame_pair
from train.learning.runs import trained_changes
from train.papers.generated.captions import plain_form, side_words
from train.papers.results import Result, untrained
from train.progress import Count
from train.samples import Sample

NARRATOR = "narrator"
"""The row's key."""

COMPOSED = frozenset(each.name for each in fields(Mix))
"""Kinds of samples that `compose` makes."""

_AT_ONCE = 8


def narrator_result(
    measured: Split,
    training: Sequence[Sequence[str]],
    captioner: Captioner | None = None,
    progress: Count | None = None,
) -> Result:
    """What the narrator, None for the one that ships, says about a split, scored as the other rows are.

    Raises:
        SampleError: a picture cannot be read.
    """
    silence = silence_of(training)
    told = narrated(measured.samples, captioner or load_captioner(), progress)
    single = [sentences[0] if sentences else silence for sentences in told]
    whole = [
        " ".join(sentences[: len(sample.sentences)]) or silence
        for sentences, sample in zip(told, measured.samples, strict=True)
    ]
    joined = [[" ".join(annotation) for annotation in sample.annotations] for sample in measured.samples]
    return untrained(NARRATOR, single, whole, gold=measured.sentences, joined=joined, measured=measured)


def narrated(
    samples: Sequence[Sample], captioner: Captioner, progress: Count | None = None
) -> list[list[str]]:
    """What it tells of each sample, most salient first; nothing of light and views."""
    changes, told = trained_changes(captioner), list[list[str]]()
    for start in range(0, len(samples), _AT_ONCE):
        some = [frame_pair(sample) for sample in samples[start : start + _AT_ONCE]]
        for narration in narrate(find_changes(some, changes, captioner.salience), captioner):
            about = narration.sentences if narration.event is SceneEvent.NONE else ()
            say = spoken_as_composed if samples[len(told)].kind in COMPOSED else spoken
            told.append([say(sentence) for sentence in about])
        if progress:
            progress(len(told), len(samples))
    return told


def spoken_as_composed(sentence: Sentence) -> str:
    """The facts of a sentence in the plain wording of composed pairs."""
    before, after = sentence.before, sentence.after
    if before is None and after is None:
        before = after = sentence.box
    fact = Fact(0, sentence.type, sentence.object, sentence.count, before, after, sentence.confidence)
    return wordings(claims_of(fact))[0][0]


def spoken(sentence: Sentence) -> str:
    """The facts of a sentence in the benchmark's plain wording."""
    one, many = NOUNS.get(sentence.object, NOUNS["object"])[0]
    number = NUMBERS[sentence.count] if 1 < sentence.count < len(NUMBERS) else None
    words = slots(one, many, number, read(sentence.text).colour)
    box = sentence.after or sentence.before or sentence.box
    at = side_words(box) if box else ""
    return " ".join(plain_form(sentence.type).format(**words, at=at, other=f"another {one}").split())
