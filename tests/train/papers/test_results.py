"""What a claim's words promise: an ordering that is not there is shown in one of twenty cases at most."""

import math
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from train.papers.results import (
    ExaminedClaim,
    Result,
    difference,
    examine,
    pair_values,
    printed_gain,
    ratio_values,
)
from train.papers.suites import Claim, load_suite

CLAIM = Claim(text="one above another", better="ddla", worse="capt")
SUITE = load_suite("spot-the-diff")


def drawn(
    rng: np.random.Generator, seeds: int, pairs: int, ratio: float, gain: float = 0.0
) -> NDArray[np.float64]:
    """Differences of seeds and pairs whose parts are drawn; the seeds' error is `ratio` times the pairs'."""
    of_seeds = rng.normal(0, ratio * math.sqrt(seeds / pairs), (seeds, 1))
    of_pairs = rng.standard_t(5, (1, pairs)) / math.sqrt(5 / 3)
    return gain + of_seeds + of_pairs + rng.normal(0, 1.5, (seeds, pairs))


def found(values: NDArray[np.float64], gain: float = 0.5) -> ExaminedClaim:
    return ExaminedClaim(CLAIM, 1.0, 1.0, difference(values), gain, None, "")


@pytest.mark.parametrize(("seeds", "ratio"), [(3, 0.0), (3, 2.0), (10, 8.0)])
def test_a_true_zero_is_shown_in_one_of_twenty_cases_at_most(seeds, ratio):
    rng = np.random.default_rng([seeds, int(ratio)])
    lows = [difference(drawn(rng, seeds, 60, ratio)).interval()[0] for _ in range(1200)]
    assert sum(low > 0 for low in lows) <= 0.05 * len(lows)


def test_verdicts():
    rng = np.random.default_rng(3)
    assert found(drawn(rng, 5, 200, 1.0, gain=2.0)).verdict == "shown"
    assert found(drawn(rng, 5, 200, 1.0, gain=-2.0)).verdict == "reversed"
    none = rng.normal(0, 0.05, (5, 200)) - rng.normal(0, 0.05, (5, 200))
    assert found(none, gain=1.0).verdict == "not shown"
    several = found(np.array([0.3, -0.2, 0.1]), gain=0.2)
    assert several.verdict == "cannot be told"
    assert found(np.array([0.3])).difference.interval() == (-math.inf, math.inf)


@pytest.mark.parametrize("seeds", [3, 10])
def test_the_error_of_a_ratio_holds_that_of_the_pairs(seeds):
    """Both systems are right by chance, on pairs that are hard or easy for all seeds, and counted apart."""
    rng, shown, pairs = np.random.default_rng(seeds), 0, 60
    for _ in range(400):
        values = []
        for _system in range(2):
            easy, counted = rng.uniform(0, 1, pairs), rng.random((seeds, pairs)) < 0.6
            right = (rng.random((seeds, pairs)) < easy) & counted
            values.append(ratio_values(right.astype(float), counted.astype(float)))
        shown += difference(values[0] - values[1]).interval()[0] > 0
    assert shown <= 0.05 * 400


def test_a_gain_is_the_papers_own():
    def gain(suite: str, **claim: object) -> float | None:
        return printed_gain(load_suite(suite), Claim(text="", **claim))  # type: ignore[arg-type]

    spot = {"better": "ddla", "worse": "capt-masked"}
    assert gain("spot-the-diff", **spot) == pytest.approx(0.328 / 0.285 - 1)
    assert gain("spot-the-diff", **spot, value="groups.changed.cider") == pytest.approx(0.328 / 0.285 - 1)
    uniform = {"better": "ddla", "worse": "ddla-uniform", "value": "groups.changed.perplexity", "less": True}
    assert gain("spot-the-diff", **uniform) == pytest.approx(1 - 9.73 / 9.96)
    chance = {"value": "alignment.precision", "worse_value": "alignment.chance"}
    assert gain("spot-the-diff", better="ddla", worse="ddla", **chance) == pytest.approx(0.546 / 0.274 - 1)
    assert gain("idc-pcl", better="fda", worse="none-long", printed="none") == pytest.approx(128.9 / 89.8 - 1)
    assert gain("spot-it", better="halves", worse="paper-lstm") is None


def result(row: str, seed: int, nats: float, said: tuple[str, ...], cider: float = 5.0) -> Result:
    tokens = (4,) * (len(said) - 1) + (0,)
    own = tuple(nats * n for n in tokens)
    return Result("", row, seed, {"single": {"cider": cider}}, said, said, nats=own, tokens=tokens)


def test_claims_are_examined_on_the_same_seeds_pairs_and_sentences(splits):
    _, measured = splits
    said = tuple(own[0] for own in measured.sentences)
    ours = [result("ddla", seed, 0.5 + 0.01 * seed, said) for seed in range(4)]
    theirs = [result("capt", seed, 0.9, ("no",) * len(said)) for seed in (3, 1, 2)]
    constant = Result("", "constant", 0, {"single": {"cider": 0.4}})
    both = [*ours, *theirs]
    wins = examine(SUITE, CLAIM, both, constant, measured)
    assert (wins.difference.seeds, wins.difference.pairs, wins.verdict) == (3, len(said), "shown")
    assert wins.printed == pytest.approx(0.328 / 0.263 - 1)
    lower = Claim(text="", better="ddla", worse="capt", value="perplexity", less=True)
    less = examine(SUITE, lower, both, constant, measured)
    assert less.difference.mean == pytest.approx(0.9 - 0.52)
    assert (less.better, less.verdict) == (pytest.approx(math.exp(0.52), rel=1e-3), "shown")
    fewer = [replace(r, tokens=(0, *r.tokens[1:])) for r in theirs]
    assert pair_values([*ours, *fewer], "perplexity", measured) is None
    assert examine(SUITE, CLAIM, ours, constant, measured) is None


def test_there_is_no_verdict_below_the_best_constant_or_with_other_seeds(splits):
    _, measured = splits
    said = tuple(own[0] for own in measured.sentences)
    ours = [result("ddla", seed, 0.5, said) for seed in range(3)]
    theirs = [result("capt", seed, 0.9, ("no",) * len(said), cider=0.3) for seed in range(3)]
    constant = Result("", "constant", 0, {"single": {"cider": 0.3}})
    unlearnt = examine(SUITE, CLAIM, [*ours, *theirs], constant, measured)
    assert unlearnt.verdict == "no verdict: capt (0.30) does not beat the best constant (0.30)"
    few = examine(SUITE, CLAIM, [*ours[:2], *theirs[:2]], None, measured)
    assert few.verdict == "no verdict: the suite has 3 seeds, here are 2"


def test_the_papers_claims_are_about_changed_pairs():
    claims = [c for c in SUITE.claims if c.text != "alignment precision above chance"]
    assert all(".changed." in claim.value for claim in claims)
