"""Scores as the field has them: its tokens without its Java program, METEOR with it, and counts."""

import json
import shutil
from collections.abc import Sequence

import pytest
from pycocoevalcap.tokenizer.ptbtokenizer import PTBTokenizer

from train.papers.caption_files import annotation_statistics, statistics
from train.papers.scores import (
    CONSTANT,
    best_constant,
    meteor_scores,
    ptb_tokens,
    text_scores,
    trivial_captions,
)

needs_java = pytest.mark.skipif(shutil.which("java") is None, reason="the field's tokeniser needs Java")

REFERENCES = [
    ["a red car has appeared on the left", "there is a red car on the left now"],
    ["the man in the parking lot is gone"],
    ["two people have moved near the road"],
]
CASES = """The man isn't there anymore.
It's gone; they're left, and he can't see it: cannot, gonna, wanna.
the man's car and the cars' lights and James' hat
A double-decker bus (red) has moved to the left-hand side!
a "quoted" text, a 'single' word and `another'
person and/or car, 20 cars, 3.5 m, 1,000 people, 50% more, $5, #3, 1/2, 12:30
at 5 p.m. today Mr. Smith and Dr. Who are in the U.S., i.e. away etc. and gone
wait... what -- or - a\u2014b a\u2013b
it\u2019s gone and isn\u2019t there \u201cquoted\u201d
no. 5 is here, no. This is no.
wouldn't've should've o'clock ma'am rock'n'roll '90s 90's 'em 'tis
animal1 is larger than animal2 , with a longer beak .
the blue_car is at x@y.com + b = c <unk> :)
three-quarter view; mid-sized [x] {y} p/u w/o"""


def test_bleu_by_hand():
    # 3 of 4 words, 2 of 3 word pairs, and the brevity penalty exp(1 - 5 / 4)
    scores = text_scores(["the man is here"], [["the man is gone now"]])
    assert scores["bleu"][0] == pytest.approx(0.75 * 2.718281828**-0.25, abs=1e-4)
    assert scores["bleu"][1] == pytest.approx((0.75 * 2 / 3) ** 0.5 * 2.718281828**-0.25, abs=1e-4)


def test_what_cannot_be_scored_is_an_error():
    with pytest.raises(ValueError, match="2 texts cannot be scored against 3 pairs"):
        text_scores(["a", "b"], REFERENCES)
    with pytest.raises(ValueError, match="at least one reference"):
        text_scores(["a"], [[]])


def test_the_trivial_rows():
    training = [["the man is gone"]] * 3 + [["a car", "the man is gone"], ["a bus is gone"]]
    rows = trivial_captions(training, 3)
    assert list(rows) == ["constant", "best constant of train", "random training caption"]
    assert rows["constant"] == [CONSTANT] * 3
    assert rows["best constant of train"] == ["the man is gone"] * 3
    assert trivial_captions(training, 3) == rows
    assert list(trivial_captions([], 3)) == ["constant"]
    # "a bird" is as frequent, but agrees with nothing else that is said.
    training = [["a bird"]] * 2 + [["the man is gone"]] * 2 + [["the man is gone now"]] * 3 + [["a dog ran"]]
    assert best_constant(training) in ("the man is gone", "the man is gone now")


def java_tokens(texts: Sequence[str]) -> list[tuple[str, ...]]:
    """Tokens by pycocoevalcap's own wrapper."""
    found = PTBTokenizer().tokenize({k: [{"caption": text}] for k, text in enumerate(texts)})
    return [tuple(found[k][0].split()) for k in range(len(texts))]


@needs_java
def test_tokens_are_those_of_the_java_program():
    lines = CASES.split("\n")
    for line, theirs in zip(lines, java_tokens(lines), strict=True):
        assert ptb_tokens(line) == theirs, line


@needs_java
def test_every_real_sentence_has_the_tokens_of_the_java_program(spot_the_diff):
    read = [json.loads((spot_the_diff / f"{split}.json").read_text()) for split in ("train", "val", "test")]
    texts = sorted({" ".join(s.split()) for entries in read for e in entries for s in e["sentences"]})
    assert len(texts) > 20_000
    assert [ptb_tokens(t) for t in texts] == java_tokens(texts)


@needs_java
def test_meteor_of_several_systems_is_that_of_each():
    gold = [["the man is gone", "a person has left"], ["a red car has appeared"]]
    systems = [["the man is gone", "a car"], ["", "a red car has appeared here"]]
    # what pycocoevalcap's own scorer says of each system in a run of its own
    assert meteor_scores(systems, gold) == pytest.approx([0.3465326, 0.3406276])


def test_counts_by_hand():
    counted = statistics([("1", ("a car is gone", "", "2")), ("1", ("a car " * 11,)), ("2", ("a a a a",))])
    assert (counted["annotations"], counted["distinct pairs"], counted["sentences"]) == (3, 2, 5)
    assert (counted["sentences without a word"], counted["sentences that are only a number"]) == (1, 1)
    assert counted["sentences per annotation, mean"] == pytest.approx(5 / 3)
    assert counted["words per sentence, mean"] == pytest.approx((4 + 22 + 4) / 3)
    assert counted["sentences over 20 words, %"] == pytest.approx(100 / 3)
    assert counted["vocabulary"] == 4
    assert counted["words seen 5 times or more"] == 2
    assert counted["running words they cover, %"] == pytest.approx(2800 / 30)


def test_the_released_annotations_are_those_of_table_1(spot_the_diff):
    table = annotation_statistics(spot_the_diff)
    assert list(table) == ["train", "val", "test", "all", "paper"]
    assert table.loc["annotations"].tolist() == [9524, 1634, 1404, 12562, 13192]
    assert table.loc["distinct pairs"].tolist()[:3] == [8566, 1493, 1270]
    every = table["all"]
    assert every[["sentences without a word", "sentences that are only a number"]].tolist() == [66, 63]
    assert (every["sentences"], every["vocabulary"]) == (23093, 2294)
    for name, within in (
        ("sentences per annotation, mean", 0.03),
        ("sentences per annotation, s.d.", 0.01),
        ("words per sentence, mean", 0.4),
        ("words per sentence, s.d.", 0.05),
        ("sentences over 20 words, %", 0.5),
    ):
        assert every[name] == pytest.approx(table["paper"][name], abs=within), name
    assert every["running words they cover, %"] >= 97
