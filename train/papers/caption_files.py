"""Scores of files of captions: COCO's form, its results form, and the Spot-the-diff form.

* ``{"annotations": [{"image_id": ..., "caption": ...}, ...]}``, or that list alone;
* ``[{"img_id": ..., "sentences": [...]}, ...]``: every sentence is a caption of the pair.

Captions of one id are merged in their order. An entry may say what kind of pair it is by ``kind`` and
``changes`` (`train.samples`) or by a word, ``type``. Who wrote a caption is known where an entry holds all
``sentences`` of one annotator, or names its ``annotator``. CLEVR-Change's names of a pair (``000000.png``,
``CLEVR_semantic_000000.png``, with ``_n`` of a distractor) are one: ``000000``, ``000000_n``.
"""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

import pandas as pd
from pydantic import AliasChoices, BaseModel, Field, TypeAdapter, model_validator

from models.papers.vocabulary import read, tokenize
from train.papers.datasets import has_split, load_pairs
from train.papers.evaluation import evaluate_texts
from train.papers.scores import (
    CHANGED,
    DISTRACTOR,
    Scores,
    java_scores,
    plain,
    ptb_tokens,
    text_scores,
    trivial_captions,
)
from train.samples import SPLITS, SampleError, read_entries, read_json

TABLE_1 = {
    "annotations": 13_192,
    "sentences per annotation, mean": 1.86,
    "sentences per annotation, s.d.": 1.01,
    "words per sentence, mean": 10.96,
    "words per sentence, s.d.": 4.97,
    "sentences over 20 words, %": 5,
    "vocabulary": 2_404,
    "words seen 5 times or more": 1_000,
    "running words they cover, %": 97,
}
"""Figures that the paper prints for Spot-the-diff (a little more data than was released)."""

Annotation = tuple[str, Sequence[str]]  # the id of a pair, and one annotator's sentences about it


def annotation_statistics(folder: Path) -> pd.DataFrame:
    """Table 1 of a set: a column for each split and one for all, beside them the paper's figures.

    Sentences without a word and those that are only a number are counted in lines of their own only.
    """
    splits = {split: result for split in SPLITS if (result := _annotations(folder, split))}
    if not splits:
        load_pairs(folder, "train", require_images=False)  # says what is wrong, if anything is
        raise SampleError(f"{folder} holds no annotations: none of {', '.join(SPLITS)} has an entry")
    columns = {name: statistics(result) for name, result in splits.items()}
    columns["all"] = statistics([each for result in splits.values() for each in result])
    return pd.DataFrame({**columns, "paper": TABLE_1}, index=pd.Index(columns["all"]))


def statistics(annotations: Sequence[Annotation]) -> dict[str, float]:
    sentences = pd.Series([s for _, texts in annotations for s in texts], dtype=object)
    numbers = sentences.map(lambda s: s.strip().rstrip(".").isdigit()).astype(bool)
    words = sentences.map(tokenize)
    lengths = words.map(len)
    counted = words[(lengths > 0) & ~numbers]
    lengths = counted.map(len).astype(float)
    each = pd.Series([len(texts) for _, texts in annotations], dtype=float)
    uses = counted.explode().value_counts()
    frequent = uses[uses >= 5]  # noqa: PLR2004 - the paper's
    return {
        "annotations": len(annotations),
        "distinct pairs": len({pair for pair, _ in annotations}),
        "sentences": len(sentences),
        "sentences without a word": int((words.map(len) == 0).sum()),
        "sentences that are only a number": int(numbers.sum()),
        "sentences per annotation, mean": each.mean(),
        "sentences per annotation, s.d.": each.std(ddof=0),
        "words per sentence, mean": lengths.mean(),
        "words per sentence, s.d.": lengths.std(ddof=0),
        "sentences over 20 words, %": 100 * float((lengths > 20).mean()),  # noqa: PLR2004 - the paper's
        "vocabulary": len(uses),
        "words seen 5 times or more": len(frequent),
        "running words they cover, %": 100 * frequent.sum() / max(uses.sum(), 1),
    }


def _annotations(folder: Path, split: str) -> list[Annotation]:
    """All annotations of a split, those without a word included where the layout is Spot-the-diff's."""
    path = folder / f"{split}.json"
    if not path.is_file():
        samples = load_pairs(folder, split, require_images=False) if has_split(folder, split) else []
        return [(sample.id, sentences) for sample in samples for sentences in sample.annotations]
    return [(entry.img_id, entry.sentences) for entry in read_entries(path)]


