"""Results of `narrated-train compare`: of one system and one seed, and of systems that look at no picture."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter

from pipeline.disk import replace_file
from train.checkpoints import TrainError, writing
from train.papers.batches import Split
from train.papers.evaluation import evaluate_texts, joined_annotations
from train.papers.metrics.scores import (
    CHANGED,
    DISTRACTOR,
    java_scores,
    pair_ciders,
    sample_groups,
    trivial_captions,
)
from train.samples import Sample

HUMAN = "one annotator, by others"


@dataclass(frozen=True, slots=True)
class Result:
    mark: str  # hash over what decides it; empty of a row that is not trained
    row: str  # key of the system, or name of a row that looks at no picture
    seed: int  # of the run
    evaluation: dict[str, Any]  # figures of `Evaluation`; METEOR and SPICE where they ran
    single: tuple[str, ...] = ()  # the texts about every pair: one sentence, and all of them
    multi: tuple[str, ...] = ()
    # nats, tokens: -log P of the sentences about every pair, summed, and their tokens, see
    # `train.papers.evaluation.likelihood`; empty of one that gives no probabilities
    nats: tuple[float, ...] = ()
    tokens: tuple[int, ...] = ()
    # of figures that are no mean over pairs every pair's numerator and denominator, by their place
    ratios: Mapping[str, Sequence[Sequence[float]]] = field(default_factory=dict)
    curves: tuple[dict[str, Any], ...] = ()  # curves, pretraining: points of both trainings
    pretraining: tuple[dict[str, Any], ...] = ()
    best_epoch: int = 0  # the epoch that was measured

    def value(self, path: str) -> float | None:
        """A figure by its place in `evaluation`, like ``single.bleu.3`` or ``groups.changed.cider``."""
        result: Any = self.evaluation
        for part in path.split("."):
            if isinstance(result, Mapping):
                result = result.get(part)
            elif isinstance(result, Sequence) and part.isdigit() and int(part) < len(result):
                result = result[int(part)]
            else:
                return None
        return float(result) if isinstance(result, int | float) else None


def write_result(folder: Path, result: Result) -> None:
    with writing(folder):
        replace_file(folder / "result.json", json.dumps(asdict(result)).encode(), durable=True)


def read_result(folder: Path, mark: str) -> Result | None:
    """A finished run's result; None where it is not finished, or of something else."""
    path = folder / "result.json"
    if not path.is_file():
        return None
    try:
        result = TypeAdapter(Result).validate_json(path.read_bytes())
    except (OSError, ValueError) as error:
        raise TrainError(f"{path} is damaged ({error}); delete {folder}, it is trained again") from error
    return result if result.mark == mark else None


def trivial_results(samples: Sequence[Sample], training: Sequence[Sequence[str]]) -> list[Result]:
    """Rows that look at no picture, and one annotator judged by the others, where there are several."""
    captions = trivial_captions(training, len(samples))
    results = [_evaluate_untrained(name, texts, texts, samples) for name, texts in captions.items()]
    if several := [sample for sample in samples if sample.further]:
        others = [replace(s, sentences=s.further[0], further=s.further[1:]) for s in several]
        first, whole = [s.sentences[0] for s in several], [" ".join(s.sentences) for s in several]
        results.append(_evaluate_untrained(HUMAN, first, whole, others))
    return results


def trivial_rows(samples: Sequence[Sample], training: Sequence[Sequence[str]]) -> dict[str, dict[str, Any]]:
    """The scores in the single setting of `trivial_results` by row, and the sentence of a constant one."""
    return {
        r.row: {**r.evaluation["single"], "sentence": r.single[0] if r.evaluation["distinct"] == 1 else ""}
        for r in trivial_results(samples, training)
    }


def _evaluate_untrained(
    name: str, first: Sequence[str], whole: Sequence[str], samples: Sequence[Sample]
) -> Result:
    gold = [tuple(s for annotation in sample.annotations for s in annotation) for sample in samples]
    groups = [sample_groups(sample) for sample in samples]
    found = evaluate_texts(first, gold, groups, whole=whole, annotations=joined_annotations(samples))
    return Result("", name, 0, *found)


def with_meteor(results: Sequence[Result], measured: Split) -> list[Result]:
    """Add METEOR, and SPICE where its jars are, to results about all pairs; as they are without Java."""
    added = [json.loads(json.dumps(result.evaluation)) for result in results]
    own = [k for k, result in enumerate(results) if result.row != HUMAN]
    settings = {"single": "", "multi": "", "groups.changed": CHANGED, "groups.distractor": DISTRACTOR}
    for place, group in settings.items():
        chosen, gold = chosen_pairs(measured, group, joined=place == "multi")
        if not chosen:
            continue
        texts = [[_texts(results[r], place)[k] for k in chosen] for r in own]
        for r, scores in zip(own, java_scores(texts, gold), strict=True):
            at = added[r]
            for part in place.split("."):
                at = at[part]
            at |= scores
    return [replace(r, evaluation=e) for r, e in zip(results, added, strict=True)]


def result_ciders(results: Sequence[Result], measured: Split, path: str) -> NDArray[np.float64] | None:
    """CIDEr-D of every pair, float64 ``(seeds, pairs)``; None of another figure."""
    head, _, figure = path.rpartition(".")
    if figure != "cider" or not results or any(r.row == HUMAN for r in results):
        return None
    group = head.partition(".")[2]
    chosen, gold = chosen_pairs(measured, group, joined=head.startswith("multi"))
    if not chosen:
        return None
    return np.array([pair_ciders([_texts(r, head)[k] for k in chosen], gold) for r in results])


def chosen_pairs(measured: Split, group: str, *, joined: bool) -> tuple[list[int], list[Sequence[str]]]:
    """Positions of a group's pairs ("" all), and their references: sentences, or annotations in one text."""
    chosen = [k for k, s in enumerate(measured.samples) if not group or group in sample_groups(s)]
    references = joined_annotations(measured.samples) if joined else measured.sentences
    return chosen, [references[k] for k in chosen]


def _texts(result: Result, place: str) -> Sequence[str]:
    return result.multi if place.startswith("multi") else result.single
