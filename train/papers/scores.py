"""Text scores by the field's scorer, pycocoevalcap, on its PTB tokens, of groups of pairs, and trivial rows.

CIDEr is CIDEr-D; it depends on the set of references, so that scores of subsets do not compare. METEOR needs
Java; SPICE needs Java and the CoreNLP 3.6.0 jars, which pycocoevalcap would download by itself: it is
computed only where they lie in its folder ``spice/lib`` already.

Changed and distractor pairs and each type of change are scored by themselves, with document frequencies of
their own references, as in the tables of Park et al. and Hosseinzadeh and Wang.

Text scores hardly punish a reversed polarity and reward a constant sentence: beside them stands whether the
first sentence is right in type, polarity, object and place, and silence (`truth_ratios`).
"""

import importlib.util
import random
import re
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pycocoevalcap.bleu.bleu import Bleu
from pycocoevalcap.cider.cider import Cider
from pycocoevalcap.rouge.rouge import Rouge

from models.papers.vocabulary import read, tokenize
from train.samples import Sample

_PLAIN = str.maketrans(
    "\u2018\u2019\u201b`\u00b4\u201c\u201d\u2013\u2010\u2011\u00a3\u20ac\u00a0", "'''''\"\"\u2014--#$ "
) | {0x2026: " ... "}

_TITLES = "mr mrs ms dr drs prof profs sen rep lt col gen gov adm rev maj sgt cpl pvt capt st ste ave pres"
_COMPANIES = "inc co cos corp ltd plc dept assn univ"
_TIMES = "jan feb mar apr jun jul aug sep sept oct nov dec mon tue tues wed thu thurs fri"
_OTHERS = "etc vs al seq bldg blvd rd"
_ABBREVIATIONS = "|".join(f"{_TITLES} {_COMPANIES} {_TIMES} {_OTHERS}".split())

_TOKEN = re.compile(
    rf"""
    https?://\S+ | [\w.+-]+@[\w-]+(?:\.[\w-]+)+        # addresses stay whole
    | <[a-z/][^<>\s]*>                                 # tags, too
    | (?<!\w)(?:{_ABBREVIATIONS})\.(?!\w)
    | (?<!\w)no\.(?=\s*\d)
    | (?<![\w.])(?:[a-z]\.)+(?:[a-z](?!\w))?           # u.s., p.m., i.e.
    | \.?\d+(?:[.,:/]\d+)+(?:'s)?(?![\w-]) | (?<!\w)\.\d+     # 1,000  3.5  12:30  1/2
    | [^\W_](?:\w|(?:[-/'&]|[.?!](?=[a-z]))(?=\w))*(?:\.(?=[,;]))?   # words, with what joins their parts
    | (?<![\w'])'(?:s|em|til|cause|n|\d\ds|tis|twas)(?![\w'])'?
    | [:;]-?[()]                                       # faces
    | \.\.+ | [?!]+ | -+ | \u2014 | .
    """,
    re.VERBOSE,
)

_NOT_COUNTED = frozenset(
    ("''", "'", "``", "`", ".", "?", "!", ",", ":", "-", "--", "...", ";", '"', "\u2014")
)
_BRACKETS = {"(": "-lrb-", ")": "-rrb-", "[": "-lsb-", "]": "-rsb-", "{": "-lcb-", "}": "-rcb-"}
_FACES = {f"{eyes}{mouth}": f"{eyes}{_BRACKETS[mouth]}" for eyes in (":", ":-", ";", ";-") for mouth in "()"}
_NAMES = {**_BRACKETS, **_FACES}
"""Scorers take the capital names of brackets out, but the text is in small letters by then: they count."""

_JOINED = {
    parts.replace(" ", ""): tuple(parts.split())
    for parts in ("can not", "gon na", "got ta", "wan na", "gim me", "lem me", "'t is", "'t was")
}
_ENDING = re.compile(r"(.+)('(?:s|re|ve|ll|d|m))")
_NEGATION = re.compile(r"(.+)(n't)")
_WHOLE = re.compile(r"(?:[odl]'\w+|ma'am|ne'er|e'er|'\w+)")
_MIDDLE = re.compile(r"(\w+)('n')(\w+)")


@lru_cache(maxsize=100_000)
def ptb_tokens(text: str) -> tuple[str, ...]:
    results: list[str] = []
    for match in _TOKEN.finditer(text.translate(_PLAIN).lower()):
        token = match[0]
        if token.isspace() or token in _NOT_COUNTED or not token.strip("-"):
            continue
        if token[0] == "." and not token.strip("."):
            continue
        if "'" in token and not token.endswith("."):
            results += _split(token)
        else:
            results += _JOINED.get(token, (_NAMES.get(token, token),))
    return tuple(results)


def _split(word: str) -> list[str]:
    if word in _JOINED:
        return list(_JOINED[word])
    word = word.removesuffix("'") if word != "'n'" else word
    for pattern in (_NEGATION, _ENDING):
        if parts := pattern.fullmatch(word):
            return [*_split(parts[1]), parts[2]]
    if parts := _MIDDLE.fullmatch(word):
        return list(parts.groups())
    if _WHOLE.fullmatch(word):
        return [word]
    return [part for part in word.split("'") if part]


