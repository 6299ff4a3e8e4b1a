"""Tests of a paper's claimed ordering: a paired comparison over seeds and pairs, and its power.

Both systems are trained with the same seeds and measured on the same pairs, so that of every seed s and pair
p there is one difference d_sp. Both are drawn from more that could have been taken. The error of the mean is

    V = var_s(mean_p d_sp) / S + var_p(mean_s d_sp) / P

which is a little too large (what neither explains counts twice), with Satterthwaite's degrees of freedom
(1946): few seeds count as few, however many pairs there are. The interval is the mean -+ t V^.5.

A ratio r = sum_p a_p / sum_p b_p (perplexity, polarity, alignment) is no mean over pairs: d_sp is then what a
pair moves it by, around the ratio itself, r + (a_p - r b_p) / mean b.

The power is that of the same test at the measured spread, should the true gain be the paper's own.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter
from scipy.special import nctdtr, stdtrit

from pipeline.disk import replace_file
from train.checkpoints import TrainError, writing
from train.papers.batches import Split
from train.papers.evaluation import evaluate_texts, joined_annotations
from train.papers.scores import (
    CHANGED,
    DISTRACTOR,
    java_scores,
    pair_ciders,
    sample_groups,
    trivial_captions,
)
from train.papers.suites import Claim, Suite
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


LEVEL, POWER = 0.95, 0.8
GAIN = 0.05  # the gain that is looked for where the paper prints no figures, as a share of the worse one


@dataclass(frozen=True, slots=True)
class PairedDifference:
    mean: float  # of all
    seeds: int  # seeds, pairs: how many; 0 pairs of a figure of each seed alone
    pairs: int
    between_seeds: float  # variance of the seeds' means
    between_pairs: float  # variance of the pairs' means

    def interval(self) -> tuple[float, float]:
        """The 95 % interval of the mean; of one seed over pairs alone, without them infinite."""
        if self.seeds < 2 and self.pairs < 2:  # noqa: PLR2004 - no spread
            return -math.inf, math.inf
        error, _, quantile = self._error()
        return self.mean - quantile * error, self.mean + quantile * error

    def power(self, gain: float) -> float:
        error, freedom, quantile = self._error()
        if self.seeds < 2 or gain > 30 * error:  # noqa: PLR2004
            return float(self.seeds > 1)
        result = 1 - float(nctdtr(freedom, gain / error, quantile))
        return 0.0 if math.isnan(result) else result

    def _error(self) -> tuple[float, float, float]:
        """Standard error of the mean, its degrees of freedom, and the quantile of t."""
        of_seeds, of_pairs = self.between_seeds / self.seeds, self.between_pairs / max(self.pairs, 1)
        below = of_seeds**2 / max(self.seeds - 1, 1) + of_pairs**2 / max(self.pairs - 1, 1)
        freedom = (of_seeds + of_pairs) ** 2 / below if below else float(max(self.seeds - 1, 1))
        return math.sqrt(of_seeds + of_pairs), freedom, float(stdtrit(freedom, (1 + LEVEL) / 2))


def difference(values: NDArray[np.float64]) -> PairedDifference:
    """The mean of values, float64 ``(seeds, pairs)``, or ``(seeds,)`` of a figure of each seed alone."""
    of_seeds = values.mean(axis=1) if values.ndim > 1 else values
    of_pairs = values.mean(axis=0) if values.ndim > 1 else values[:0]
    spreads = [float(each.var(ddof=1)) if len(each) > 1 else 0.0 for each in (of_seeds, of_pairs)]
    return PairedDifference(float(of_seeds.mean()), len(of_seeds), len(of_pairs), *spreads)


@dataclass(frozen=True, slots=True)
class ExaminedClaim:
    claim: Claim  # what the paper claims
    better: float  # better, worse: our means
    worse: float
    difference: PairedDifference  # of better and worse, positive as claimed; of perplexities the logarithms'
    gain: float  # the true gain that is looked for, in the difference's units
    printed: float | None  # the paper's gain as a share of the worse figure; None where it prints none
    # a reason not to compare at all: a system that does not beat the best constant, or another number of
    # seeds than was fixed; empty where there is none
    unlearnt: str

    @property
    def power(self) -> float:
        return self.difference.power(self.gain)

    @property
    def verdict(self) -> str:
        """In words: shown, reversed, not shown, cannot be told, or no verdict."""
        if self.unlearnt:
            return f"no verdict: {self.unlearnt}"
        low, high = self.difference.interval()
        if low > 0 or high < 0:
            return "shown" if low > 0 else "reversed"
        return "not shown" if self.power >= POWER else "cannot be told"


def examine(
    suite: Suite, claim: Claim, results: Sequence[Result], constant: Result | None, measured: Split
) -> ExaminedClaim | None:
    """Compare the two rows of a claim; None where rows or figures are missing."""
    better, worse = ({r.seed: r for r in results if r.row == key} for key in (claim.better, claim.worse))
    seeds = sorted(better.keys() & worse.keys())
    ours, theirs = [better[s] for s in seeds], [worse[s] for s in seeds]
    one = pair_values(ours, claim.value, measured)
    two = pair_values(theirs, claim.worse_value or claim.value, measured)
    if one is None or two is None or one[1].shape != two[1].shape:
        return None
    values = two[1] - one[1] if claim.less else one[1] - two[1]
    printed = printed_gain(suite, claim)
    share = GAIN if printed is None else printed
    gain = -math.log(max(1 - share, 1e-9)) if claim.value.endswith("perplexity") else share * abs(two[0])
    reason = _unlearnt(claim, ours, theirs, constant)
    if len(seeds) != suite.seeds:
        reason = f"the suite has {suite.seeds} seeds, here are {len(seeds)}"
    return ExaminedClaim(claim, one[0], two[0], difference(values), gain, printed, reason)


def pair_values(
    results: Sequence[Result], value: str, measured: Split
) -> tuple[float, NDArray[np.float64]] | None:
    """A row's figure, mean over seeds, and its value of every seed and pair, ``(seeds, pairs)``.

    Of perplexities the values are logarithms. A figure that knows no pairs has one value a seed; None where
    a result lacks it.
    """
    if not results:
        return None
    pairs = _ratios(results, value, measured)
    pairs = result_ciders(results, measured, value) if pairs is None else pairs
    if pairs is None:
        known = [r.value(value) for r in results]
        if None in known:
            return None
        pairs = np.array(known, np.float64)
    seeds = pairs.reshape(len(results), -1).mean(axis=1)
    return float((np.exp(seeds) if value.endswith("perplexity") else seeds).mean()), pairs


def _ratios(results: Sequence[Result], value: str, measured: Split) -> NDArray[np.float64] | None:
    """Values of a figure that is a ratio of sums; None of another one, or where nothing is counted."""
    head, _, figure = value.rpartition(".")
    if figure == "perplexity":
        if not all(r.tokens for r in results):
            return None
        chosen, _ = chosen_pairs(measured, head.partition(".")[2], joined=False)
        tokens = np.array([r.tokens for r in results], np.float64)[:, chosen]
        nats = np.array([r.nats for r in results], np.float64)[:, chosen]
        # Perplexities of different sentences do not compare.
        return ratio_values(nats, tokens) if tokens.any() and (tokens == tokens[0]).all() else None
    if not all(value in r.ratios for r in results):
        return None
    above, below = np.moveaxis(np.array([r.ratios[value] for r in results], np.float64), -1, 0)
    return ratio_values(above, below) if below.any(axis=1).all() else None


def ratio_values(above: NDArray[np.float64], below: NDArray[np.float64]) -> NDArray[np.float64]:
    """Every pair's value from numerators and denominators ``(seeds, pairs)``, see the head of this file."""
    rate = above.sum(axis=1, keepdims=True) / below.sum(axis=1, keepdims=True)
    moved: NDArray[np.float64] = rate + (above - rate * below) / below.mean(axis=1, keepdims=True)
    return moved


