"""How painted vehicles and people look; those of real footage are the narration benchmark's."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from models.captioner import Sentence
from models.families import OBJECTS
from models.language.templates import Statement, render
from pipeline.changes import ChangeOptions
from pipeline.changes.difference import difference
from pipeline.narration.colour import ColourVotes, clothes_name, colour_name, scene_cast, with_colours
from pipeline.tracking import Observation, Track

ROAD = 118
PAINTS = {
    "white": (238, 238, 238),
    "black": (28, 28, 30),
    "grey": (150, 150, 152),
    "red": (190, 30, 40),
    "blue": (40, 70, 160),
    "green": (30, 120, 50),
    "yellow": (225, 205, 40),
    "orange": (235, 120, 20),
    "brown": (115, 75, 45),
}
BOX = (0.3, 0.3, 0.4, 0.4)


def street(paint: tuple[int, int, int] | None, second: tuple[int, int, int] | None = None) -> Any:
    """A road, 240 by 320; a car with glass, tyres and shadow stands in `BOX`."""
    rng = np.random.default_rng(0)
    image = np.full((240, 320, 3), ROAD, np.float64)
    image[:60] = (150, 158, 165)  # houses
    image[200:] = 200  # a kerb in the sun
    if paint is not None:
        image[72:150, 96:224] = paint
        if second is not None:
            image[72:150, 160:224] = second
        image[86:104, 116:204] = 45  # glass
        image[150:168, 90:230] = 40  # tyres and shadow
    return np.clip(image + rng.normal(0, 3, image.shape), 0, 255).astype(np.uint8)


def name(after: Any, before: Any = None, box: tuple[float, float, float, float] = BOX) -> str | None:
    mask = difference(street(None) if before is None else before, after, ChangeOptions()).mask
    return colour_name(after, box, mask, scene_cast(after, mask))


def whole() -> Any:
    """The mask of a pair in which the whole box has changed, and a little around it."""
    mask = np.zeros((24, 32), bool)
    mask[6:18, 8:24] = True
    return mask


def lit(image: Any, *light: float) -> Any:
    return np.clip(image * np.array(light), 0, 255).astype(np.uint8)


@pytest.mark.parametrize("light", [(1.0, 1.0, 1.0), (0.97, 0.99, 1.02)])
@pytest.mark.parametrize(("told", "paint"), PAINTS.items())
def test_paint_is_named_whatever_glass_tyres_shadow_and_cast(told, paint, light):
    after = lit(street(paint), *light)
    cast = scene_cast(after, whole())
    assert colour_name(after, BOX, whole(), cast) == told
    assert (-4.5 < cast.b < -2) == (light[0] < 1)


def test_what_changed_is_no_part_of_the_scene():
    """The cast is that of the road, whatever large thing stands on it."""
    casts = [scene_cast(street(paint), whole()) for paint in (None, *PAINTS.values())]
    for cast in casts:
        assert abs(cast.middle - casts[0].middle) < 1
        assert abs(cast.b - casts[0].b) < 1


def test_no_colour_is_told_under_sodium_lamps():
    after = lit(street(PAINTS["white"]), 1.0, 0.75, 0.4)
    assert colour_name(after, BOX, whole(), scene_cast(after, whole())) is None


@pytest.mark.parametrize(
    "paints",
    [
        (PAINTS["red"], PAINTS["blue"]),  # two colours are none
        (PAINTS["white"], PAINTS["black"]),
        (PAINTS["yellow"], PAINTS["green"]),
        ((110, 40, 120),),  # between two colours
        ((70, 150, 160),),
        ((196, 186, 160),),
    ],
)
def test_two_colours_and_what_lies_between_two_are_none(paints):
    assert name(street(*paints)) is None


def test_white_is_bright_in_the_picture_and_silver_in_a_dark_scene_is_not_white():
    dark = replace(scene_cast(street(None), whole()), middle=45)
    assert colour_name(street((196, 196, 198)), BOX, whole(), dark) is None
    assert colour_name(street(PAINTS["white"]), BOX, whole(), dark) == "white"


def test_only_what_changed_counts():
    """A red wall beside a black car is not the car's colour."""
    wall = street(None)
    wall[72:168, 90:230] = PAINTS["red"]
    after = wall.copy()
    after[76:166, 100:220] = PAINTS["black"]
    assert name(after, wall) == "black"
    assert name(wall, wall) is None