_FORM = '[{"image_id": ..., "caption": "..."}, ...], alone or as "annotations" of an object'


class _Entry(BaseModel):
    name: str = Field(
        validation_alias=AliasChoices("image_id", "img_id"), min_length=1, coerce_numbers_to_str=True
    )
    caption: str | None = None
    sentences: list[str] = []  # of one annotator
    annotator: str | int | None = None
    type: str | None = None
    kind: str = ""
    changes: list[dict[str, Any]] = []

    @model_validator(mode="after")
    def _has_a_text(self) -> Self:
        if self.caption is None and "sentences" not in self.model_fields_set:
            raise ValueError("no text: give a caption")
        return self

    @property
    def captions(self) -> list[str]:
        return self.sentences if self.caption is None else [self.caption]

    def groups(self) -> tuple[str, ...]:
        """Names of its groups, see `sample_groups`; none where it does not say."""
        types = {self.type} if self.type else {str(change.get("type")) for change in self.changes}
        types = {"more or fewer" if kind in ("more", "fewer") else kind for kind in types}
        if types:
            return (DISTRACTOR,) if types == {DISTRACTOR} else (CHANGED, *(types if len(types) == 1 else ()))
        spoken = {read(c).type for c in self.captions if ptb_tokens(c)} if self.kind else set()
        return ((DISTRACTOR,) if spoken == {"none"} else (CHANGED,)) if spoken else ()


class _Annotations(BaseModel):
    annotations: list[_Entry]


_FILE = TypeAdapter(list[_Entry] | _Annotations)
_TYPES = TypeAdapter(dict[str, list[str]])
_CLEVR = re.compile(r"(?:CLEVR_(default|semantic|nonsemantic)_)?(\d{6})(?:\.png)?(_n)?(?:\.png)?")


class Captions(NamedTuple):
    texts: dict[str, tuple[str, ...]]  # captions per id, in the order of the file; also without a word
    empty: int  # how many captions have no word
    groups: dict[str, tuple[str, ...]]  # per id the names of its groups; empty where the file does not say
    bare: tuple[str, ...]  # ids without any caption; they are not in `texts`
    # per id the captions of each annotator; empty where the file does not say who wrote what
    annotators: dict[str, tuple[tuple[str, ...], ...]]


def read_captions(path: Path, *, may_be_silent: bool = False) -> Captions:
    """Read a caption file; predictions `may_be_silent` altogether."""
    texts: dict[str, list[str]] = {}
    groups: dict[str, tuple[str, ...]] = {}
    written: dict[str, dict[str, list[str]]] = {}
    known, empty = True, 0
    content = read_json(path, _FILE)
    for number, entry in enumerate(content if isinstance(content, list) else content.annotations):
        name, captions = pair_id(entry.name), entry.captions
        texts.setdefault(name, []).extend(captions)
        empty += sum(not ptb_tokens(caption) for caption in captions)
        writer = f"entry {number}" if entry.caption is None else entry.annotator
        known = known and writer is not None
        if captions:
            written.setdefault(name, {}).setdefault(str(writer), []).extend(captions)
        groups[name] = groups.get(name) or entry.groups()
    if not may_be_silent and empty == sum(map(len, texts.values())):
        raise SampleError(f"{path} holds no caption with a word in it; expected {_FORM}")
    return Captions(
        {name: tuple(own) for name, own in texts.items() if own},
        empty,
        groups,
        tuple(name for name, own in texts.items() if not own),
        {name: tuple(map(tuple, own.values())) for name, own in written.items()} if known else {},
    )


def pair_id(name: str) -> str:
    """The id of a pair; CLEVR-Change's several names of one pair are one, see the head of this file."""
    match = _CLEVR.fullmatch(name)
    if match is None:
        return name
    image, number, distractor = match.groups()
    return f"{number}_n" if distractor or image == "nonsemantic" else number


def match_captions(references: Captions, predictions: Captions, names: tuple[Path, Path]) -> list[str]:
    known = {*references.texts, *references.bare}
    unknown = [name for name in predictions.texts if name not in known]
    missing = [name for name in references.texts if name not in predictions.texts]
    twice = [name for name, own in predictions.texts.items() if len(own) > 1]
    wrong = {
        f"{names[0]} has no reference for; take them out or name the references of this split": unknown,
        f"are in {names[0]} but not predicted; predict every pair, since a subset does not compare": missing,
        "have more than one prediction; join the sentences of a pair, or keep one": twice,
    }
    for what, ids in wrong.items():
        if ids:
            raise SampleError(f"{names[1]}: {len(ids)} ids ({_few(ids)}) {what}")
    return [predictions.texts[name][0] for name in references.texts]


