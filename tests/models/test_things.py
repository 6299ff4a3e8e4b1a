"""From answers in cells to things: peaks, boxes, one thing once, limits."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from models.perception import OBJECTS, Seen
from models.things import (
    FLOOR,
    MOST_OF_A_CROP,
    MOST_OF_A_PAIR,
    Things,
    find_things,
    of_pair,
    overlaps,
    pool,
    without_ghosts,
)

G = 16
Peak = tuple[int, int, float]
"""Row, column, how sure."""


def seen(*crops: list[Peak], reach: float = 0.1) -> Seen:
    """Answers with peaks; every thing reaches `reach` of the crop's side to all sides, and is a car."""
    centre = torch.full((len(crops), G, G), -9.0)
    for n, peaks in enumerate(crops):
        for row, column, sure in peaks:
            centre[n, row, column] = torch.logit(torch.tensor(sure))
    label = torch.zeros(len(crops), len(OBJECTS), G, G)
    label[:, OBJECTS.index("car")] = 4.0
    edges = torch.full((len(crops), 4, G, G), reach)
    return Seen(centre, label, edges, torch.ones(len(crops), 3, G, G))


def found(answers: Seen, pair: list[int] | None = None, windows: Tensor | None = None) -> Things:
    n = len(answers.centre)
    return find_things(
        answers,
        torch.zeros(n, 3, G, G),
        torch.tensor(pair or [0] * n),
        windows if windows is not None else torch.tensor([[0.0, 0.0, 1.0, 1.0]]).repeat(n, 1),
        torch.ones(n, G, G),
    )


def made(*things: tuple[int, tuple[float, ...], float]) -> Things:
    """Things of given pair, box and sureness."""
    return Things(
        torch.tensor([pair for pair, _, _ in things], dtype=torch.int64),
        torch.zeros(len(things), dtype=torch.int64),
        torch.tensor([box for _, box, _ in things]).view(-1, 4),
        torch.tensor([score for _, _, score in things]),
        torch.full((len(things), len(OBJECTS)), 1 / len(OBJECTS)),
        torch.ones(len(things), 3),
        torch.zeros(len(things), 6),
    )


def test_a_peak_is_a_thing_with_its_box() -> None:
    window = torch.tensor([[0.2, 0.4, 0.5, 0.4]])
    things = found(seen([(8, 4, 0.8)]), windows=window)
    x, y = 0.2 + 0.5 * 4.5 / G, 0.4 + 0.4 * 8.5 / G
    assert things.box[0].tolist() == pytest.approx([x - 0.05, y - 0.04, 0.1, 0.08], abs=1e-6)
    assert things.score.tolist() == pytest.approx([0.8])
    assert OBJECTS[int(things.label[0].argmax())] == "car"
    assert float(things.label.sum()) == pytest.approx(1)


def test_boxes_are_cut_at_the_frame() -> None:
    [box] = found(seen([(0, 15, 0.9)], reach=0.3)).box.tolist()
    assert box == pytest.approx([15.5 / G - 0.3, 0, 0.3 + 0.5 / G, 0.3 + 0.5 / G], abs=1e-6)


def test_several_peaks_of_one_crop_are_several_things_the_surest_first() -> None:
    things = found(seen([(3, 3, 0.6), (3, 12, 0.9), (12, 8, 0.7)]))
    assert things.score.tolist() == pytest.approx([0.9, 0.7, 0.6])
    assert things.cluster.tolist() == [0, 0, 0]


def test_a_neighbouring_cell_and_a_faint_one_are_none() -> None:
    assert len(found(seen([(3, 3, 0.6), (3, 4, 0.59)]))) == 1
    assert len(found(seen([(3, 3, FLOOR * 0.9)]))) == 0
    assert len(found(seen([]))) == 0


def test_what_two_overlapping_crops_show_is_one_thing_of_the_surer() -> None:
    windows = torch.tensor([[0.0, 0.0, 0.5, 0.5], [1 / 32, 0.0, 0.5, 0.5]])
    same = seen([(8, 9, 0.5)], [(8, 8, 0.8)])
    together = found(same, windows=windows)
    assert (together.cluster.tolist(), together.score.tolist()) == ([1], pytest.approx([0.8]))
    assert len(found(same, pair=[0, 1], windows=windows)) == 2, "two pairs have two things"


def test_a_part_is_not_told_beside_its_whole() -> None:
    answers = seen([(8, 8, 0.9), (8, 10, 0.6)], reach=0.25)
    answers.edges[0, :, 8, 10] = 0.05
    assert found(answers).score.tolist() == pytest.approx([0.9])
    answers.edges[0, :, 8, 10] = 0.25
    answers.edges[0, 0, 8, 8] = 0.0  # now they share less than half
    answers.edges[0, 2, 8, 8] = 0.05
    answers.edges[0, 0, 8, 10] = 0.05
    assert len(found(answers)) == 2


def test_a_small_part_that_reaches_beyond_its_whole_is_none_of_its_own() -> None:
    answers = seen([(8, 8, 0.9), (8, 12, 0.6)], reach=0.25)
    answers.edges[0, :, 8, 12] = 0.06
    answers.edges[0, 2, 8, 8] = 0.26  # 58 % of the part lies within
    assert found(answers).score.tolist() == pytest.approx([0.9])
    other_class = answers.label.clone()
    other_class[0, OBJECTS.index("person"), 8, 12] = 8.0
    answers = Seen(answers.centre, other_class, answers.edges, answers.feature)
    assert len(found(answers)) == 2
    far = seen([(8, 8, 0.9), (8, 13, 0.6)], reach=0.25)
    far.edges[0, :, 8, 13] = 0.06
    assert len(found(far)) == 2, "it lies beyond"


