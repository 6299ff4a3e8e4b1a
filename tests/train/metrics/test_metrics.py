"""The pure-Python scores against the field's scorer, pycocoevalcap, on the same text."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path

import pytest

from train.metrics import authority
from train.metrics.authority import MissingScorersError, meteors, spice
from train.metrics.overlap import References
from train.metrics.tokens import ptb_tokens

_TOKENIZER = "tokenizer/stanford-corenlp-3.4.1.jar"
_PUNCTUATION = frozenset(
    ("''", "'", "``", "`", "-LRB-", "-RRB-", "-LCB-", "-RCB-", ".", "?", "!", ",", ":", "-", "--", "...", ";")
)


def java_there() -> bool:
    """Whether Java and pycocoevalcap are installed."""
    return bool(shutil.which("java") and find_spec("pycocoevalcap"))


def java_tokens(texts: Sequence[str]) -> list[tuple[str, ...]]:
    """Tokens by the very tokeniser of the published scores."""
    lines = "\n".join(" ".join(text.split()) for text in texts)
    tokeniser = ("-cp", str(authority._part(_TOKENIZER)), "edu.stanford.nlp.process.PTBTokenizer")
    command = [authority._program(), *authority._UTF8, *tokeniser, "-preserveLines", "-lowerCase"]
    out = subprocess.run(
        command, input=f"{lines}\n".encode(), capture_output=True, check=True
    ).stdout.decode()
    found = [tuple(w for w in line.split() if w not in _PUNCTUATION) for line in out.split("\n")]
    assert len(found) >= len(texts)
    return found[: len(texts)]


needs_java = pytest.mark.skipif(not java_there(), reason="the field's scorer needs Java and pycocoevalcap")

Captions = tuple[list[str], list[list[str]]]
"""Predictions, and the references of each."""

SETS = 300
WORDS = """a the man car cars bus red blue is are gone has appeared moved left right on near parking lot
person isn't can't cannot it's they're who's black-and-white double-decker cars' 3 2nd 1,000 3.5 mr. p.m. u.s.
(there) "now" 'there' no. 5 left/right & 50% $5 o'clock wasn\u2019t \u201chere\u201d \u2014 \u2026 gonna
t-shirt"""
LAST = ("person", "here", "gone", "isn't", "p.m.", "(car)", '"left"', "50%", "3.5", "cars'")
ENDS = ("", ".", " .", "!", "...", "?", ";", ",")

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


def tokens_of(texts: Sequence[str]) -> list[str]:
    """Space-separated tokens by pycocoevalcap's own wrapper."""
    from pycocoevalcap.tokenizer.ptbtokenizer import PTBTokenizer

    given = {k: [{"caption": text}] for k, text in enumerate(texts)}
    found = PTBTokenizer().tokenize(given)
    return [found[k][0] for k in range(len(texts))]


def random_text(rng: random.Random) -> str:
    words = [*rng.choices(WORDS.split(), k=rng.randint(0, 13)), rng.choice(LAST)]
    return " ".join(words).capitalize() + rng.choice(ENDS) if rng.random() < 0.95 else ""


def random_sets(draw: Callable[[random.Random], str]) -> list[Captions]:
    """Sets of 1 to 9 pairs with 1 to 5 references each; some predictions are references."""
    rng = random.Random(11)
    sets = []
    for _ in range(SETS):
        references = [
            [draw(rng) for _ in range(rng.randint(1, 5))] for _ in range(rng.choice((1, 2, 3, 5, 9)))
        ]
        predicted = [rng.choice(own) if rng.random() < 0.3 else draw(rng) for own in references]
        sets.append((predicted, references))
    return sets


def agree(sets: list[Captions]) -> None:
    """Ours on our tokens, and pycocoevalcap's on its own, within 1e-4 on every set."""
    from pycocoevalcap.bleu.bleu import Bleu
    from pycocoevalcap.cider.cider import Cider
    from pycocoevalcap.rouge.rouge import Rouge

    every = [
        text for predicted, references in sets for text in (*predicted, *(t for r in references for t in r))
    ]
    spaced = iter(tokens_of(every))
    for predicted, references in sets:
        said = {k: [next(spaced)] for k in range(len(predicted))}
        gold = {k: [next(spaced) for _ in own] for k, own in enumerate(references)}
        ours = References([[ptb_tokens(t) for t in own] for own in references]).score(
            [ptb_tokens(t) for t in predicted]
        )
        if not any(text for own in gold.values() for text in own):
            assert ours.cider == 0
            continue
        bleu, _ = Bleu(4).compute_score(gold, said, verbose=0)
        rouge, _ = Rouge().compute_score(gold, said)
        cider, each_cider = Cider().compute_score(gold, said)
        assert ours.bleu == pytest.approx(tuple(bleu), abs=1e-4), predicted
        assert ours.rouge_l == pytest.approx(rouge, abs=1e-4), predicted
        assert ours.cider == pytest.approx(cider, abs=1e-4), predicted
        assert ours.pair_cider == pytest.approx(tuple(each_cider), abs=1e-4)