def printed_gain(suite: Suite, claim: Claim) -> float | None:
    """The gain that the paper prints, as a share of the worse figure, above 0; None where it prints none.

    Of a figure of some pairs only that it does not print, that of all.
    """
    setting = "multi" if claim.value.startswith("multi") else "single"
    wanted = (claim.value, "perplexity" if claim.value.endswith("perplexity") else f"{setting}.cider")
    for value in wanted:
        better = suite.printed(claim.better, value)
        worse = suite.printed(claim.printed or claim.worse, claim.worse_value or value)
        if better is not None and worse and (gain := (better / worse - 1) * (-1 if claim.less else 1)) > 0:
            return gain
    return None


def _unlearnt(claim: Claim, ours: Sequence[Result], theirs: Sequence[Result], constant: Result | None) -> str:
    """A system of the claim that does not beat the best constant, on the figure's pairs."""
    if constant is None:
        return ""
    head = claim.value.rpartition(".")[0]
    place = f"{head}.cider" if head.startswith("groups") else "single.cider"
    bar = constant.value(place) or 0.0
    for rows in (ours, theirs):
        mean = float(np.mean([r.value(place) or 0.0 for r in rows]))
        if mean <= bar:
            return f"{rows[0].row} ({mean:.2f}) does not beat the best constant ({bar:.2f})"
    return ""