CONSTANT = "there is a person walking in the parking lot"  # scores like published DDLA
CHANGED, DISTRACTOR = "changed", "distractor"

DISTRACTORS = frozenset({DISTRACTOR, "light", "shift", "view"})
"""Kinds of samples (`Sample.kind`) in which nothing changed that is worth a sentence."""

CLEVR_TYPES = ("color", "material", "add", "drop", "move")  # one change in each pair
_TOGETHER = {"more": "more or fewer", "fewer": "more or fewer"}
_CANDIDATES, _CANDIDATE_PAIRS = 20, 300
_SPICE_JAR = "lib/stanford-corenlp-3.6.0.jar"

Texts = Sequence[str]
References = Sequence[Sequence[str]]


Scores = dict[str, Any]
"""``bleu``, BLEU-1 to -4 of the corpus, 0..1; ``rouge_l``, mean over pairs, 0..1; ``cider``, CIDEr-D, mean
over pairs, 0..10 (papers print it times 1 or 100); ``pairs``, how many were scored."""


def plain(value: Any) -> Any:
    """Scores as plain values for JSON, numbers rounded to 4 places."""
    if isinstance(value, Mapping):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, tuple | list):
        return [plain(each) for each in value]
    return round(value, 4) if isinstance(value, float) else value


def text_scores(predicted: Texts, references: References) -> Scores:
    """Score one text per pair, which may be empty, against at least one reference of each.

    All is zero where there is no pair, or no reference with a word.
    """
    gold, predictions = _tokenize(predicted, references)
    if not any(text for texts in gold.values() for text in texts):
        return {"bleu": [0.0] * 4, "rouge_l": 0.0, "cider": 0.0, "pairs": len(predicted)}
    bleu, _ = Bleu(4).compute_score(gold, predictions, verbose=0)
    rouge, _ = Rouge().compute_score(gold, predictions)
    cider, _ = Cider().compute_score(gold, predictions)
    return {"bleu": bleu, "rouge_l": float(rouge), "cider": float(cider), "pairs": len(predicted)}


def pair_ciders(predicted: Texts, references: References) -> NDArray[np.float64]:
    """CIDEr-D of every pair, float64 ``(N,)``; see `text_scores`."""
    return np.asarray(Cider().compute_score(*_tokenize(predicted, references))[1], np.float64)


def meteor_scores(systems: Sequence[Texts], references: References) -> list[float] | None:
    """METEOR 1.5 of several systems, 0..1, in one run of the Java program; None without Java."""
    if shutil.which("java") is None:
        return None
    from pycocoevalcap.meteor.meteor import Meteor  # noqa: PLC0415 - starts Java

    scorer = Meteor()
    try:
        return [float(scorer.compute_score(*_tokenize(each, references))[0]) for each in systems]
    finally:
        scorer.meteor_p.stdout.close()
        scorer.meteor_p.stderr.close()


def spice_scores(systems: Sequence[Texts], references: References) -> list[float] | None:
    """SPICE of several systems, 0..1; None without Java or the jars, see the head of this file."""
    result = importlib.util.find_spec("pycocoevalcap.spice")
    places = list(result.submodule_search_locations or ()) if result else []
    if shutil.which("java") is None or not any((Path(place) / _SPICE_JAR).is_file() for place in places):
        return None
    from pycocoevalcap.spice.spice import Spice  # noqa: PLC0415 - downloads where the jars are missing

    return [float(Spice().compute_score(*_tokenize(each, references))[0]) for each in systems]


def java_scores(systems: Sequence[Texts], references: References) -> list[dict[str, float]]:
    """METEOR and SPICE of several systems, as far as they can be had here, rounded to 4 places."""
    scores = {"meteor": meteor_scores(systems, references), "spice": spice_scores(systems, references)}
    return [{k: round(v[n], 4) for k, v in scores.items() if v} for n in range(len(systems))]


BEST_CONSTANT = "best constant of train"


def trivial_captions(training: References, number: int) -> dict[str, list[str]]:
    """By name, what systems that look at no picture say about each pair; only a constant without training."""
    rows = {"constant": [CONSTANT] * number}
    if any(training):
        rows[BEST_CONSTANT] = [best_constant(training)] * number
        sentences = [s for pair in training for s in pair]
        drawn = random.Random(0).choices(sentences, k=number)  # noqa: S311 - no secret
        rows["random training caption"] = drawn
    return rows


def best_constant(training: References) -> str:
    """The frequent training sentence that, said of every training pair, gets the best CIDEr.

    At most 300 training pairs choose it, always the same ones.
    """
    pairs = [p for p in training if p]
    counts = Counter(" ".join(tokenize(s)) for p in pairs for s in p)
    frequent = sorted(counts, key=lambda s: (-counts[s], s))[:_CANDIDATES]
    if len(pairs) > _CANDIDATE_PAIRS:
        pairs = random.Random(0).sample(pairs, _CANDIDATE_PAIRS)  # noqa: S311 - no secret
    return max(frequent, key=lambda s: (float(pair_ciders([s] * len(pairs), pairs).mean()), s))


