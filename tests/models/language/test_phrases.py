"""Every sentence of the grammar is read as what it claims: by our own reader and by the benchmark's."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.families import PEOPLE, VEHICLES
from models.language.claims import COUNTED, MANNERS, Claims, claims_of
from models.language.facts import TYPES, Fact
from models.language.phrases import (
    NOUNS,
    check_zone,
    coloured,
    plain_sentence,
    tells,
    wordings,
)
from models.language.places import PLACES
from models.language.vocabulary import surface
from models.language.wording import COLOURS, read
from train.grounded.grammar import any_claims

ZONES = (
    "at the entrance",
    "in the lot",
    "by the gate",
    "in the car park",
    "at the bus stop",
    "on the left lane",
)
EVERYTHING = 4000
"""Random facts whose sentences are read, each in all its wordings."""


def everything() -> Iterator[tuple[Fact, Claims, str]]:
    """Facts of every kind, what is claimed of them, and every sentence for that."""
    rng = np.random.default_rng(7)
    for _ in range(EVERYTHING):
        fact, claims = any_claims(rng)
        for words, _ in wordings(claims):
            yield fact, claims, surface(words.split())


@pytest.fixture(scope="module")
def scorer(bench: Path) -> ModuleType:
    """The benchmark's own reading of sentences."""
    spec = importlib.util.spec_from_file_location("narration_score", bench / "score.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_our_own_reading_finds_the_claims_again() -> None:
    told = set()
    for _, claims, text in everything():
        assert tells(text, claims), (text, claims, read(text))
        told.add((claims.type, claims.object, claims.manner))
    assert {kind for kind, _, _ in told} == set(TYPES)
    assert {name for _, name, _ in told} == set(NOUNS)
    assert {(kind, how) for kind, _, how in told if how} == {
        (kind, how) for kind, manners in MANNERS.items() for how in manners
    }


def test_the_benchmark_reads_the_facts(scorer: ModuleType) -> None:
    classes = {
        **dict.fromkeys(("object", "bag"), "other"),
        "motorcyclist": "motorcycle",
    }
    for fact, claims, text in everything():
        told = scorer.parse(text)
        assert not told["none"], text
        assert told["type"] == (None if fact.type == "unknown" else fact.type), text
        assert told["object"] == classes.get(fact.object, fact.object), text
        if fact.type in ("more", "fewer") or fact.count > COUNTED:
            assert told["open"], text
        else:
            assert (told["count"], told["open"]) == (fact.count, False), text
        label = {"box_before": fact.before, "box_after": fact.after}
        assert scorer.pos_ok(told["pos"], label), (text, label)
        if told["pos"]:
            assert scorer.pos_strict({"box": None, "claim": told}, label), (text, label)
        assert told["colour"] == (claims.look if fact.object in VEHICLES and claims.look else None), text


def test_other_wordings_of_other_claims_do_not_agree() -> None:
    """The check has teeth: of two facts chosen by chance, the words of one hardly ever tell the other."""
    rng = np.random.default_rng(3)
    claims = [any_claims(rng)[1] for _ in range(120)]
    texts = [plain_sentence(each) for each in claims]
    for each, text in zip(claims, texts, strict=True):
        for other in claims:
            open_number = other.count > 1 and ("everal" in text or "more " in text or "fewer" in text)
            same = plain_sentence(replace(other, count=each.count) if open_number else other)
            assert tells(text, other) == (text == same), (text, other)


CHANGES = {
    "type": "disappeared",
    "object": "bus",
    "count": 3,
    "manner": "parked",
    "origin": "right",
    "place": "on the right",
    "rests": False,
    "look": "blue",
    "waited": "4 minutes",
}
CAR = Claims("appeared", "car", 2, "came in", "left", "", "in the middle", "", True, "red", "3 minutes")


@pytest.mark.parametrize("field", CHANGES)
def test_every_claim_is_checked_both_ways(field: str) -> None:
    text = plain_sentence(CAR)
    assert text == "Two red cars have driven in from the left and have stood in the middle for 3 minutes."
    assert tells(text, CAR)
    other = replace(CAR, **{field: CHANGES[field]})
    assert not tells(text, other), "the words claim what is not so"
    empty = "" if isinstance(CHANGES[field], str) and field not in ("type", "object") else CHANGES[field]
    assert not tells(text, replace(CAR, **{field: empty})), "the words claim more than is known"


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_sentences_agree_with_the_facts_that_they_were_made_of(seed: int) -> None:
    fact, _ = any_claims(np.random.default_rng(seed))
    assert tells(plain_sentence(claims_of(fact)), claims_of(fact))
    assert not tells("Nothing has changed.", claims_of(fact))
    assert not tells("", claims_of(fact))


RED_CARS = Claims("disappeared", "car", 2, place="in the background on the left", look="red")


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("The two red cars in the background on the left have gone.", True),
        ("Two red cars have disappeared on the left in the background.", True),
        ("The two red taxis in the background on the left are no longer there.", True),
        ("Several red cars in the background on the left are missing.", True),
        ("The two red cars in the background on the left have driven off.", False),
        ("The two red cars in the background on the left have appeared.", False),
        ("The two red vans in the background on the left have gone.", False),
        ("The three red cars in the background on the left have gone.", False),
        ("The red car in the background on the left has gone.", False),
        ("The two cars in the background on the left have gone.", False),
        ("The two blue cars in the background on the left have gone.", False),
        ("The two red cars on the left have gone.", False),
        ("The two red cars in the background on the right have gone.", False),
        ("The two red cars that stood in the background on the left for a day have gone.", False),
        ("Nothing has changed.", False),
    ],
)
def test_words_are_checked_against_the_claims(text: str, right: bool) -> None:
    assert tells(text, RED_CARS) is right