def test_a_car_of_which_only_the_glass_changed_has_no_colour():
    after, glass = street(PAINTS["white"]), np.zeros((240, 320), bool)
    glass[86:104, 116:204] = True
    assert colour_name(after, BOX, glass, scene_cast(after, glass)) is None


def test_what_is_too_small_has_no_colour():
    after = street(PAINTS["red"])
    assert name(after) == "red"
    assert name(after, box=(0.4, 0.4, 0.03, 0.03)) is None
    assert name(after, box=(0.4, 0.4, 0.0, 0.0)) is None
    assert name(after, box=(1.2, 0.4, 0.3, 0.3)) is None


TALL = (0.4, 0.2, 0.15, 0.6)


def pavement(chest: tuple[int, int, int] | None, legs: tuple[int, int, int] = (30, 30, 34)) -> Any:
    """A road, 240 by 320; a person stands in `TALL`, 48 by 144 pixels."""
    image = street(None)
    if chest is not None:
        image[48:68, 146:158] = (200, 160, 140)  # head
        image[68:122, 138:166] = chest
        image[122:186, 140:164] = legs
    return image


def worn(image: Any, box: tuple[float, float, float, float] = TALL) -> str | None:
    mask = np.zeros((24, 32), bool)
    mask[4:20, 12:18] = True
    return clothes_name(image, box, mask, scene_cast(image, mask))


@pytest.mark.parametrize(
    ("chest", "legs", "told"),
    [
        ((25, 25, 28), (40, 40, 45), "dark"),
        ((230, 228, 225), (200, 195, 190), "light"),
        ((190, 30, 40), (30, 30, 34), "red"),
        ((190, 30, 40), (220, 220, 220), "red"),
        ((230, 228, 225), (30, 30, 34), None),
        ((25, 25, 28), (210, 205, 200), None),
        ((130, 130, 130), (130, 130, 130), None),
    ],
)
def test_clothes_are_named_where_they_are_sure(chest, legs, told):
    assert worn(pavement(chest, legs)) == told


def test_of_whom_one_sees_a_part_nothing_is_told():
    dark = pavement((25, 25, 28))
    assert worn(dark) == "dark"
    assert worn(dark, (0.4, 0.2, 0.15, 0.8)) is None, "cut by the frame's edge"
    assert worn(dark, (0.3, 0.2, 0.5, 0.6)) is None, "sitting, or two"
    assert worn(dark, (0.46, 0.3, 0.02, 0.1)) is None, "too small"
    assert worn(lit(dark, 1.0, 0.75, 0.4)) is None


def test_sentences_say_what_somebody_wears():
    mask = np.zeros((24, 32), bool)
    mask[4:20, 12:18] = True
    statement = Statement("entered", "person", origin="left")
    came = Sentence(render(statement), "appeared", "person", TALL, 1.0, 1.0, 1, None, TALL)
    came = replace(came, statement=statement)
    said = with_colours([came], pavement(None), pavement((190, 30, 40)), mask)[0].text
    assert said == "A person in red has come in from the left."


def told(action: str, before: bool, after: bool, count: int = 1, thing: str = "car") -> Sentence:
    sides = [BOX if there else None for there in (before, after)]
    statement = Statement(action, thing, count)
    sentence = Sentence(render(statement), "moved", thing, BOX, 1.0, 1.0, count, sides[0], sides[1])
    return replace(sentence, statement=statement)


