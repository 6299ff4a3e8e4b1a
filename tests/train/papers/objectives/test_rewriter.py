import numpy as np
import pytest

from models.papers.vocabulary import read
from train.papers.objectives.rewriter import KINDS, Rewriter

CAPTIONS = [
    ["the red car on the left has appeared", "there is now a red car on the left"],
    ["the blue car on the left has appeared"],
    ["the red car on the right has disappeared", "the red car on the right is gone"],
    ["two people are walking on the road"],
    ["nothing has changed", "there is no difference"],
    ["i don't see any differences"],
    ["the brown matte cube changed to green"],
    ["animal1 is brown with a white head while animal2 is orange"],
    ["animal1 is brown with a white head while animal2 is dark brown"],
]


@pytest.fixture
def rewriter() -> Rewriter:
    return Rewriter(CAPTIONS)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(4)


def test_retrieve_takes_a_similar_caption_of_another_pair(rewriter, rng):
    drawn = {rewriter.retrieve(CAPTIONS[0][0], rng) for _ in range(60)}
    assert "the blue car on the left has appeared" in drawn
    assert not drawn & set(CAPTIONS[0])
    birds = {rewriter.retrieve(CAPTIONS[7][0], rng) for _ in range(60)}
    assert CAPTIONS[8][0] in birds


def test_retrieve_leaves_out_what_says_the_same_of_another_pair(rng):
    same = "there is now a red car on the left"  # as a caption of another pair
    rewriter = Rewriter([["the red car on the left has appeared"], [same], ["a red car on the left"]])
    drawn = {rewriter.retrieve("the red car on the left has appeared", rng) for _ in range(40)}
    assert drawn == {"a red car on the left"}


@pytest.mark.parametrize("caption", [CAPTIONS[0][0], CAPTIONS[6][0]])
def test_replace_changes_attributes_for_others_of_their_kind(rewriter, rng, caption):
    kind = {
        word: (name, k)
        for name, lines in KINDS.items()
        for k, line in enumerate(lines)
        for word in line.split()
    }
    for _ in range(30):
        rewritten = rewriter.replace(caption, rng)
        changed = [(a, b) for a, b in zip(caption.split(), rewritten.split(), strict=True) if a != b]
        assert changed
        for old, new in changed:
            assert kind[old][0] == kind[new][0]  # a colour for a colour
            assert kind[old] != kind[new]  # no synonym


@pytest.mark.parametrize(
    ("caption", "confused"),
    [
        ("animal1 is brown while animal2 is orange", "animal2 is brown while animal1 is orange"),
        ("the brown matte cube changed to green", "the green matte cube changed to brown"),
        ("the red car has appeared", "the red car has disappeared"),
        ("there is no longer a dog", "there is now a dog"),
        ("there are more people", "there are fewer people"),
        ("in the after image a car is gone", "in the before image a car is gone"),
        ("the red car is left of the blue one", "the blue car is left of the red one"),
        ("the dog sits", None),
    ],
)
def test_confuse_swaps_the_frames(rewriter, rng, caption, confused):
    assert rewriter.confuse(caption, rng) == confused


@pytest.mark.parametrize("caption", [said for pair in CAPTIONS for said in pair])
def test_there_are_always_six_different_false_ones(rewriter, rng, caption):
    true = next(pair for pair in CAPTIONS if caption in pair)
    negatives = rewriter.negatives(caption, rng, each=2, true=true)
    texts = [n.text for n in negatives]
    assert len(texts) == len(set(texts)) == 6
    assert not set(texts) & {t.replace("'", "") for t in true}
    if read(caption).type == "none":
        assert not any("difference" in text or "nothing" in text for text in texts)
