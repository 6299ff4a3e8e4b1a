"""The words of questions are those of the captioners."""

from __future__ import annotations

import pytest

from daemon.questions.words import (
    ANIMALS,
    COLOURS,
    KINDS,
    OBJECT_WORDS,
    colour_in,
    colour_of,
    kind_of,
    objects_of,
)
from models.families import PEOPLE, VEHICLES
from models.language import phrases, wording
from pipeline.record import Record
from train.compose.claims import CLOTHES, Claims

MEANT_OTHERWISE = {
    "individual",
    "individuals",
    "officer",
    "officers",
    "lady",
    "ladies",
    "gentleman",
    "guy",
    "guys",
}
"""Read in sentences, and not asked for."""


def test_every_noun_of_the_captioners_can_be_asked_for():
    for noun, meant in wording.CLASSES.items():
        if noun in MEANT_OTHERWISE | {
            "group",
            "crowd",
            "thing",
            "things",
            "something",
            "someone",
            "somebody",
        }:
            continue
        names, spoken = objects_of(noun, set())
        assert meant in names or (spoken and meant == "animal"), noun
    for name, nouns in phrases.NOUNS.items():
        for noun in (noun for pair in nouns for noun in pair):
            assert name in objects_of(noun, set())[0], noun


def test_groups_hold_what_the_captioners_group():
    assert set(objects_of("vehicles", set())[0]) >= VEHICLES
    assert set(objects_of("somebody", set())[0]) == PEOPLE


def test_kinds_are_those_of_the_record():
    fields = Record.model_fields
    events = set(fields["event"].annotation.__args__) - {"change"}
    sentence = fields["sentences"].annotation.__args__[0]
    assert set(KINDS) == events | set(sentence.model_fields["type"].annotation.__args__)


def test_the_colours_of_sentences_are_found_as_they_were_meant():
    assert set(COLOURS.values()) >= {*wording.COLOURS, *CLOTHES}
    for thing, look in [(t, c) for t in VEHICLES for c in wording.COLOURS] + [
        (p, c) for p in PEOPLE for c in CLOTHES
    ]:
        for place in ("on the left", "at the red gate"):
            text = phrases.plain_sentence(Claims("appeared", thing, place=place, look=look))
            assert colour_in(text) == look, text
    assert colour_in("A car has appeared at the red gate.") == ""


@pytest.mark.parametrize(
    ("word", "kind"), [("came", "came"), ("light-changed", "light_changed"), ("Moved", "moved")]
)
def test_kinds_are_read(word, kind):
    assert kind_of(word) == kind


def test_other_words():
    assert colour_of("Silver") == "grey"
    assert objects_of("umbrella", set()) == (("umbrella",), "")
    assert objects_of("drone", {"drone"}) == (("drone",), "")
    assert set(ANIMALS) <= set(OBJECT_WORDS)
