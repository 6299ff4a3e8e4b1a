"""Results of `narrated-train compare` on disk, and what is made of those of several seeds."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.disk import replace_file
from train.learning.batches import Split
from train.learning.loop import TrainError
from train.metrics.authority import MissingScorersError, meteors, spice
from train.metrics.claims import told_truth
from train.metrics.groups import CHANGED, DISTRACTOR, group_scores, sample_groups
from train.metrics.overlap import References
from train.metrics.scores import CONSTANT, best_constant, length_ratio, random_captions, text_scores
from train.metrics.tokens import ptb_tokens
from train.samples import Sample

HUMAN = "one annotator, by the others"


@dataclass(frozen=True, slots=True)
class Result:
    """What came of one row and one seed, or of a row that looks at no picture.

    Attributes:
        mark: hash over what decides it; empty of a row that is not trained.
        row, label: of the suite.
        seed: of the run.
        evaluation: `train.learning.evaluation.Evaluation.plain`; METEOR and SPICE are added where they ran.
        single, multi: what was said about every pair, one sentence and all of them.
        nats, tokens: -log P of the sentences about every pair and their tokens, see
            `train.learning.evaluation.Likelihood`; empty of one that gives no probabilities.
        curves, pretraining: points of both trainings.
        best_epoch: the epoch that was measured.
        parameters: numbers that were trained.
        peak_mib: most memory in use, MiB, the samples' features included.
        samples_per_s: annotations learnt from in a second.
        seconds_per_epoch: validation included.
    """

    mark: str
    row: str
    label: str
    seed: int
    evaluation: dict[str, Any]
    single: tuple[str, ...] = ()
    multi: tuple[str, ...] = ()
    nats: tuple[float, ...] = ()
    tokens: tuple[int, ...] = ()
    curves: tuple[dict[str, Any], ...] = ()
    pretraining: tuple[dict[str, Any], ...] = ()
    best_epoch: int = 0
    parameters: int = 0
    peak_mib: float | None = None
    samples_per_s: float | None = None
    seconds_per_epoch: float | None = None

    def value(self, path: str) -> float | None:
        """A figure by its place, like ``single.bleu.3``, ``groups.changed.cider`` or ``parameters``."""
        found: Any = {**self.evaluation, **{k: getattr(self, k) for k in _COST}}
        for part in path.split("."):
            if isinstance(found, Mapping):
                found = found.get(part)
            elif isinstance(found, Sequence) and part.isdigit() and int(part) < len(found):
                found = found[int(part)]
            else:
                return None
        return float(found) if isinstance(found, int | float) else None


_LISTED = ("single", "multi", "nats", "tokens", "curves", "pretraining")
_COST = ("parameters", "peak_mib", "samples_per_s", "seconds_per_epoch", "best_epoch")


def write_result(folder: Path, result: Result) -> None:
    """Write a result beside its checkpoint, at once or not at all.

    Raises:
        TrainError: it cannot be written.
    """
    path = folder / "result.json"
    try:
        replace_file(path, json.dumps(asdict(result), indent=1).encode(), durable=True)
    except OSError as error:
        raise TrainError(f"{path} cannot be written: {error.strerror}; choose another --out") from error


def read_result(folder: Path, mark: str | None) -> Result | None:
    """A finished run's result; None where it is not finished, or, given a mark, of something else.

    Raises:
        TrainError: the file is damaged.
    """
    path = folder / "result.json"
    if not path.is_file():
        return None
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if mark is not None and content["mark"] != mark:
            return None
        listed = {k: tuple(content[k]) for k in _LISTED}
        return Result(**{**content, **listed})
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise TrainError(f"{path} is damaged ({error!r}); delete {folder}, it is trained again") from error


def trivial_results(measured: Split, training: Sequence[Sequence[str]]) -> list[Result]:
    """Rows that look at no picture, and one annotator judged by the others, where there are several."""
    samples, gold = measured.samples, measured.sentences
    joined = [[" ".join(annotation) for annotation in sample.annotations] for sample in samples]
    rows = {"constant": [CONSTANT] * len(gold)}
    if any(training):
        rows["best constant of train"] = [best_constant(training)] * len(gold)
        rows["random training caption"] = random_captions(training, len(gold))
    results = [
        untrained(name, said, said, gold=gold, joined=joined, measured=measured)
        for name, said in rows.items()
    ]
    several = [sample for sample in samples if sample.further]
    if several:
        chosen = replace(measured, samples=tuple(several))
        others = [_others(sample) for sample in several]
        rest = [[" ".join(annotation) for annotation in sample.annotations[1:]] for sample in several]
        first = [sample.annotations[0] for sample in several]
        said, whole = [annotation[0] for annotation in first], [" ".join(annotation) for annotation in first]
        results.append(untrained(HUMAN, said, whole, gold=others, joined=rest, measured=chosen))
    return results


def _others(sample: Sample) -> tuple[str, ...]:
    """The sentences of all annotators but the first."""
    return tuple(sentence for annotation in sample.annotations[1:] for sentence in annotation)


def untrained(
    name: str,
    said: Sequence[str],
    whole: Sequence[str],
    *,
    gold: Sequence[Sequence[str]],
    joined: Sequence[Sequence[str]],
    measured: Split,
) -> Result:
    """The result of a row that was not trained.

    Args:
        name: its key and label.
        said: one sentence about every pair.
        whole: all sentences about every pair, in one text.
        gold: what people said of it.
        joined: the same, each annotator in one text.
        measured: the split.
    """
    groups = group_scores([sample_groups(s) for s in measured.samples], said, gold)
    evaluation = {
        "single": text_scores(said, gold).plain(),
        "multi": text_scores(whole, joined).plain(),
        "length_ratio": round(length_ratio(whole, joined), 4),
        "truth": told_truth(said, gold).plain(),
        "groups": {name: scores.plain() for name, scores in groups},
        "sentence": said[0] if len(set(said)) == 1 else "",
    }
    return Result("", name, name, 0, evaluation, tuple(said), tuple(whole))


def with_authority(
    results: Sequence[Result], measured: Split, spice_jars: Path | None, *, with_meteor: bool = True
) -> tuple[list[Result], str]:
    """Add METEOR, and SPICE where its jars are given, to results that said something about every pair.

    Args:
        results: of rows and trivial rows.
        measured: the split.
        spice_jars: folder of its jars; None leaves SPICE out.
        with_meteor: whether METEOR is wanted.

    Returns:
        The results, and why METEOR is missing, if it is.

    Raises:
        MissingScorersError: SPICE is wanted and cannot run.
    """
    groups = [sample_groups(sample) for sample in measured.samples]
    every = list(range(len(measured.samples)))
    settings = {"single": every}
    settings |= {f"groups.{name}": [k for k in every if name in groups[k]] for name in (CHANGED, DISTRACTOR)}
    joined = [[" ".join(annotation) for annotation in sample.annotations] for sample in measured.samples]
    own = [k for k, result in enumerate(results) if result.row != HUMAN]
    added = [json.loads(json.dumps(result.evaluation)) for result in results]
    missing = "" if with_meteor else "--no-meteor"
    for name, chosen in (*settings.items(), ("multi", every)):
        if not chosen:
            continue
        gold = [joined[k] if name == "multi" else measured.sentences[k] for k in chosen]
        said = [
            [(results[r].multi if name == "multi" else results[r].single)[k] for k in chosen] for r in own
        ]
        if not missing:
            missing = _add_meteor([_place(added[r], name) for r in own], said, gold)
        if spice_jars is not None and name != "multi":
            for r, texts in zip(own, said, strict=True):
                _place(added[r], name)["spice"] = round(spice(texts, gold, spice_jars), 4)
    for result, evaluation in zip(results, added, strict=True):
        if result.row == HUMAN and not missing:
            gold = [_others(sample) for sample in measured.samples if sample.further]
            missing = _add_meteor([evaluation["single"]], [result.single], gold)
    return [replace(r, evaluation=e) for r, e in zip(results, added, strict=True)], missing


def _add_meteor(
    scores: Sequence[dict[str, Any]], said: Sequence[Sequence[str]], gold: Sequence[Sequence[str]]
) -> str:
    """Put METEOR into the scores of every system; why it cannot, if so."""
    try:
        found = meteors(said, gold)
    except MissingScorersError as error:
        return str(error)
    for own, each in zip(scores, found, strict=True):
        own["meteor"] = round(each, 4)
    return ""


def _place(evaluation: dict[str, Any], name: str) -> dict[str, Any]:
    place: dict[str, Any] = evaluation
    for part in name.split("."):
        place = place[part]
    return place


@dataclass(frozen=True, slots=True)
class Spread:
    """A figure over seeds: mean, standard deviation (None of one seed) and how many seeds had one."""

    mean: float
    deviation: float | None
    seeds: int


def spread(results: Sequence[Result], path: str) -> Spread | None:
    """A figure over the results of one row; None where none has it."""
    values = [v for r in results if (v := r.value(path)) is not None and math.isfinite(v)]
    if not values:
        return None
    deviation = float(np.std(values, ddof=1)) if len(values) > 1 else None
    return Spread(float(np.mean(values)), deviation, len(values))


def pair_ciders(
    results: Sequence[Result], measured: Split, path: str = "single.cider"
) -> NDArray[np.float64] | None:
    """CIDEr-D of every pair, float64 ``(seeds, pairs)``; None of another figure.

    Args:
        results: of one row.
        measured: the split.
        path: single.cider, multi.cider or groups.<name>.cider.
    """
    head, _, figure = path.rpartition(".")
    if figure != "cider" or not results or any(r.row == HUMAN for r in results):
        return None
    chosen, references = _references(measured, head)
    if references is None:
        return None
    said = [[(r.multi if head == "multi" else r.single)[k] for k in chosen] for r in results]
    return np.array([references.score([ptb_tokens(t) for t in texts]).pair_cider for texts in said])


@lru_cache(maxsize=4)
def _references(measured: Split, head: str) -> tuple[list[int], References | None]:
    """Which pairs a figure is of, and what people said of them; None where there is none."""
    group = head.removeprefix("groups.")
    chosen = [k for k, s in enumerate(measured.samples) if group == head or group in sample_groups(s)]
    every = measured.sentences
    joined = (
        [[" ".join(one) for one in s.annotations] for s in measured.samples] if head == "multi" else every
    )
    gold = [[ptb_tokens(text) for text in joined[k]] for k in chosen]
    return chosen, References(gold) if gold else None
