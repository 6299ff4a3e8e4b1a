import importlib.util
import itertools
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from models.phrases import NOUNS, PLAIN_FORMS, Facts, agrees, check_zone, coloured, plain_sentence
from models.places import PLACES
from models.wording import COLOURS, places_in, read

ZONES = (
    "at the entrance",
    "in the lot",
    "by the gate",
    "in the car park",
    "at the bus stop",
    "on the left lane",
)
COUNTS = (1, 2, 10, 11)


def all_facts(places: tuple[str, ...]) -> Iterator[Facts]:
    for told in itertools.product(PLAIN_FORMS, NOUNS, COUNTS, places, (None, *COLOURS)):
        yield Facts(*told)


@pytest.fixture(scope="module")
def scorer(bench: Path) -> ModuleType:
    """The benchmark's own reading of sentences."""
    spec = importlib.util.spec_from_file_location("narration_score", bench / "score.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("facts", "text"),
    [
        (("appeared", "car", 1, "at the top left"), "A car has appeared at the top left."),
        (("disappeared", "car", 1, "on the left", "red"), "The red car on the left is gone."),
        (("disappeared", "person", 2, "in the middle"), "The two people in the middle are gone."),
        (("appeared", "car", 3, "on the right", "white"), "Three white cars have appeared on the right."),
        (("appeared", "car", 12, "in the lot"), "Many cars have appeared in the lot."),
        (("disappeared", "person", 12, "in the middle"), "Many people in the middle are gone."),
        (("moved", "person", 1, "in the middle"), "The person in the middle has moved."),
        (("moved", "bus", 2, "on the left"), "The two buses on the left have moved."),
        (("replaced", "person", 1, "in the middle"), "A different person is now in the middle."),
        (("replaced", "person", 1, ""), "The person has been replaced by another one."),
        (("replaced", "truck", 1, "on the left"), "The truck on the left has been replaced by another one."),
        (("replaced", "car", 2, "on the left"), "The two cars on the left have been replaced by others."),
        (
            ("replaced", "object", 1, "on the left"),
            "Something on the left has been replaced by something else.",
        ),
        (("more", "person", 3, "on the right"), "There are more people on the right."),
        (("fewer", "car", 3, "in the lot"), "There are fewer cars in the lot."),
        (("appeared", "object", 1, "on the left"), "Something has appeared on the left."),
        (("appeared", "object", 1, "on the left", "orange"), "Something has appeared on the left."),
        (("appeared", "person", 1, "on the left", "black"), "A person has appeared on the left."),
        (("appeared", "van", 1, "on the left", "orange"), "An orange van has appeared on the left."),
        (("fewer", "car", 3, "in the lot", "red"), "There are fewer red cars in the lot."),
        (("disappeared", "object", 1, "on the left"), "Something on the left is gone."),
        (("disappeared", "object", 2, "on the left"), "The two objects on the left are gone."),
        (("disappeared", "person", 1, "at the entrance"), "The person at the entrance is gone."),
        (("appeared", "vehicle", 1, "at Gate B"), "A vehicle has appeared at Gate B."),
        (("appeared", "car", 1, ""), "A car has appeared."),
    ],
)
def test_plain_words(facts: tuple[str, str, int, str], text: str) -> None:
    assert plain_sentence(Facts(*facts)) == text


def test_our_own_reading_finds_the_facts_again() -> None:
    for facts in all_facts((*PLACES, *ZONES, "")):
        text = plain_sentence(facts)
        told = read(text)
        assert told.type == facts.type, text
        assert told.object == {"object": "something"}.get(facts.object, facts.object), text
        open_count = facts.type in ("more", "fewer") or facts.count > 10
        assert told.count == (0 if open_count else facts.count), text
        assert told.places == places_in(facts.place), text
        assert told.colour == facts.said_colour, text
        assert agrees(text, facts), text