@needs_java
def test_300_random_sets_agree_with_the_reference_scorer() -> None:
    agree(random_sets(random_text))


@needs_java
def test_300_sets_of_real_captions_agree_with_the_reference_scorer(bench: Path) -> None:
    file = bench.parent / "data" / "spot-the-diff" / "val.json"
    if not file.is_file():
        pytest.skip("no Spot-the-diff annotations beside the checkout")
    real = [s for e in json.loads(file.read_text()) for s in e["sentences"]]
    sets = random_sets(lambda rng: rng.choice(real))
    whole: dict[str, list[str]] = {}
    for entry in json.loads(file.read_text()):
        whole.setdefault(entry["img_id"], []).extend(entry["sentences"])
    references = [own for own in whole.values() if own]
    agree([*sets, ([own[-1] for own in references[1:]] + [references[0][0]], references)])


@needs_java
def test_tokens_are_those_of_the_java_program() -> None:
    lines = CASES.split("\n")
    for line, theirs, wrapped in zip(lines, java_tokens(lines), tokens_of(lines), strict=True):
        assert theirs == tuple(wrapped.split()), line
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
def test_meteor_is_what_pycocoevalcaps_wrapper_gives() -> None:
    """Its values, written down: a second Java program with its paraphrase table takes ten seconds more."""
    references = [
        ["a red car has appeared on the left", "there is a car"],
        ["the man is gone"],
        ["people left"],
    ]
    said = ["A red car appeared on the left.", "the man walks", ""]
    assert meteors([said, said], references) == pytest.approx([0.36342236885362994] * 2, abs=1e-6)


def test_what_is_known_by_hand() -> None:
    gold = References([[("a", "b", "c", "d")], [("e", "f", "g", "h", "i")]])
    full = gold.score([("a", "b", "c", "d"), ("e", "f", "g", "h", "i")])
    assert full.bleu == pytest.approx((1, 1, 1, 1))
    assert full.rouge_l == pytest.approx(1)
    assert full.cider == pytest.approx(10)
    half = gold.score([("a", "b", "x", "y"), ()])
    assert half.bleu[0] == pytest.approx(0.5 * 2.718281828 ** (1 - 9 / 4))
    assert half.rouge_l == pytest.approx(0.25)
    assert half.pair_cider[1] == 0
    with pytest.raises(ValueError, match="1 texts cannot be scored against the references of 2"):
        gold.score([("a",)])
    for nothing in ([], [[]]):
        with pytest.raises(ValueError, match="at least one reference"):
            References(nothing)


def test_spice_names_the_jars_that_the_user_supplies(tmp_path: Path) -> None:
    with pytest.raises(MissingScorersError, match=r"stanford-corenlp-3\.6\.0\.jar and .*models\.jar in"):
        spice(["a"], [["a"]], tmp_path)


@needs_java
def test_spice_that_fails_is_said(tmp_path: Path) -> None:
    for name in authority.SPICE_JARS:
        (tmp_path / name).write_bytes(b"no jar")
    with pytest.raises(MissingScorersError, match="SPICE"):
        spice(["a car"], [["a car"]], tmp_path)


def test_missing_parts_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    if authority.importlib.util.find_spec("pycocoevalcap"):
        with pytest.raises(MissingScorersError, match="Java"):
            meteors([["a"]], [["a"]])
    monkeypatch.setattr(authority, "_METEOR", "meteor/none.jar")
    with pytest.raises(MissingScorersError, match=r"pip install 'narrated\[train\]'"):
        meteors([["a"]], [["a"]])


def test_meteor_that_dies_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    true = subprocess.run(["which", "true"], capture_output=True, text=True, check=True).stdout.strip()
    monkeypatch.setattr(authority, "_program", lambda: true)
    monkeypatch.setattr(authority, "_part", lambda _name: Path(true))
    with pytest.raises(MissingScorersError, match="METEOR stopped"):
        meteors([["a"]], [["a"]])