def test_shares_of_wordings_are_shares() -> None:
    for _, claims, _ in everything():
        shares = [share for _, share in wordings(claims)]
        assert sum(shares) == pytest.approx(1)
        assert max(shares) == shares[0], "the plain wording is the most frequent"
        break


@pytest.mark.parametrize(
    ("text", "look", "said"),
    [
        ("A car has appeared on the left.", "red", "A red car has appeared on the left."),
        ("A car has appeared on the left.", "orange", "An orange car has appeared on the left."),
        ("The two vans on the right have gone.", "white", "The two white vans on the right have gone."),
        ("The blue car has gone.", "red", "The blue car has gone."),
        ("A person has come in on the left.", "dark", "A person in dark clothes has come in on the left."),
        ("The person on the left has left.", "red", "The person in red on the left has left."),
        ("The person has gone.", "light", "The person in light clothes has gone."),
        ("The bag on the left has gone.", "red", "The bag on the left has gone."),
        ("The car has been replaced by another one.", "red", "The car has been replaced by another one."),
        ("Another car has appeared on the left.", "red", "Another car has appeared on the left."),
        ("Two other vans on the left have gone.", "red", "Two other vans on the left have gone."),
        ("Nothing has changed.", "red", "Nothing has changed."),
        ("", "red", ""),
    ],
)
def test_a_look_is_put_beside_the_noun(text: str, look: str, said: str) -> None:
    assert coloured(text, look) == said


def test_looks_that_are_put_in_are_those_of_the_grammar() -> None:
    for fact, claims, _ in everything():
        if fact.object in VEHICLES | PEOPLE and claims.type != "replaced":
            look = COLOURS[fact.count % len(COLOURS)]
            assert coloured(plain_sentence(replace(claims, look="")), look) == plain_sentence(
                replace(claims, look=look)
            )


def test_a_zone_is_told_by_its_own_words() -> None:
    claims = Claims("appeared", "car", place="in the lot")
    assert tells("A car has appeared in the lot.", claims)
    assert not tells("A car has appeared in the slot.", claims)
    assert not tells("A car has appeared on the left.", claims)
    assert not tells("A car has appeared.", claims)
    assert not tells("A car has appeared in the lot on the left.", claims)
    assert tells("A car has appeared.", replace(claims, place=""))
    assert plain_sentence(replace(claims, place="at Gate B")) == "A car has appeared at Gate B."


@pytest.mark.parametrize(
    "phrase", [*ZONES, *PLACES, "outside", "at Gate 7", "by the baker's shop", "near the exit"]
)
def test_names_that_can_stand_in_a_sentence(phrase: str) -> None:
    check_zone(phrase)


@pytest.mark.parametrize(
    ("phrase", "told"),
    [
        ("", "a few plain words"),
        ("in  the lot", "a few plain words"),
        ("in the lot.", "without full stop"),
        ("in the\nlot", "a few plain words"),
        ("in " + "the lot " * 6 + "here", "40 letters"),
        ("entrance", "is not a sentence"),
        ("the entrance", "is not a sentence"),
        ("where cars have moved", "is not a sentence"),
        ("in the extra lot", "would be read as car more"),
        ("at the lot left behind by all who left the town", "letters"),
        ("near the unchanged corner", "would be read as car none"),
    ],
)
def test_names_that_cannot(phrase: str, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        check_zone(phrase)


def test_what_has_no_words_is_an_error() -> None:
    with pytest.raises(ValueError, match="no words for 1 unicorn"):
        plain_sentence(Claims("appeared", "unicorn"))
    with pytest.raises(ValueError, match="no words for 1 car that sold"):
        plain_sentence(Claims("sold", "car"))
    with pytest.raises(ValueError, match="no words for 0 car"):
        plain_sentence(Claims("appeared", "car", 0))
    assert claims_of(Fact(0, "appeared", "car", 1, None, (0, 0, 0.1, 0.1), 1.0)).manner == ""
