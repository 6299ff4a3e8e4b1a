"""The linker: symmetric, exclusive, exact where it says so, and able to learn."""

from __future__ import annotations

import itertools
import math
from dataclasses import fields

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from models.families import OBJECTS
from models.grounded.observations import FEATURES, COLOUR_BINS, Observations, FeatureEmbedding, links, looks

NOT_KNOWN = math.nan


def some_ends(count: int, seed: int, *leading: int) -> Observations:
    chance = torch.Generator().manual_seed(seed)

    def numbers(*shape: int) -> Tensor:
        return torch.rand(*leading, count, *shape, generator=chance)

    box = torch.cat([numbers(2) * 0.8, numbers(2) * 0.2 + 0.01], dim=-1)
    return Observations(box, numbers(), numbers(len(OBJECTS)), numbers(FEATURES) - 0.5, numbers(COLOUR_BINS))


def a_linker(seed: int = 0) -> FeatureEmbedding:
    torch.manual_seed(seed)
    return FeatureEmbedding().eval()


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 6), st.integers(0, 6), st.integers(0, 99), st.sampled_from([0.5, 90.0, 1e6, NOT_KNOWN]))
def test_a_pair_read_backwards_has_the_same_links(s: int, t: int, seed: int, gap_s: float) -> None:
    before, after, gap = some_ends(s, seed), some_ends(t, seed + 100), torch.tensor(gap_s)
    with torch.inference_mode():
        forth = links(a_linker()(before, after, gap))
        back = links(a_linker()(after, before, gap))
    assert torch.allclose(forth, back.T, atol=1e-5)


def test_stacked_pictures_get_what_single_ones_get() -> None:
    before, after = some_ends(5, 1, 3), some_ends(4, 2, 3)
    gap = torch.tensor([1.0, NOT_KNOWN, 7200.0])
    linker = a_linker()
    with torch.inference_mode():
        stacked = linker(before, after, gap)
        for b in range(3):
            one, two = (Observations(*(getattr(e, f.name)[b] for f in fields(Observations))) for e in (before, after))
            assert torch.allclose(linker(one, two, gap[b]), stacked[b], atol=1e-5)


def test_the_gap_and_its_absence_are_inputs() -> None:
    before, after = some_ends(4, 1), some_ends(4, 2)
    with torch.inference_mode():
        answers = [a_linker()(before, after, torch.tensor(g)) for g in (1.0, 7200.0, NOT_KNOWN)]
    for one, two in itertools.combinations(answers, 2):
        assert not torch.allclose(one, two, atol=1e-4)
    assert all(bool(answer.isfinite().all()) for answer in answers)


def test_the_measures_are_those_that_the_shipped_weights_were_trained_with() -> None:
    """Of a person 0.1 wide and 0.2 high who goes a fifth of that to the right and down in two minutes."""
    assert COLOUR_BINS == 2 * (9 + 8)
    looked = torch.zeros(1, COLOUR_BINS)
    looked[0, [8, 9, 25, 33]] = 1.0  # grey, and one lightness, in either half
    label = torch.zeros(1, len(OBJECTS))
    label[0, OBJECTS.index("person")] = 1.0
    box, feature = torch.tensor([[0.3, 0.4, 0.1, 0.2]]), torch.ones(1, FEATURES)
    before = Observations(box, torch.tensor([0.5]), label, feature, looked)
    after = Observations(box + torch.tensor([0.02, 0.04, 0, 0]), torch.tensor([0.75]), label, feature, looked)
    sizes, gap_s = math.sqrt(0.08), 120.0
    expected = {
        0: 2.0,  # the embedding
        **dict.fromkeys(range(1, 5), 2.0),  # colours
        **dict.fromkeys(range(5, 8), 2.0),  # name, family, of persons
        **dict.fromkeys(range(8, 13), 0.0),  # of cars and motorcycles; ratios of sizes
        13: math.log(0.1 * 0.2) / 2 + 3,
        14: sizes / 2,
        15: 2 * math.log1p(sizes),
        16: 4 * math.hypot(0.02, 0.04),
        17: 4 * sizes,
        18: 3 * 0.0128 / 0.0272,
        19: 0.64,
        20: 1.0,
        21: 1.5,
        26: 1.0,
        27: math.log(gap_s) / 3,
        28: math.log(2) / 3,
        29: (math.log(sizes / 2) - math.log(gap_s)) / 3,
    }
    with torch.inference_mode():
        found = a_linker().measures(before, after, torch.tensor(gap_s))[0, 0]
    assert {k: float(found[k]) for k in expected} == pytest.approx(expected, abs=1e-4)