def sample_groups(sample: Sample) -> tuple[str, ...]:
    """The groups of a pair: changed or distractor, and the type if all its changes are of one.

    A pair of which neither the kind nor the changes are known is in no group.
    """
    types = {_TOGETHER.get(change.type, change.type) for change in sample.changes}
    if types or sample.kind in CLEVR_TYPES:
        types = types or {sample.kind}
        return (CHANGED, *types) if len(types) == 1 else (CHANGED,)
    if not sample.kind:
        return ()
    return (CHANGED if mentions_change(sample, sample.sentences) else DISTRACTOR,)


def mentions_change(sample: Sample, sentences: Sequence[str]) -> bool:
    """True where a pair is no distractor: by how it was made, or else by its captions."""
    if sample.kind in DISTRACTORS:
        return False
    return bool(sample.changes) or any(read(sentence).type != "none" for sentence in sentences)


def group_scores(
    groups: Sequence[Sequence[str]], predicted: Sequence[str], references: Sequence[Sequence[str]]
) -> dict[str, Scores]:
    """Text scores of every group: changed, distractor, then the types by name."""
    names = sorted({name for own in groups for name in own}, key=lambda n: (n != CHANGED, n != DISTRACTOR, n))
    chosen = {name: [k for k, own in enumerate(groups) if name in own] for name in names}
    texts = {name: ([predicted[k] for k in ks], [references[k] for k in ks]) for name, ks in chosen.items()}
    return {name: text_scores(*own) for name, own in texts.items()}


def length_ratio(predicted: Texts, references: References) -> float:
    """LenRatio of the paper: mean predicted tokens over mean gold tokens."""
    length = sum(len(tokenize(text)) for text in predicted)
    gold = sum(sum(len(tokenize(t)) for t in texts) / len(texts) for texts in references if texts)
    return length / gold if gold else 0.0


def _tokenize(predicted: Texts, references: References) -> tuple[dict[int, list[str]], dict[int, list[str]]]:
    """References and predictions as pycocoevalcap takes them: tokens with spaces between, by pair."""
    if len(predicted) != len(references):
        raise ValueError(f"{len(predicted)} texts cannot be scored against {len(references)} pairs")
    if any(not texts for texts in references):
        raise ValueError("every scored pair needs at least one reference sentence")
    gold = {k: [" ".join(ptb_tokens(text)) for text in texts] for k, texts in enumerate(references)}
    return gold, {k: [" ".join(ptb_tokens(text))] for k, text in enumerate(predicted)}


Claim = tuple[str, str, frozenset[str]]  # type, object and place words of a sentence

Ratio = NDArray[np.float64]  # the pairs' numerators and denominators, ``(N, 2)``; of their sums
_PLACE = re.compile(r"\b(left|right|top|bottom|middle|center|centre|front|back|near|far)\b")
_ASPECTS = ("type", "object", "place")


def truth_ratios(
    first: Sequence[str], silent: Sequence[bool], gold: Sequence[Sequence[str]]
) -> dict[str, Ratio]:
    """By figure whether the first sentence of every pair is right, and whether it counts.

    Of pairs with a change for which a change was claimed: type ("more" counts as appeared, "fewer" as
    disappeared), object, place and all three agree with some gold sentence; polarity is the type of appeared
    and disappeared, where gold says one of them about that object. no_change_precision is of pairs without a
    caption, no_change_recall of pairs without a change.
    """
    names = (*_ASPECTS, "all", "polarity", "no_change_precision", "no_change_recall")
    results = {name: np.zeros((len(first), 2)) for name in names}
    for k, (text, nothing, truths) in enumerate(zip(first, silent, gold, strict=True)):
        claims = [claim(t) for t in truths if tokenize(t)]
        if not claims:
            continue
        changed = [c for c in claims if c[0] != "none"]
        results["no_change_precision"][k] = nothing and not changed, nothing
        results["no_change_recall"][k] = nothing and not changed, not changed
        claimed = claim(text)
        if not changed or claimed[0] == "none":
            continue
        for position, name in enumerate(_ASPECTS):
            results[name][k] = any(claimed[position] == c[position] for c in changed), 1
        results["all"][k] = claimed in changed, 1
        signs = {c[0] for c in changed if c[1] == claimed[1] and c[0] in ("appeared", "disappeared")}
        if signs and claimed[0] in ("appeared", "disappeared"):
            results["polarity"][k] = claimed[0] in signs, 1
    return results


def truth_of(ratios: Mapping[str, Ratio]) -> dict[str, float | None]:
    return {"pairs": int(ratios["type"][:, 1].sum())} | {name: share(each) for name, each in ratios.items()}


def claim(text: str) -> Claim:
    """The claim of a sentence; "more" is read as appeared, "fewer" as disappeared."""
    wording = read(text)
    kind = {"more": "appeared", "fewer": "disappeared"}.get(wording.type, wording.type)
    return kind, wording.object, frozenset(_PLACE.findall(" ".join(tokenize(text))))


def share(ratio: Ratio) -> float | None:
    right, whole = ratio.sum(axis=0).tolist()
    return right / whole if whole else None