def test_the_benchmark_reads_the_facts(scorer: ModuleType) -> None:
    classes = {"object": "other"}
    for facts in all_facts((*PLACES, *ZONES)):
        text = plain_sentence(facts)
        told = scorer.parse(text)
        assert not told["none"], text
        assert told["type"] == (None if facts.type == "unknown" else facts.type), text
        assert told["object"] == classes.get(facts.object, facts.object), text
        if facts.type in ("more", "fewer") or facts.count > 10:
            assert told["open"], text
        else:
            assert (told["count"], told["open"]) == (facts.count, False), text
        assert told["pos"] == places_in(facts.place), text
        assert told["colour"] == facts.said_colour, text


RED_CAR = Facts("disappeared", "car", 2, "at the top left", "red")


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("The two red cars at the top left are gone.", True),
        ("Two red cars have disappeared at the top left.", True),
        ("The two red taxis on the left at the top are no longer there.", True),
        ("Several red cars at the top left are missing.", True),
        ("The two red cars at the top left have appeared.", False),
        ("The two red vans at the top left are gone.", False),
        ("The three red cars at the top left are gone.", False),
        ("The red car at the top left is gone.", False),
        ("The two cars at the top left are gone.", False),
        ("The two blue cars at the top left are gone.", False),
        ("The two red cars on the left are gone.", False),
        ("The two red cars at the top right are gone.", False),
        ("The two red cars are gone.", False),
        ("Nothing has changed.", False),
        ("", False),
    ],
)
def test_words_are_checked_against_the_facts(text: str, right: bool) -> None:
    assert agrees(text, RED_CAR) is right


@pytest.mark.parametrize(
    ("text", "colour", "said"),
    [
        ("A car has appeared on the left.", "red", "A red car has appeared on the left."),
        ("A car has appeared on the left.", "orange", "An orange car has appeared on the left."),
        ("There is now an ambulance.", "white", "There is now a white ambulance."),
        ("The two vans are gone.", "white", "The two white vans are gone."),
        ("On the left a bus has moved.", "red", "On the left a red bus has moved."),
        ("The blue car is gone.", "red", "The blue car is gone."),
        ("The person next to the car is gone.", "red", "The person next to the car is gone."),
        ("A different car is now on the left.", "red", "A different car is now on the left."),
        ("Cars have appeared.", "red", "Cars have appeared."),
        ("Nothing has changed.", "red", "Nothing has changed."),
        ("", "red", ""),
    ],
)
def test_a_colour_is_put_before_the_noun(text: str, colour: str, said: str) -> None:
    assert coloured(text, colour) == said


def test_colours_that_are_put_in_are_read_again() -> None:
    for facts in all_facts((PLACES[0], ZONES[0])):
        plain = plain_sentence(replace(facts, colour=None))
        said = plain if facts.colour is None else coloured(plain, facts.colour)
        assert said == plain_sentence(facts)


def test_a_zone_is_told_by_its_own_words() -> None:
    facts = Facts("appeared", "car", 1, "in the lot")
    assert agrees("A car has appeared in the lot.", facts)
    assert not agrees("A car has appeared in the slot.", facts)
    assert not agrees("A car has appeared on the left.", facts)
    assert not agrees("A car has appeared.", facts)
    assert not agrees("A car has appeared in the lot on the left.", facts)
    assert agrees("A car has appeared.", replace(facts, place=""))
    assert not agrees("A car has appeared on the left.", replace(facts, place=""))


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
        ("entrance", "is no sentence"),
        ("the entrance", "is no sentence"),
        ("where cars have moved", "is no sentence"),
        ("in the extra lot", "would be read as car more"),
        ("at the lot left behind by all who left the town", "letters"),
        ("near the unchanged corner", "would be read as car none"),
    ],
)
def test_names_that_cannot(phrase: str, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        check_zone(phrase)


def test_what_has_no_words_is_an_error() -> None:
    with pytest.raises(ValueError, match="no words for appeared unicorn"):
        plain_sentence(Facts("appeared", "unicorn", 1, "on the left"))
    with pytest.raises(ValueError, match="no words for sold car"):
        plain_sentence(Facts("sold", "car", 1, "on the left"))
    with pytest.raises(ValueError, match="at least one"):
        plain_sentence(Facts("appeared", "car", 0, "on the left"))