def test_a_rival_is_of_the_same_family_and_at_the_same_place() -> None:
    def seen(*names: str) -> Observations:
        ends, label = some_ends(len(names), 1), torch.zeros(len(names), len(OBJECTS))
        label[range(len(names)), [OBJECTS.index(name) for name in names]] = 1.0
        return Observations(
            torch.tensor([[0.3, 0.4, 0.1, 0.2]]).repeat(len(names), 1), ends.score, label, *rest(ends)
        )

    def rest(ends: Observations) -> tuple[Tensor, Tensor]:
        return ends.feature, ends.looks

    with torch.inference_mode():
        found = {
            name: a_linker().measures(seen("person"), seen("person", name), torch.tensor(1.0))[0, 0, 24:26]
            for name in ("person", "car")
        }
    assert found["person"].tolist() == pytest.approx([0, 1])
    assert found["car"].tolist() == [0, 0]


@pytest.mark.parametrize("spread", [1.0, 3.0])
def test_probabilities_are_those_of_all_ways_to_link(spread: float) -> None:
    torch.manual_seed(3)
    for _ in range(10):
        logits = torch.randn(4, 3) * spread - 1
        one, total = torch.zeros(4, 3), 0.0
        for chosen in itertools.product(range(-1, 3), repeat=4):
            taken = [j for j in chosen if j >= 0]
            if len(set(taken)) == len(taken):
                pairs = [(i, j) for i, j in enumerate(chosen) if j >= 0]
                weight = math.exp(sum(float(logits[i, j]) for i, j in pairs))
                total += weight
                for i, j in pairs:
                    one[i, j] += weight
        found = links(logits)
        assert float((found - one / total).abs().max()) < 0.05, "belief propagation is nearly exact"


def test_a_rival_takes_from_a_link() -> None:
    alone = links(torch.tensor([[2.0]]))
    rivals = links(torch.tensor([[2.0, 2.0]]))
    assert float(alone[0, 0]) == pytest.approx(1 / (1 + math.exp(-2)), abs=1e-4)
    assert float(rivals[0, 0]) < 0.5 < float(alone[0, 0])
    assert float(links(torch.full((1, 1), -4.0))[0, 0]) < 0.03


def test_looks_tell_colours_and_halves_apart() -> None:
    picture = torch.full((3, 100, 300), 90, dtype=torch.uint8)
    picture[0, :50, :100] = 220  # red above
    picture[2, 50:, :100] = 220  # blue below
    picture[2, :, 100:200] = 220
    box = torch.tensor([[0.0, 0, 1 / 3, 1], [1 / 3, 0, 1 / 3, 1], [2 / 3, 0, 1 / 3, 1], [0.9, 0.9, 0.5, 0.5]])
    found = looks(picture, box)
    assert found.shape == (4, COLOUR_BINS)
    assert torch.allclose(found.square().sum(1), torch.full((4,), 4.0), atol=1e-4)
    above, below = found[:, : COLOUR_BINS // 2], found[:, COLOUR_BINS // 2 :]
    assert float(above[0] @ above[1]) < 1.3
    assert float(below[0] @ below[1]) > 1.9
    assert len(looks(picture, torch.zeros(0, 4))) == 0
    white = looks(torch.full((3, 20, 20), 255, dtype=torch.uint8), torch.tensor([[0.0, 0, 1, 1]]))[0]
    assert white.nonzero().flatten().tolist() == [8, 16, 25, 33]  # grey, and the last step of lightness


def test_it_learns_that_looks_matter_and_the_gap_does() -> None:
    """Alike ends that moved are one after a second, and others after an hour."""
    torch.manual_seed(0)
    linker = FeatureEmbedding()
    learner = torch.optim.Adam(linker.parameters(), lr=0.01)
    target = torch.eye(4)
    for step in range(150):
        before = some_ends(4, step)
        moved = torch.cat([(before.box[:, :2] + 0.1) % 0.8, before.box[:, 2:]], dim=1)
        after = Observations(moved, before.score, before.label, before.feature, before.looks)
        soon = linker(before, after, torch.tensor(1.0))
        late = linker(before, after, torch.tensor(3600.0))
        lost = torch.nn.functional.binary_cross_entropy_with_logits
        loss = lost(soon, target) + lost(late, torch.zeros(4, 4))
        learner.zero_grad()
        loss.backward()
        learner.step()
    before = some_ends(4, 1000)
    moved = torch.cat([(before.box[:, :2] + 0.1) % 0.8, before.box[:, 2:]], dim=1)
    after = Observations(moved, before.score, before.label, before.feature, before.looks)
    with torch.inference_mode():
        soon = links(linker(before, after, torch.tensor(1.0)))
        late = links(linker(before, after, torch.tensor(3600.0)))
    assert torch.equal(soon > 0.6, torch.eye(4, dtype=torch.bool))
    assert not (late > 0.6).any()
