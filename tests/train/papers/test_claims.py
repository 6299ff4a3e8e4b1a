"""What a claim's words promise: an ordering that is not there is shown in one of twenty cases at most."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from train.learning.batches import Split
from train.papers.claims import Found, PairedDifference, difference, examined, printed_gain
from train.papers.results import Result
from train.papers.suites import SUITES, Claim

CLAIM = Claim("one above another", "ddla", "capt")
SUITE = SUITES["spot-the-diff"]()


def drawn(
    rng: np.random.Generator, seeds: int, pairs: int, ratio: float, gain: float = 0.0
) -> NDArray[np.float64]:
    """Differences of seeds and pairs whose parts are drawn; the seeds' error is `ratio` times the pairs'."""
    of_seeds = rng.normal(0, ratio * math.sqrt(seeds / pairs), (seeds, 1))
    of_pairs = rng.standard_t(5, (1, pairs)) / math.sqrt(5 / 3)
    return gain + of_seeds + of_pairs + rng.normal(0, 1.5, (seeds, pairs))


def found(values: NDArray[np.float64], gain: float = 0.5) -> Found:
    return Found(CLAIM, 1.0, 1.0, difference(values), gain, None)


@pytest.mark.parametrize(("seeds", "ratio"), [(3, 0.0), (3, 1.0), (3, 2.0), (3, 8.0), (5, 2.0), (10, 8.0)])
def test_a_true_zero_is_shown_in_one_of_twenty_cases_at_most(seeds: int, ratio: float) -> None:
    rng = np.random.default_rng([seeds, int(ratio)])
    lows = [difference(drawn(rng, seeds, 60, ratio)).interval()[0] for _ in range(1200)]
    assert sum(low > 0 for low in lows) <= 0.05 * len(lows)


def test_of_seeds_alone_as_well() -> None:
    rng = np.random.default_rng(1)
    lows = [difference(rng.normal(0, 0.1, 3)).interval()[0] for _ in range(1500)]
    assert 0.01 * len(lows) <= sum(low > 0 for low in lows) <= 0.04 * len(lows)


@pytest.mark.parametrize(("seeds", "ratio"), [(3, 0.5), (5, 2.0), (10, 1.0)])
def test_the_power_is_how_often_a_true_gain_is_shown(seeds: int, ratio: float) -> None:
    rng = np.random.default_rng(seeds)
    gain = 0.3
    of_seeds = ratio**2 * seeds / 120 + 1.5**2 / 120
    known = PairedDifference(gain, seeds, 120, of_seeds, 1 + 1.5**2 / seeds)
    lows = [difference(drawn(rng, seeds, 120, ratio, gain)).interval()[0] for _ in range(500)]
    assert sum(low > 0 for low in lows) / len(lows) == pytest.approx(known.power(gain), abs=0.09)
    assert known.power(gain, 20) > known.power(gain)


def test_the_words() -> None:
    rng = np.random.default_rng(3)
    assert found(drawn(rng, 5, 200, 1.0, gain=2.0)).verdict == "shown"
    assert found(drawn(rng, 5, 200, 1.0, gain=-2.0)).verdict == "not shown"
    assert (
        found(rng.normal(0, 0.05, (5, 200)) - rng.normal(0, 0.05, (5, 200)), gain=1.0).verdict == "not shown"
    )
    values = np.array([0.3, -0.2, 0.1])
    several = found(values, gain=0.2)
    seeds, pairs = several.difference.needed(0.2)
    assert several.verdict == f"cannot be told with 3 seeds (needs about {seeds})"
    assert (pairs, seeds > 10) == (0, True)
    assert several.difference.power(0.2, seeds) >= 0.8 > several.difference.power(0.2, seeds - 1)
    few = found(values[:1])
    assert few.verdict == "cannot be told with 1 seed (needs at least 3)"
    assert few.difference.interval() == (-math.inf, math.inf)
    assert found(np.array([0.3, 0.31])).verdict.startswith("cannot be told with 2 seeds (needs about ")


def test_where_no_number_of_seeds_would_do_pairs_are_named() -> None:
    rng = np.random.default_rng(4)
    known = found(rng.normal(0, 1, (1, 50)) + rng.normal(0, 0.01, (3, 1)), gain=0.05)
    seeds, pairs = known.difference.needed(0.05)
    assert 5000 < pairs < 12_000
    assert known.verdict.endswith(f"(needs about {seeds}, and {pairs:,} pairs)")


def test_a_gain_is_the_papers_own() -> None:
    assert printed_gain(SUITE, Claim("", "ddla", "capt-masked")) == pytest.approx(0.328 / 0.285 - 1)
    by_group = Claim("", "ddla", "capt-masked", "groups.changed.cider")
    assert printed_gain(SUITE, by_group) == pytest.approx(0.328 / 0.285 - 1)
    less = Claim("", "ddla", "ddla-uniform", "perplexity", less=True)
    assert printed_gain(SUITE, less) == pytest.approx(1 - 9.73 / 9.96)
    chance = Claim("", "ddla", "ddla", "alignment.precision", worse_value="alignment.chance")
    assert printed_gain(SUITE, chance) == pytest.approx(0.546 / 0.274 - 1)
    clevr = SUITES["clevr-change"]()
    assert printed_gain(clevr, Claim("", "duda-joint", "duda")) == pytest.approx(0.027, abs=1e-3)
    assert printed_gain(SUITES["spot-it"](), Claim("", "halves", "paper-lstm")) is None


def result(row: str, seed: int, nats: float, said: tuple[str, ...], tokens: tuple[int, ...]) -> Result:
    own = tuple(nats * n for n in tokens)
    evaluation = {"perplexity": math.exp(nats), "single": {"cider": 0.5}}
    return Result("", row, row, seed, evaluation, said, said, nats=own, tokens=tokens)


def test_claims_are_examined_on_the_same_seeds_pairs_and_sentences(splits: tuple[Split, Split]) -> None:
    _, measured = splits
    told = tuple(own[0] for own in measured.sentences)
    tokens = (4,) * (len(told) - 1) + (0,)
    ours = [result("ddla", seed, 0.5 + 0.01 * seed, told, tokens) for seed in range(4)]
    theirs = [result("capt", seed, 0.9, ("no",) * len(told), tokens) for seed in (3, 1, 2)]
    wins = examined(SUITE, CLAIM, [*ours, *theirs], measured)
    assert wins is not None
    assert (wins.difference.seeds, wins.difference.pairs, wins.verdict) == (3, len(told), "shown")
    assert wins.printed == pytest.approx(0.328 / 0.263 - 1)
    lower = Claim("", "ddla", "capt", "perplexity", less=True)
    less = examined(SUITE, lower, [*ours, *theirs], measured)
    assert less is not None
    assert less.difference.mean == pytest.approx(0.9 - 0.52)
    assert (less.difference.pairs, less.verdict) == (len(told) - 1, "shown")
    fewer = [replace(r, tokens=(0, *r.tokens[1:])) for r in theirs]
    assert examined(SUITE, lower, [*ours, *fewer], measured) is None
    assert examined(SUITE, CLAIM, ours, measured) is None
