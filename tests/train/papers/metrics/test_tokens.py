"""The tokens of the field's scorer, without its Java program; and METEOR, with it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
from pycocoevalcap.tokenizer.ptbtokenizer import PTBTokenizer

from train.papers.metrics.scores import meteors
from train.papers.metrics.tokens import ptb_tokens

needs_java = pytest.mark.skipif(shutil.which("java") is None, reason="the field's tokeniser needs Java")

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


def java_tokens(texts: Sequence[str]) -> list[tuple[str, ...]]:
    """Tokens by pycocoevalcap's own wrapper."""
    found = PTBTokenizer().tokenize({k: [{"caption": text}] for k, text in enumerate(texts)})
    return [tuple(found[k][0].split()) for k in range(len(texts))]


@needs_java
def test_tokens_are_those_of_the_java_program() -> None:
    lines = CASES.split("\n")
    for line, theirs in zip(lines, java_tokens(lines), strict=True):
        assert ptb_tokens(line) == theirs, line


@needs_java
def test_every_real_sentence_has_the_tokens_of_the_java_program(bench: Path) -> None:
    folder = bench.parent / "data" / "spot-the-diff"
    if not folder.is_dir():
        pytest.skip("no Spot-the-diff annotations beside the checkout")
    read = [json.loads((folder / f"{split}.json").read_text()) for split in ("train", "val", "test")]
    texts = sorted({" ".join(s.split()) for entries in read for e in entries for s in e["sentences"]})
    assert len(texts) > 20_000
    assert [ptb_tokens(t) for t in texts] == java_tokens(texts)


@needs_java
def test_meteor_of_several_systems_is_that_of_each() -> None:
    gold = [["the man is gone", "a person has left"], ["a red car has appeared"]]
    systems = [["the man is gone", "a car"], ["", "a red car has appeared here"]]
    # what pycocoevalcap's own scorer says of each system in a run of its own
    assert meteors(systems, gold) == pytest.approx([0.3465326, 0.3406276])
