"""Captions of composed pairs: read as what they tell, varied as people are, or plain as a narrator is."""

from __future__ import annotations

import importlib.util
from collections import Counter
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from train.compose.claims import COUNTED, claims_of
from train.compose.facts import Fact
from train.compose.grammar import NO_CHANGE, VARIETIES, any_claims, any_fact, caption, word, wording
from train.compose.phrases import NOUNS, tells, wordings
from train.samples import SampleChange

TYPES = ("appeared", "disappeared", "moved", "replaced", "more", "fewer")


@pytest.fixture(scope="module")
def scorer(bench: Path) -> ModuleType:
    """The benchmark's own reading of sentences."""
    spec = importlib.util.spec_from_file_location("narration_score", bench / "score.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def some_box(rng: np.random.Generator) -> tuple[float, float, float, float]:
    width, height = rng.uniform(0.02, 0.25, 2)  # what is larger may have no place
    return float(rng.uniform(0, 1 - width)), float(rng.uniform(0, 1 - height)), float(width), float(height)


def some_change(rng: np.random.Generator) -> SampleChange:
    kind = str(rng.choice(TYPES))
    count = int(rng.integers(1, 8)) if kind in ("appeared", "disappeared") else 1
    if kind in ("more", "fewer"):
        count = int(rng.integers(2, 8))
    before = None if kind in ("appeared", "more") else some_box(rng)
    after = None if kind in ("disappeared", "fewer") else some_box(rng)
    return SampleChange(kind, str(rng.choice(list(NOUNS))), count, before, after)


@pytest.mark.parametrize("variety", VARIETIES)
def test_every_sentence_is_read_as_what_it_tells(scorer: ModuleType, variety: str) -> None:
    rng = np.random.default_rng(3)
    placed = 0
    for _ in range(4000):
        change = some_change(rng)
        text = caption(change, variety, rng)
        read = scorer.parse(text)
        label = {
            "object": {
                **dict.fromkeys(("object", "bag", "animal", "dog"), "other"),
                "vehicle": "car",
                "cyclist": "bicycle",
                "motorcyclist": "motorcycle",
            }.get(change.object, change.object),
            "box_before": change.box_before,
            "box_after": change.box_after,
        }
        assert not read["none"], text
        assert read["type"] == change.type, text
        exact, family = scorer.object_ok(read, label)
        assert family, text
        assert exact or "vehicle" in text, text
        if change.type in ("appeared", "disappeared"):
            several = change.count > COUNTED
            assert read["open"] == several, text
            assert several or read["count"] == change.count, text
        if change.type in ("more", "fewer"):
            assert read["open"], text
        assert scorer.pos_ok(read["pos"], label), (text, change)
        if read["pos"]:
            placed += 1
            assert scorer.pos_strict({"box": None, "claim": read}, label), (text, change)
    assert placed == 4000 if variety == "plain" else 0.5 < placed / 4000 < 0.75


def test_nothing_is_read_as_nothing(scorer: ModuleType) -> None:
    assert all(scorer.parse(text) == {"none": True} for text in NO_CHANGE)


def test_the_side_of_a_change_decides_its_place() -> None:
    rng = np.random.default_rng(1)
    left, right = (0.1, 0.4, 0.1, 0.2), (0.8, 0.4, 0.1, 0.2)
    said = [caption(SampleChange(*c), "plain", rng) for c in (
        ("appeared", "person", 1, None, right),
        ("disappeared", "car", 2, left, None),
        ("moved", "bus", 1, left, right),
        ("replaced", "car", 1, left, right),
        ("fewer", "person", 3, left, None),
        ("appeared", "object", 1, None, left),
        ("disappeared", "person", 6, left, None),
    )]  # fmt: skip
    assert said == [
        "a person has appeared on the right",
        "the two cars on the left have gone",
        "the bus has moved from the left to the right",
        "the car on the left has been replaced by another one",
        "there are fewer people on the left",
        "something has appeared on the left",
        "several people on the left have gone",
    ]


def test_people_vary_and_mostly_leave_out_the_place_as_measured() -> None:
    rng = np.random.default_rng(2)
    change = SampleChange("appeared", "car", 1, None, (0.0, 0.0, 0.1, 0.1))
    said = Counter(caption(change, "people", rng) for _ in range(3000))
    bare = sum(n for text, n in said.items() if not any(w in text for w in ("left", "background")))
    assert bare / 3000 == pytest.approx(0.36, abs=0.03)
    assert len(said) > 10
    moved = SampleChange("moved", "person", 1, (0.0, 0.4, 0.1, 0.2), (0.8, 0.4, 0.1, 0.2))
    assert "the person has moved from the left to the right" in {
        caption(moved, "people", rng) for _ in range(50)
    }


def test_a_pair_is_worded_largest_first_and_says_nothing_twice() -> None:
    rng = np.random.default_rng(1)
    small = SampleChange("appeared", "car", 1, None, (0.1, 0.4, 0.1, 0.1))
    twin = SampleChange("appeared", "car", 1, None, (0.1, 0.4, 0.1, 0.1))
    large = SampleChange("disappeared", "bus", 1, (0.6, 0.3, 0.4, 0.4), None)
    changes, sentences = word([small, large, twin], "plain", rng)
    assert sentences == ("the bus on the right has gone", "a car has appeared on the left")
    assert [c.sentence for c in changes] == [sentences[0], sentences[1], sentences[1]]
    assert word([], "plain", rng) == ((), ("nothing has changed",))
    assert {word([], "people", rng)[1][0] for _ in range(20)} == set(NO_CHANGE)


def test_what_has_no_words_is_an_error() -> None:
    rng = np.random.default_rng(1)
    box = (0.0, 0.0, 0.1, 0.1)
    with pytest.raises(ValueError, match="variety 'poetic'"):
        caption(SampleChange("appeared", "car", 1, None, box), "poetic", rng)
    with pytest.raises(ValueError, match="no words for 1 unicorn"):
        caption(SampleChange("appeared", "unicorn", 1, None, box), "plain", rng)
    with pytest.raises(ValueError, match="without a place"):
        caption(SampleChange("appeared", "car", 1, None, None), "plain", rng)


def test_captions_are_those_of_the_narrator() -> None:
    rng = np.random.default_rng(4)
    for _ in range(300):
        change = some_change(rng)
        fact = Fact(0, change.type, change.object, change.count, change.box_before, change.box_after, 1.0)
        assert caption(change, "plain", rng) == wordings(claims_of(fact))[0][0]
        assert tells(caption(change, "plain", rng), claims_of(fact))


def test_any_fact_is_of_every_kind() -> None:
    rng = np.random.default_rng(5)
    facts = [any_fact(rng) for _ in range(3000)]
    assert {f.type for f in facts} == {*TYPES, "unknown"}
    assert {f.object for f in facts} == set(NOUNS)
    claims = [any_claims(rng)[1] for _ in range(3000)]
    assert {bool(c.waited) for c in claims} == {bool(c.end) for c in claims} == {True, False}


def test_wordings_are_drawn_by_their_shares() -> None:
    rng = np.random.default_rng(6)
    claims = claims_of(Fact(0, "disappeared", "car", 1, (0.1, 0.4, 0.1, 0.1), None, 1.0))
    drawn = Counter(wording(claims, rng) for _ in range(2000))
    for text, share in wordings(claims):
        assert drawn[text] / 2000 == pytest.approx(share, abs=0.04)
