"""Whether an ordering that a paper claims is here: a paired comparison over seeds and pairs, and its power.

Both systems are trained with the same seeds and measured on the same pairs, so that of every seed s and pair
p there is one difference d_sp. Both are drawn from more that could have been taken. The error of the mean is

    V = var_s(mean_p d_sp) / S + var_p(mean_s d_sp) / P

which is a little too large (what neither explains counts twice), with Satterthwaite's degrees of freedom
(1946): few seeds count as few, however many pairs there are. The interval is the mean -+ t V^.5. A figure
that is no mean over pairs is compared over seeds alone. A bootstrap over three seeds excludes a true zero in
one of six cases, this test in one of twenty at most.

The power is that of the same test at the measured spread, should the true gain be the paper's own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from train.learning.batches import Split
from train.papers.results import Result, pair_ciders
from train.papers.suites import Claim, Suite

LEAST_SEEDS = 3
"""Of fewer the spread is not known well enough for the test to err as seldom as it says."""

LEVEL, POWER = 0.95, 0.8
GAIN = 0.05
"""What is looked for where the paper prints no figures, as a share of the worse one."""

_MOST = 1000
_DETECTABLE = 2.8
"""Standard errors that a gain must be for a power of .8, of many seeds."""


@dataclass(frozen=True, slots=True)
class PairedDifference:
    """A mean over seeds and pairs, with what its error is made of.

    Attributes:
        mean: of all.
        seeds, pairs: how many; 0 pairs of a figure of each seed alone.
        between_seeds: variance of the seeds' means.
        between_pairs: variance of the pairs' means.
    """

    mean: float
    seeds: int
    pairs: int
    between_seeds: float
    between_pairs: float

    def interval(self) -> tuple[float, float]:
        """The 95 % interval of the mean; of one seed over pairs alone, without them infinite."""
        if self.seeds < 2 and self.pairs < 2:  # noqa: PLR2004 - no spread
            return -math.inf, math.inf
        most = self._quantile(self.seeds) * self._error(self.seeds)
        return self.mean - most, self.mean + most

    def power(self, gain: float, seeds: int | None = None) -> float:
        """How probably a true gain is shown.

        Args:
            gain: above 0.
            seeds: of the comparison, at least 2; None as many as there are.
        """
        from scipy.special import nctdtr  # noqa: PLC0415 - of this command only

        seeds = seeds or self.seeds
        if seeds < 2:  # noqa: PLR2004
            return 0.0
        error = self._error(seeds)
        if gain > 30 * error:
            return 1.0
        found = 1 - float(nctdtr(self._freedom(seeds), gain / error, self._quantile(seeds)))
        return 0.0 if math.isnan(found) else found

    def needed(self, gain: float) -> tuple[int, int]:
        """About how many seeds and pairs show a true gain with a power of .8; 0 pairs where these suffice."""
        few, many = LEAST_SEEDS, _MOST
        if self.seeds < 2:  # noqa: PLR2004
            return LEAST_SEEDS, 0
        if self.power(gain, many) < POWER:
            half = (gain / _DETECTABLE) ** 2 / 2
            return max(math.ceil(self.between_seeds / half), LEAST_SEEDS), math.ceil(
                self.between_pairs / half
            )
        while few < many:
            middle = (few + many) // 2
            few, many = (few, middle) if self.power(gain, middle) >= POWER else (middle + 1, many)
        return few, 0

    def _parts(self, seeds: int) -> tuple[float, float]:
        return self.between_seeds / seeds, self.between_pairs / max(self.pairs, 1)

    def _error(self, seeds: int) -> float:
        return math.sqrt(sum(self._parts(seeds)))

    def _freedom(self, seeds: int) -> float:
        of_seeds, of_pairs = self._parts(seeds)
        below = of_seeds**2 / max(seeds - 1, 1) + of_pairs**2 / max(self.pairs - 1, 1)
        return (of_seeds + of_pairs) ** 2 / below if below else float(max(seeds - 1, 1))

    def _quantile(self, seeds: int) -> float:
        from scipy.special import stdtrit  # noqa: PLC0415

        return float(stdtrit(self._freedom(seeds), (1 + LEVEL) / 2))


def difference(values: NDArray[np.float64]) -> PairedDifference:
    """What is known of a mean.

    Args:
        values: float64 ``(seeds, pairs)``, or ``(seeds,)`` of a figure that is no mean over pairs.
    """
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
    """What became of a claimed ordering.

    Attributes:
        claim: what the paper claims.
        better, worse: our means.
        difference: of better and worse, positive as claimed; of perplexities the logarithms'.
        gain: the true gain that is looked for, in the difference's units.
        printed: the paper's gain as a share of the worse figure; None where it prints none.
    """

    claim: Claim
    better: float
    worse: float
    difference: PairedDifference
    gain: float
    printed: float | None

    @property
    def power(self) -> float:
        """How probably the gain would be shown, were it true."""
        return self.difference.power(self.gain)

    @property
    def verdict(self) -> str:
        """In words: shown, not shown, or cannot be told."""
        found = self.difference
        if found.seeds >= LEAST_SEEDS:
            low, high = found.interval()
            if low > 0:
                return "shown"
            if high < 0 or self.power >= POWER:
                return "not shown"
        seeds, pairs = found.needed(self.gain)
        more = f", and {pairs:,} pairs" if pairs else ""
        have = f"{found.seeds} seed" + ("s" if found.seeds > 1 else "")
        least = "about" if found.seeds > 1 else "at least"  # of one seed the spread is not known
        return f"cannot be told with {have} (needs {least} {max(seeds, LEAST_SEEDS):,}{more})"


def examined(suite: Suite, claim: Claim, results: Sequence[Result], measured: Split) -> Found | None:
    """Compare the two rows of a claim; None where rows or figures are missing."""
    better, worse = ({r.seed: r for r in results if r.row == key} for key in (claim.better, claim.worse))
    other = claim.worse_value or claim.value
    seeds = [
        s
        for s in sorted(better.keys() & worse.keys())
        if better[s].value(claim.value) is not None and worse[s].value(other) is not None
    ]
    if not seeds:
        return None
    ours, theirs = [better[s] for s in seeds], [worse[s] for s in seeds]
    figures = np.array(
        [[one.value(claim.value), two.value(other)] for one, two in zip(ours, theirs, strict=True)]
    )
    values = _differences(claim, ours, theirs, figures, measured)
    if values is None:
        return None
    printed = printed_gain(suite, claim)
    high, low = figures.mean(axis=0).tolist()
    share = GAIN if printed is None else printed
    gain = -math.log(max(1 - share, 1e-9)) if claim.value == "perplexity" else share * abs(low)
    return Found(claim, high, low, difference(values), gain, printed)


def printed_gain(suite: Suite, claim: Claim) -> float | None:
    """The gain that the paper prints, as a share of the worse figure, above 0; None where it prints none.

    Of a figure of some pairs only that it does not print, that of all.
    """
    wanted = (claim.value, f"single.{claim.value.rpartition('.')[2]}")
    for value in dict.fromkeys(wanted):
        other = claim.worse_value or value
        better, worse = _printed(suite, claim.better, value), _printed(suite, claim.worse, other)
        if better is not None and worse:
            gain = (worse - better if claim.less else better - worse) / worse
            if gain > 0:
                return gain
    return None


def _printed(suite: Suite, row: str, value: str) -> float | None:
    for table in suite.tables:
        for column, figure in zip(table.columns, table.theirs.get(row, ()), strict=False):
            if column.value == value and figure is not None:
                return figure
    return None


def _differences(
    claim: Claim,
    ours: Sequence[Result],
    theirs: Sequence[Result],
    figures: NDArray[np.float64],
    measured: Split,
) -> NDArray[np.float64] | None:
    """Better minus worse, of each seed and, where the figure is made of them, each pair."""
    if claim.value == "perplexity":
        tokens = {r.tokens for r in (*ours, *theirs)}
        if len(tokens) > 1 or not any(next(iter(tokens))):
            return None  # perplexities of different sentences do not compare
        counted = np.array(next(iter(tokens)), np.float64)
        said = np.array([two.nats for two in theirs]) - np.array([one.nats for one in ours])
        rate = said.sum(axis=1, keepdims=True) / counted.sum()
        asked = counted > 0
        # A ratio of sums: what a pair moves it by, around the ratio itself.
        moved: NDArray[np.float64] = rate + (said - rate * counted)[:, asked] / counted[asked].mean()
        return moved
    if not claim.worse_value:
        one, two = (pair_ciders(each, measured, claim.value) for each in (ours, theirs))
        if one is not None and two is not None:
            return -(one - two) if claim.less else one - two
    plain: NDArray[np.float64] = figures[:, 0] - figures[:, 1]
    return -plain if claim.less else plain