def _few(ids: Sequence[str]) -> str:
    return ", ".join([*ids[:3], *(["..."] if len(ids) > 3 else [])])  # noqa: PLR2004


def read_types(path: Path, ids: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Groups by a file like CLEVR-Change's ``type_mapping.json``; an id in ``_n`` is a distractor."""
    type_of = {pair_id(name): kind for kind, own in read_json(path, _TYPES).items() for name in own}
    groups: dict[str, tuple[str, ...]] = {}
    for name in ids:
        distractor = (DISTRACTOR,) if name.endswith("_n") else ()
        groups[name] = (CHANGED, type_of[name]) if name in type_of else distractor
    if not any(CHANGED in own for own in groups.values()):
        raise SampleError(f"{path} names none of the scored ids; name the types of this set")
    return groups


def score_files(
    references: Path, predictions: Path, *, training: Path | None = None, types: Path | None = None
) -> dict[str, Any]:
    """Score predicted captions against references, trivial rows of the `training` captions beside them.

    Returns plain values: ``rows``, the predictions first, then the trivial rows and, where annotators are
    known, the human rows, with their text scores and the ``sentence`` of a constant; ``groups``, ``truth``,
    ``length_ratio`` and ``distinct`` of the predictions; ``notes`` for the user.
    """
    gold, answers = read_captions(references), read_captions(predictions, may_be_silent=True)
    predicted, texts = match_captions(gold, answers, (references, predictions)), list(gold.texts.values())
    notes = _notes(references, gold)
    learnt = read_captions(training).texts.values() if training else ()
    worded = [tuple(text for text in own if ptb_tokens(text)) for own in learnt]
    systems = {predictions.stem: predicted, **trivial_captions(list(filter(None, worded)), len(texts))}
    further = java_scores(list(systems.values()), texts)
    if "meteor" not in further[0]:
        notes.append("METEOR is left out: it needs Java, for example Debian's openjdk-17-jre-headless")
    rows: dict[str, dict[str, Any]] = {}
    for n, (name, said) in enumerate(systems.items()):
        constant = said[0] if n and len(set(said)) == 1 else ""
        rows[name] = plain(text_scores(said, texts)) | {"sentence": constant} | further[n]
    rows |= plain(human_scores([own for own in gold.annotators.values() if len(own) > 1]))
    groups = read_types(types, gold.texts) if types else gold.groups
    found = evaluate_texts(predicted, texts, [groups[name] for name in gold.texts]).figures
    own = {name: found[name] for name in ("groups", "truth", "length_ratio", "distinct")}
    return {"rows": rows, **own, "notes": notes}


def human_scores(annotated: Sequence[Sequence[Sequence[str]]]) -> dict[str, Scores]:
    """People: every annotator of a pair in turn, judged by the pair's others.

    Of whole annotations this is Table 2 of Jhamtani and Berg-Kirkpatrick (2018); a first sentence against
    all sentences of the others compares with a prediction of one sentence.
    """
    if not annotated:
        return {}
    turns = [(own[k], [*own[:k], *own[k + 1 :]]) for own in annotated for k in range(len(own))]
    joined = [(" ".join(one), [" ".join(each) for each in others]) for one, others in turns]
    apart = [(one[0], [sentence for each in others for sentence in each]) for one, others in turns]
    return {
        name: text_scores(*map(list, zip(*own, strict=True))) | {"pairs": len(annotated)}
        for name, own in (("human, by the others", joined), ("human, first sentence", apart))
    }


def _notes(path: Path, gold: Captions) -> list[str]:
    notes = []
    if gold.empty:
        notes.append(f"{path}: {gold.empty} references have no word; they count, as in the field's scorer")
    if gold.bare:
        notes.append(
            f"{path}: {len(gold.bare)} pairs have no reference and are not scored ({_few(gold.bare)})"
        )
    if not gold.annotators and any(len(own) > 1 for own in gold.texts.values()):
        notes.append(
            f"{path} does not say who wrote which caption, so there is no human row; give an entry for each "
            'annotator ({"img_id": ..., "sentences": [...]}), or name each caption\'s "annotator"'
        )
    return notes
