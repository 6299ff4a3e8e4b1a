"""What is claimed of a fact: only what its type can say of such an object, true of its boxes and once."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from models.language.claims import Claims, claims_of, duration, merged
from models.language.facts import Fact
from models.language.phrases import plain_sentence
from models.language.places import Zone
from train.grounded.grammar import any_claims

LEFT, RIGHT, MIDDLE = (0.2, 0.4, 0.1, 0.2), (0.75, 0.4, 0.1, 0.2), (0.45, 0.4, 0.1, 0.2)
FAR, NEAR, EDGE = (0.45, 0.1, 0.1, 0.1), (0.45, 0.75, 0.1, 0.2), (0.0, 0.4, 0.1, 0.2)
GATE = Zone("at the entrance", ((0.4, 0.4), (0.6, 0.4), (0.6, 1.0), (0.4, 1.0)))


def fact(kind: str, thing: str, before: Any = None, after: Any = None, **how: Any) -> Fact:
    return Fact(0, kind, thing, how.pop("count", 1), before, after, 0.9, **how)


CAME: dict[str, Any] = {"manner": "came in", "origin": "left"}
SAID = [
    (fact("appeared", "car", None, LEFT), {}, "A car has appeared on the left."),
    (fact("appeared", "car", None, EDGE), {}, "A car has appeared near the left edge."),
    (fact("appeared", "car", None, FAR), {"depth": True}, "A car has appeared in the background."),
    (fact("appeared", "car", None, FAR), {}, "A car has appeared near the top edge."),
    (
        fact("appeared", "person", None, MIDDLE, rests=True, **CAME),
        {"look": "dark", "zones": [GATE]},
        "A person in dark clothes has come in from the left and stands at the entrance.",
    ),
    (fact("appeared", "person", None, LEFT, **CAME), {}, "A person has come in on the left."),
    (
        fact("appeared", "person", None, LEFT, rests=True, waited_s=60, **CAME),
        {},
        "A person has come in on the left and has stood there for a minute.",
    ),
    (
        fact("appeared", "person", None, MIDDLE, count=2, **CAME),
        {},
        "Two people have come in from the left and are now in the middle.",
    ),
    (
        fact("appeared", "van", None, MIDDLE, manner="parked"),
        {"look": "white"},
        "A white van has parked in the middle.",
    ),
    (
        fact("appeared", "bag", None, NEAR, manner="put down"),
        {"depth": True},
        "A bag has been put down in the foreground.",
    ),
    (fact("appeared", "person", None, LEFT, manner="stopped"), {}, "A person has stopped on the left."),
    (fact("appeared", "person", None, LEFT, manner="put down"), {}, "A person has appeared on the left."),
    (fact("appeared", "bag", None, LEFT, manner="parked"), {}, "A bag has appeared on the left."),
    (fact("disappeared", "person", RIGHT), {}, "The person on the right has gone."),
    (fact("disappeared", "person", RIGHT, manner="left"), {}, "The person on the right has left."),
    (
        fact("disappeared", "person", MIDDLE, manner="left", target="right", count=2),
        {},
        "The two people in the middle have walked off to the right.",
    ),
    (
        fact("disappeared", "car", MIDDLE, manner="drove off", target="right"),
        {"look": "red"},
        "The red car in the middle has driven off to the right.",
    ),
    (
        fact("disappeared", "car", EDGE, manner="left", waited_s=185),
        {},
        "The car that stood near the left edge for 3 minutes has driven off.",
    ),
    (fact("disappeared", "dog", LEFT, manner="left"), {}, "The dog on the left has run off."),
    (
        fact("disappeared", "cyclist", LEFT, manner="left", target="far"),
        {},
        "The cyclist on the left has ridden off towards the background.",
    ),
    (
        fact("disappeared", "bag", MIDDLE, manner="taken away"),
        {},
        "The bag in the middle has been taken away.",
    ),
    (fact("moved", "car", LEFT, RIGHT), {}, "The car has moved from the left to the right."),
    (
        fact("moved", "person", LEFT, MIDDLE, path=((0.2, 0.5), (0.5, 0.5))),
        {},
        "The person has walked from the left to the middle.",
    ),
    (
        fact("moved", "person", LEFT, RIGHT, manner="crossed"),
        {},
        "The person has crossed from the left to the right.",
    ),
    (
        fact("moved", "car", LEFT, MIDDLE, manner="parked"),
        {"zones": [GATE]},
        "The car on the left has moved and parked at the entrance.",
    ),
    (
        fact("moved", "car", LEFT, LEFT, target="near"),
        {},
        "The car on the left has come closer.",
    ),
    (
        fact("moved", "person", FAR, NEAR),
        {"depth": True},
        "The person has moved from the background to the foreground.",
    ),
    (fact("moved", "car", LEFT, LEFT, count=11), {}, "Several cars on the left have moved."),
    (
        fact("replaced", "car", MIDDLE, MIDDLE),
        {"look": "red"},
        "The car in the middle has been replaced by another one.",
    ),
    (fact("more", "person", None, LEFT, count=3), {}, "There are more people on the left."),
    (fact("appeared", "object", None, LEFT), {}, "Something has appeared on the left."),
    (fact("appeared", "van", None, LEFT), {"look": "orange"}, "An orange van has appeared on the left."),
    (fact("appeared", "van", None, LEFT), {"look": "dark"}, "A van has appeared on the left."),
    (fact("appeared", "person", None, LEFT), {"look": "red"}, "A person in red has appeared on the left."),
]


@pytest.mark.parametrize(("told", "how", "text"), SAID, ids=[text for *_, text in SAID])
def test_what_a_person_would_say(told: Fact, how: dict[str, Any], text: str) -> None:
    assert plain_sentence(claims_of(told, **how)) == text


def test_never_where_nobody_would_point() -> None:
    rng = np.random.default_rng(0)
    for _ in range(2000):
        text = plain_sentence(any_claims(rng)[1])
        assert not any(odd in text for odd in ("at the bottom", "at the top", "left to the left", "in in"))


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (None, ""),
        (5, ""),
        (24, "20 seconds"),
        (58, "a minute"),
        (100, "2 minutes"),
        (3500, "an hour"),
        (7300, "2 hours"),
        (80000, "22 hours"),
        (90000, "a day"),
        (400000, "5 days"),
    ],
)
def test_times_as_people_say_them(seconds: float | None, words: str) -> None:
    assert duration(seconds) == words


def test_what_cannot_be_told() -> None:
    with pytest.raises(ValueError, match="no words for 1 car that sold"):
        claims_of(fact("sold", "car", LEFT))
    with pytest.raises(ValueError, match="no words for 0 car"):
        claims_of(fact("appeared", "car", None, LEFT, count=0))
    with pytest.raises(ValueError, match="without a place"):
        claims_of(fact("appeared", "car"))
    with pytest.raises(ValueError, match="without both places"):
        claims_of(fact("moved", "car", LEFT))


def once(*facts: Fact) -> list[tuple[str, tuple[int, ...]]]:
    told = merged([claims_of(f) for f in facts], [(f.before, f.after) for f in facts])
    return [(plain_sentence(each.claims), each.members) for each in told]


def beside(box: tuple[float, float, float, float], by: float) -> tuple[float, float, float, float]:
    return box[0] + by, *box[1:]


def test_neighbours_are_told_together() -> None:
    one, two = fact("appeared", "person", None, LEFT), fact("appeared", "person", None, beside(LEFT, -0.1))
    car = fact("appeared", "car", None, LEFT)
    assert once(one, car, two) == [
        ("Two people have appeared on the left.", (0, 2)),
        ("A car has appeared on the left.", (1,)),
    ]
    three = replace(two, count=2)
    assert once(one, three) == [("Three people have appeared on the left.", (0, 1))]


def test_far_from_each_other_they_are_another() -> None:
    low, high = (0.2, 0.8, 0.05, 0.1), (0.3, 0.1, 0.05, 0.1)
    gone = [fact("disappeared", "person", box) for box in (low, high)]
    assert once(*gone) == [
        ("A person on the left has gone.", (0,)),
        ("Another person on the left has gone.", (1,)),
    ]
    third = fact("disappeared", "person", (0.15, 0.45, 0.05, 0.1))
    assert once(*gone, third) == [
        ("Two people on the left have gone.", (0, 2)),
        ("A person on the left has gone.", (1,)),
    ], "the nearest two are told as one"
    twos = [replace(f, count=2) for f in gone]
    assert once(*twos)[1][0] == "Two other people on the left have gone."
    more = [fact("more", "car", None, box, count=n) for n, box in ((2, low), (3, high))]
    assert once(*more) == [("There are more cars on the left.", (0, 1))]


def test_of_two_at_one_place_neither_is_the_one() -> None:
    """ "The person on the left has gone" and "has moved" would be read as of one person."""
    low, high = (0.2, 0.8, 0.05, 0.1), (0.3, 0.1, 0.05, 0.1)
    gone = fact("disappeared", "person", low)
    stepped = fact("moved", "person", high, beside(high, 0.05))
    assert once(gone, stepped) == [
        ("A person on the left has gone.", (0,)),
        ("A person on the left has moved.", (1,)),
    ]
    crossed = fact("moved", "person", high, beside(high, 0.6))
    assert [text for text, _ in once(gone, crossed)] == [
        "A person on the left has gone.",
        "A person has moved from the left to the right.",
    ]
    apart = fact("moved", "person", beside(high, 0.45), beside(high, 0.5))
    car, came = fact("moved", "car", high, beside(high, 0.05)), fact("appeared", "person", None, low)
    assert [text for text, _ in once(gone, apart, car, came)] == [
        "The person on the left has gone.",
        "The person on the right has moved.",
        "The car on the left has moved.",
        "A person has appeared on the left.",
    ]


def test_nobody_counts_beyond_three() -> None:
    for count, words in ((2, "two"), (3, "three"), (4, "several"), (11, "several")):
        text = plain_sentence(claims_of(fact("appeared", "car", None, LEFT, count=count)))
        assert text == f"{words.capitalize()} cars have appeared on the left."


def test_no_sentence_twice_whatever_happened() -> None:
    rng = np.random.default_rng(1)
    for _ in range(60):
        told = [any_claims(rng) for _ in range(3)]
        facts = [
            replace(f, type="appeared", object="car", manner="", after=f.after or f.before) for f, _ in told
        ]
        facts += [replace(f, type="disappeared", before=f.after, after=None) for f in facts] * 2
        claims = [claims_of(f) for f in facts]
        said = merged(claims, [(f.before, f.after) for f in facts])
        assert sorted(k for each in said for k in each.members) == list(range(len(facts)))
        texts = Counter(plain_sentence(each.claims) for each in said)
        assert max(texts.values()) == 1, texts
        assert sum(f.count for f in facts) == sum(each.claims.count for each in said)


def test_nothing_is_merged_to_nothing() -> None:
    assert merged([], []) == []
    claims = Claims("appeared", "car", place="on the left")
    assert merged([claims], [(None, LEFT)])[0].claims == claims