def test_there_are_limits() -> None:
    grid = [(r, c, 0.5 + 0.001 * (r + c)) for r in range(0, G, 2) for c in range(0, G, 2)]
    assert len(found(seen(grid, reach=0.01))) == MOST_OF_A_CROP
    corners = [(0.0, 0.0), (0.5, 0.0), (0.0, 0.5), (0.5, 0.5)]
    windows = torch.tensor([[x, y, 0.5, 0.5] for x, y in corners])
    things = found(seen(*[grid] * 4, reach=0.01), windows=windows)
    assert len(things) == MOST_OF_A_PAIR
    assert things.score.min() >= 0.5
    assert len(found(seen(*[grid] * 4, reach=0.01), pair=[0, 1, 1, 2], windows=windows)) == 4 * MOST_OF_A_CROP


def test_boxes_without_an_area_are_none() -> None:
    answers = seen([(0, 3, 0.9), (8, 8, 0.7)])
    windows = torch.tensor([[0.0, -0.5, 1.0, 0.4]])  # above the frame
    assert len(found(answers, windows=windows)) == 0


@given(st.integers(0, 10_000))
@settings(max_examples=25, deadline=None)
def test_a_batch_equals_its_singles_and_no_two_are_one(seed: int) -> None:
    random = torch.Generator().manual_seed(seed)
    n = 5
    answers = Seen(
        torch.randn(n, G, G, generator=random) * 3 - 2,
        torch.randn(n, len(OBJECTS), G, G, generator=random),
        torch.rand(n, 4, G, G, generator=random) * 0.3,
        torch.randn(n, 3, G, G, generator=random),
    )
    colours, masks = torch.rand(n, 3, G, G, generator=random), torch.rand(n, G, G, generator=random)
    windows = torch.rand(n, 4, generator=random) * 0.5 + torch.tensor([0.0, 0.0, 0.1, 0.1])
    pair = torch.tensor([0, 0, 1, 1, 2])
    together = find_things(answers, colours, pair, windows, masks)
    for b in range(3):
        own = pair == b
        one = Seen(*(getattr(answers, name)[own] for name in Seen.__slots__))
        alone = find_things(one, colours[own], pair[own], windows[own], masks[own])
        rows = torch.tensor(of_pair(together, b), dtype=torch.int64)
        mine = together.select(rows)
        assert torch.equal(alone.score, mine.score)
        for name in ("box", "label", "feature", "colour"):
            torch.testing.assert_close(getattr(alone, name), getattr(mine, name))
        assert torch.equal(own.nonzero()[:, 0][alone.cluster], mine.cluster)
        assert alone.score.tolist() == sorted(alone.score.tolist(), reverse=True)
        shared, _, union = overlaps(alone.box, alone.box)
        assert not (shared > 0.5 * union).triu(1).any()


def test_inside_of_a_box_is_pooled_and_the_changed_part_counts_most() -> None:
    colours = torch.zeros(1, 3, G, G)
    colours[:, :, :8] = 1.0  # the upper half
    feature = colours[:, :2] * 5
    window, upper = torch.tensor([[0.0, 0.0, 1.0, 1.0]]), torch.zeros(1, G, G)
    upper[:, :8] = 1
    whole = torch.tensor([[0.0, 0.0, 1.0, 1.0]])
    told, colour = pool(whole, feature, colours, window, upper)
    assert float(told.mean()) == pytest.approx(5 * 1.05 / 1.1, abs=1e-5)
    _, colour = pool(whole, feature, colours, window, torch.ones(1, G, G))
    assert colour[0].tolist() == pytest.approx([0.5] * 6, abs=1e-4)
    _, colour = pool(torch.tensor([[0.2, 0.7, 0.2, 0.1]]), feature, colours, window, torch.ones(1, G, G))
    assert not colour.any()
    sliver = torch.tensor([[0.51, 0.01, 1e-4, 1e-4]])  # smaller than a cell, it still holds one
    assert pool(sliver, feature, colours, window, torch.ones(1, G, G))[1][0, 0] == pytest.approx(1)


PLACE, NEAR, FAR = (0.2, 0.2, 0.2, 0.2), (0.21, 0.2, 0.2, 0.2), (0.6, 0.6, 0.2, 0.2)


def test_a_mirror_image_of_the_other_side_is_dropped() -> None:
    before, after = (
        made((0, PLACE, 0.9), (0, FAR, 0.2), (1, NEAR, 0.3)),
        made((0, NEAR, 0.3), (0, PLACE, 0.5)),
    )
    kept = without_ghosts(before, after)
    assert kept[0].score.tolist() == pytest.approx([0.9, 0.2, 0.3])
    assert kept[1].score.tolist() == pytest.approx([0.5])
    backwards = without_ghosts(after, before)
    assert [side.score.tolist() for side in backwards] == [side.score.tolist() for side in kept[::-1]]


def test_without_things_there_are_no_ghosts() -> None:
    none, some = made(), made((0, PLACE, 0.9))
    assert [len(side) for side in without_ghosts(none, some)] == [0, 1]
    assert [len(side) for side in without_ghosts(none, none)] == [0, 0]