def test_sentences_say_the_colour_that_both_sides_agree_on():
    red, blue, empty = street(PAINTS["red"]), street(PAINTS["blue"]), street(None)

    def said(before: Any, after: Any, sentence: Sentence) -> str:
        return with_colours([sentence], before, after, whole())[0].text

    assert said(empty, red, told("appeared", False, True)) == "A red car has appeared."
    assert said(blue, empty, told("disappeared", True, False)) == "The blue car has gone."
    assert said(red, red, told("moved", True, True)) == "The red car has moved."
    assert said(red, blue, told("moved", True, True)) == "The car has moved."
    assert said(empty, red, told("appeared", False, True, 2)) == "Two cars have appeared."
    assert said(empty, red, told("appeared", False, False)) == "A car has appeared."
    assert said(empty, red, told("appeared", False, True, thing="bag")) == "A bag has appeared."
    written = replace(told("appeared", False, True), statement=None)
    assert said(empty, red, written) == "A car has appeared.", "a captioner that writes by itself"
    assert with_colours([], red, blue, whole()) == []


def track(name: str = "t", box: Any = BOX, thing: str = "car", **more: Any) -> Track:
    votes = np.eye(len(OBJECTS))[OBJECTS.index(thing)]
    return Track(name, [Observation(0.0, box, 0.9)], votes, np.ones(4), np.ones(4), "confirmed", **more)


def voted(*paints: tuple[int, int, int], every_s: float = 0.5, **seen: Any) -> str:
    """The colour of a car that looks so, one look after the other."""
    votes = ColourVotes()
    for k, paint in enumerate(paints):
        votes.update([track(**seen)], k * every_s, street(paint))
    return votes.colour("t")


def test_a_track_has_the_colour_of_two_looks_and_of_most():
    red, blue, between = PAINTS["red"], PAINTS["blue"], (110, 40, 120)
    assert voted(red) == "", "a single look"
    assert voted(red, red) == "red"
    assert voted(blue, red, red) == "red", "somebody stood in front"
    assert voted(red, red, between) == "red"
    assert voted(red, red, blue, blue) == "", "the track went on to another car"
    assert voted(red, red, between, between) == "", "mostly none is sure"
    assert voted(*[red] * 16, *[blue] * 40) == "red", "it has been looked at often enough"
    assert voted(red, red, every_s=0.2) == "", "looks too close to each other are one"


def test_only_who_stands_clear_is_looked_at():
    red = [PAINTS["red"]] * 3
    assert voted(*red, box=(0.301, 0.3, 0.4, 0.4)) == "red"
    assert voted(*red, box=(0.0, 0.3, 0.7, 0.4)) == "", "cut by the frame's edge"
    assert voted(*red, box=(0.45, 0.45, 0.06, 0.06)) == "", "too small"
    assert voted(*red, unseen_s=0.2) == "", "not seen"
    assert voted(*red, thing="bag") == ""
    for other, told in (
        (track("nearer", (0.5, 0.4, 0.4, 0.4)), ""),
        (track("behind", (0.5, 0.2, 0.4, 0.4)), "red"),
        (track("the same", (0.3, 0.32, 0.4, 0.4)), "red"),
        (track("nearer, lost", (0.5, 0.4, 0.4, 0.4), unseen_s=1.0), "red"),
    ):
        votes = ColourVotes()
        for k in range(3):
            votes.update([track(), other], k / 2, street(PAINTS["red"]))
        assert votes.colour("t") == told, other.id


def test_votes_end_with_their_track_and_go_on_after_the_clock_was_set_back():
    votes, red = ColourVotes(), street(PAINTS["red"])
    for time_s in (100.0, 3.0):
        votes.update([track()], time_s, red)
    assert votes.colour("t") == "red"
    votes.update([track("u")], 3.1, red)
    assert votes.colour("t") == ""
    assert not votes.by_track


def test_one_look_of_several_may_be_less_sure_than_one_that_decides():
    """A bag on a third of a dark chest, and the sky in the windows of a black car."""
    dark, black = pavement((25, 25, 28)), street(PAINTS["black"])
    dark[72:86, 138:166] = 200
    black[86:110, 104:216] = 170
    for image, thing, box, look in (
        (dark, "person", TALL, clothes_name),
        (black, "car", BOX, colour_name),
    ):
        votes = ColourVotes()
        assert look(image, box, np.ones((24, 32), bool), scene_cast(image, whole())) is None
        for k in range(2):
            votes.update([track("t", box, thing)], k / 2, image)
        assert votes.colour("t") == {"person": "dark", "car": "black"}[thing]
