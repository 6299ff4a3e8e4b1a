"""Sentences are made from facts by one function."""

from dataclasses import replace

import pytest

from models.language.templates import CLOTHES, Statement, duration, noun_phrase, render

LEAVING = Statement("left", "person", colour="dark", target="left", duration_s=14)


@pytest.mark.parametrize(
    ("statement", "text"),
    [
        (
            replace(LEAVING, came_from="right"),
            "The person in dark clothes who came in from the right has walked off to the left, after 14 s.",
        ),
        (
            Statement("left", "person", came_from="far", came_at="10:02", duration_s=840),
            "The person who came in from the background at 10:02 has left, after 14 minutes.",
        ),
        (
            replace(LEAVING, place="on the right", duration_s=59.9, at_least=True),
            "The person in dark clothes on the right has walked off to the left, after at least 59 s.",
        ),
        (
            replace(LEAVING, place="on the right", duration_s=119.0, at_least=True),
            "The person in dark clothes on the right has walked off to the left, after at least a minute.",
        ),
        (
            Statement("entered", "person", 2, place="on the left", origin="left"),
            "Two people have come in from the left.",
        ),
        (Statement("entered", "person", place="in the middle"), "A person has arrived in the middle."),
        (
            Statement("disappeared", "car", 5, several=True, place="in the lot"),
            "Several cars in the lot have gone.",
        ),
        (
            Statement("disappeared", "car", place="on the left", other=True),
            "Another car on the left has gone.",
        ),
        (
            Statement("moved", "person", origin="left", target="far"),
            "The person has moved from the left to the background.",
        ),
        (
            Statement("moved", "car", place="on the left", end="at the gate"),
            "The car on the left has moved and is now at the gate.",
        ),
        (
            Statement("absent", "person", colour="dark", place="on the left"),
            "The person in dark clothes on the left is no longer in the same place.",
        ),
        (Statement("hidden", "car", place="on the left"), "The car on the left is no longer visible there."),
        (Statement("visible", "car", 2, place="on the left"), "Two cars are now visible on the left."),
        (
            Statement("waiting", "car", colour="blue", place="in the junction", duration_s=60),
            "The blue car still stands in the junction, after a minute.",
        ),
        (
            Statement("resumed", "bus", came_from="left", target="right", duration_s=40),
            "The bus that came in from the left has set off to the right, after 40 s.",
        ),
        (
            Statement("met", "person", 3, place="on the left", duration_s=61),
            "Three people have been standing together on the left for a minute.",
        ),
        (
            Statement("waiting", "person", place="at the door", duration_s=7200),
            "A person has been waiting at the door for 2 hours.",
        ),
        (
            Statement("removed", "bag", place="on the left", duration_s=300),
            "The bag on the left has been taken away, after 5 minutes.",
        ),
        (
            Statement("parked", "car", origin="right", place="in the lot"),
            "A car has come in from the right and parked in the lot.",
        ),
    ],
)
def test_a_statement_becomes_plain_english(statement, text):
    assert render(statement) == text


def test_colours_are_of_paint_and_clothes_only():
    assert noun_phrase("car", colour="dark") == "a car"
    assert noun_phrase("car", 23) == "23 cars"
    assert noun_phrase("vehicle", colour="white", large=True) == "a large white vehicle"
    assert noun_phrase("bag", colour="red") == "a bag"
    assert {noun_phrase("person", colour=colour).split(" in ")[0] for colour in CLOTHES} == {"a person"}


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.2, "1 s"),
        (54, "54 s"),
        (56, "a minute"),
        (150, "2 minutes"),
        (3500, "an hour"),
        (86400 * 3, "3 days"),
    ],
)
def test_a_duration_is_as_fine_as_people_say_it(seconds, words):
    assert duration(seconds) == words


def test_what_has_no_words_is_refused():
    with pytest.raises(ValueError, match="no words for 1 car that flew"):
        render(Statement("flew", "car"))
    with pytest.raises(ValueError, match="no noun for 'ufo'"):
        render(Statement("appeared", "ufo"))
