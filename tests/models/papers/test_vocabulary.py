"""Words, their numbers, and what a sentence claims."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from models.papers.vocabulary import BOS, EOS, PAD, SPECIAL, UNK, Vocabulary, Wording, read, surface, tokenize


def test_tokenize_lowers_and_strips_punctuation():
    assert tokenize("The car (on the LEFT) isn\u2019t there, double-decker!  2 men.") == [
        *["the", "car", "on", "the", "left", "isn't", "there", "double-decker", "2", "men"]
    ]
    assert tokenize(" .,;-' ") == []


def test_surface_is_a_sentence():
    assert surface(["a", "car", "has", "appeared"]) == "A car has appeared."
    assert surface([]) == ""


@given(st.text())
def test_surface_and_tokenize_undo_each_other(text):
    words = tokenize(text)
    assert tokenize(surface(words)) == words


def test_build_counts_and_orders():
    vocabulary = Vocabulary.build(["b a b", "a b c", "The a"], min_count=2)
    assert vocabulary.words == (*SPECIAL, "a", "b")  # three each: by the alphabet
    assert Vocabulary.build(["a"] * 4 + ["b"] * 5).words == (*SPECIAL, "b")


def test_encode_and_decode():
    vocabulary = Vocabulary(["a", "car"])
    assert len(vocabulary) == 6
    tokens = vocabulary.encode("A blue car.")
    assert tokens == [4, UNK, 5, EOS]
    assert vocabulary.decode([BOS, *tokens, PAD, 5]) == ["a", "<unk>", "car"]
    assert vocabulary.encode("") == [EOS]
    with pytest.raises(IndexError):
        vocabulary.decode([6])


def test_batch_pads_and_leaves_out_empty_sentences():
    tokens = Vocabulary(["a", "car"]).batch([["a car", "", "a"], []], max_words=2)
    assert tokens.tolist() == [[[4, 5, EOS], [4, EOS, PAD]], [[PAD] * 3, [PAD] * 3]]
    assert Vocabulary(["a"]).batch([["a a a a"]], max_words=2).tolist() == [[[4, 4, EOS]]]
    assert torch.equal(Vocabulary([]).batch([[]]), torch.full((1, 1, 1), PAD))


@pytest.mark.parametrize("words", [["a", "a"], ["<pad>"], ["Car"], ["two words"], [""]])
def test_odd_words_are_refused(words):
    with pytest.raises(ValueError, match=r"twice|build"):
        Vocabulary(words)


CLAIMS = """
appeared    car       A car has appeared on the left.
appeared    person    Two people have walked into the scene.
appeared    person    There is a person now in the parking lot.
appeared    van       There is now a white van at the bus stop.
appeared    person    Next to the truck a man has appeared.
appeared    car       There is a red car that is not in the left image.
appeared    person    There is a person walking in the after image.
appeared    person    A new person is on the left side.
appeared    truck     There is a red truck on the road in the right photo.
disappeared person    The person on the left has disappeared.
disappeared person    The man has left.
disappeared car       The car has left the parking lot.
disappeared person    One person has left the table at the left.
disappeared car       The car on the left is gone.
disappeared car       The left car has disappeared.
disappeared truck     A truck has driven out of view.
disappeared van       The van is no longer there.
disappeared bicycle   The bicycle is missing from the bike rack.
disappeared car       The car in the left image is not in the right image.
disappeared person    No people are left.
disappeared person    people are missing in front of the blue truck
disappeared umbrella  There was an umbrella.
moved       car       On the left the car has moved.
moved       person    The man moved left.
moved       person    The man has moved left the most.
moved       bus       The bus has gone to the right.
moved       person    The person has moved closer.
moved       car       A group of cars has moved to the left.
moved       person    The pedestrian is in a different position.
more        person    There are more people near the red car.
fewer       person    There are fewer people on the sidewalk.
fewer       vehicle   There is less traffic.
replaced    bottle    The bottle has been replaced by a box.
replaced    person    A different person is now near the bench.
none        unknown   Nothing has changed.
none        unknown   There are no differences.
none        unknown   I see no difference between the two images.
none        unknown   The images are the same.
unknown     person    A man is walking.
unknown     unknown   The traffic light is green.
unknown     person    It is not the same person.
unknown     motorcycle A motorcycle.
unknown     unknown   W12 w13.
"""


@pytest.mark.parametrize("line", CLAIMS.strip().splitlines())
def test_claims_of_a_sentence(line):
    kind, thing, sentence = line.split(maxsplit=2)
    told = read(sentence)
    assert (told.type, told.object) == (kind, thing)


def test_a_sentence_without_words_claims_nothing():
    assert read("...") == Wording("none", "unknown")


DETAILS = """
2 left          -      Two cars have appeared on the left.
2 left          red    The two red cars on the left are gone.
1 middle        grey   The silver van in the centre has moved.
0 -             -      Several people have appeared.
0 -             -      A group of people has left the room.
0 right         -      There are more people on the right.
1 right         -      There is one more person on the right.
1 top,left      white  A white car has appeared at the top left.
1 top,middle    -      A person has appeared at the top in the middle.
1 far,right     -      The bus in the background on the right is gone.
1 near          -      A man is now in the foreground.
1 -             -      The man has left.
1 left          -      The man moved left.
1 -             -      A car has appeared right now.
3 bottom        -      3 bicycles are missing at the bottom.
1 -             -      A bus has appeared at the car park.
2 -             -      A couple of cars are gone.
1 left          blue   The blue car to the left of the red car is gone.
0 -             -      There is less traffic.
1 -             -      Something has appeared.
"""


@pytest.mark.parametrize("line", DETAILS.strip().splitlines())
def test_how_many_where_and_in_which_colour(line):
    count, places, colour, sentence = line.split(maxsplit=3)
    told = read(sentence)
    assert told.count == int(count)
    assert told.places == (frozenset() if places == "-" else frozenset(places.split(",")))
    assert told.colour == (None if colour == "-" else colour)


@pytest.mark.parametrize(
    ("sentence", "places"),
    [
        ("A person has come in from the left.", set()),
        ("A person has come in from the left and is now in the middle.", {"middle"}),
        ("Two people on the left have left to the right.", {"left"}),
        ("The car has moved from the left to the right.", {"left", "right"}),
    ],
)
def test_a_way_in_or_out_is_no_place(sentence, places):
    assert read(sentence).places == places


def test_coming_in_is_not_standing_in_front():
    assert read("A person has come in near the gate.").type == "appeared"
    assert read("The man has walked in front of the car.").type == "moved"
