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

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import nctdtr, stdtrit

from train.papers.batches import Split
from train.papers.results import Result, chosen_pairs, result_ciders
from train.papers.suites import Claim, Suite

LEAST_SEEDS = 3
"""Of fewer the spread is not known well enough for the test to err as seldom as it says."""

LEVEL, POWER = 0.95, 0.8
GAIN = 0.05
"""The gain that is looked for where the paper prints no figures, as a share of the worse one."""

_MOST = 1000


@dataclass(frozen=True, slots=True)
class PairedDifference:
    """A mean over seeds and pairs, with what its error is made of."""

    mean: float  # of all
    seeds: int  # seeds, pairs: how many; 0 pairs of a figure of each seed alone
    pairs: int
    between_seeds: float  # variance of the seeds' means
    between_pairs: float  # variance of the pairs' means

    def interval(self) -> tuple[float, float]:
        """The 95 % interval of the mean; of one seed over pairs alone, without them infinite."""
        if self.seeds < 2 and self.pairs < 2:  # noqa: PLR2004 - no spread
            return -math.inf, math.inf
        most = self._quantile(self.seeds) * self._error(self.seeds)
        return self.mean - most, self.mean + most

    def power(self, gain: float, seeds: int | None = None) -> float:
        """Probability that a true gain, above 0, is shown with so many seeds; None as many as there are."""
        seeds = seeds or self.seeds
        if seeds < 2:  # noqa: PLR2004
            return 0.0
        error = self._error(seeds)
        if gain > 30 * error:
            return 1.0
        result = 1 - float(nctdtr(self._freedom(seeds), gain / error, self._quantile(seeds)))
        return 0.0 if math.isnan(result) else result

    def needed_seeds(self, gain: float) -> int | None:
        """About how many seeds show a true gain with a power of .8; None where these pairs are too few."""
        few, many = LEAST_SEEDS, _MOST
        if self.seeds < 2 or self.power(gain, many) < POWER:  # noqa: PLR2004
            return None
        while few < many:
            middle = (few + many) // 2
            few, many = (few, middle) if self.power(gain, middle) >= POWER else (middle + 1, many)
        return few

    def _parts(self, seeds: int) -> tuple[float, float]:
        return self.between_seeds / seeds, self.between_pairs / max(self.pairs, 1)

    def _error(self, seeds: int) -> float:
        return math.sqrt(sum(self._parts(seeds)))

    def _freedom(self, seeds: int) -> float:
        of_seeds, of_pairs = self._parts(seeds)
        below = of_seeds**2 / max(seeds - 1, 1) + of_pairs**2 / max(self.pairs - 1, 1)
        return (of_seeds + of_pairs) ** 2 / below if below else float(max(seeds - 1, 1))

    def _quantile(self, seeds: int) -> float:
        return float(stdtrit(self._freedom(seeds), (1 + LEVEL) / 2))


def difference(values: NDArray[np.float64]) -> PairedDifference:
    """The mean of values, float64 ``(seeds, pairs)``, or ``(seeds,)`` of a figure of each seed alone."""
    of_seeds = values.mean(axis=1) if values.ndim > 1 else values
    of_pairs = values.mean(axis=0) if values.ndim > 1 else values[:0]
    return PairedDifference(
        float(of_seeds.mean()),
        len(of_seeds),
        len(of_pairs),
        float(of_seeds.var(ddof=1)) if len(of_seeds) > 1 else 0.0,
        float(of_pairs.var(ddof=1)) if len(of_pairs) > 1 else 0.0,
    )


@dataclass(frozen=True, slots=True)
class Found:
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
        result = self.difference
        if self.unlearnt:
            return f"no verdict: {self.unlearnt}"
        low, high = result.interval()
        if low > 0:
            return "shown"
        if high < 0:
            return "reversed"
        if self.power >= POWER:
            return "not shown"
        needed = result.needed_seeds(self.gain)
        more = f"about {needed} seeds" if needed else "more pairs"
        return f"cannot be told (power {self.power:.2f}; needs {more})"


def examine(
    suite: Suite, claim: Claim, results: Sequence[Result], constant: Result | None, measured: Split
) -> Found | None:
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
    return Found(claim, one[0], two[0], difference(values), gain, printed, reason)


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
    if pairs is None:
        pairs = result_ciders(results, measured, value)
    if pairs is None and not any(r.value(value) is None for r in results):
        pairs = np.array([r.value(value) for r in results], np.float64)
    if pairs is None:
        return None
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
        same = tokens.size and tokens.any() and (tokens == tokens[0]).all()
        return ratio_values(nats, tokens) if same else None
    if not all(value in r.ratios for r in results):
        return None
    parts = np.array([r.ratios[value] for r in results], np.float64)
    return ratio_values(parts[..., 0], parts[..., 1]) if parts[..., 1].any(axis=1).all() else None


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
    for value in dict.fromkeys(wanted):
        better = _printed_figure(suite, claim.better, value)
        worse = _printed_figure(suite, claim.printed or claim.worse, claim.worse_value or value)
        if better is not None and worse:
            gain = (worse - better if claim.less else better - worse) / worse
            if gain > 0:
                return gain
    return None


def _printed_figure(suite: Suite, row: str, value: str) -> float | None:
    results = (table.printed(row, value) for table in suite.tables)
    return next((figure for figure in results if figure is not None), None)


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
