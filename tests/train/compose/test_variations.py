import numpy as np
import pytest

from train.compose.differences import as_objects
from train.compose.drafts import Draft
from train.compose.objects import pixels
from train.compose.variations import disturbed, flipped, swapped, vary, window
from train.samples import SampleChange, SampleObject

HEIGHT, WIDTH = 144, 192
RED, BLUE = (230, 20, 30), (20, 30, 230)
HERE, THERE = (0.3, 0.4, 0.125, 1 / 6), (0.55, 0.5, 0.125, 1 / 6)


def ground() -> np.ndarray:
    rough = np.random.default_rng(5).integers(70, 150, (HEIGHT // 8, WIDTH // 8, 3), np.uint8)
    return np.kron(rough, np.ones((8, 8, 1), np.uint8))


def draft(*changes: SampleChange, extra: tuple[SampleObject, ...] = ()) -> Draft:
    """The ground with a red rectangle in every box of before, a blue one in every box of after."""
    before, after = ground(), ground()
    for change in changes:
        for image, box, colour in ((before, change.box_before, RED), (after, change.box_after, BLUE)):
            if box is not None:
                image[pixels(box, image.shape)] = colour
    named, objects = as_objects(changes)
    return Draft("pasted", "road", before, after, named, (*objects, *extra), sources=frozenset({"gate"}))


MOVED = SampleChange("moved", "car", 1, HERE, THERE)
APPEARED = SampleChange("appeared", "person", 1, None, (0.7, 0.2, 0.1, 0.2))


def test_swapping_turns_what_happened_round_and_twice_is_nothing() -> None:
    pair = draft(MOVED, APPEARED)
    turned = swapped(pair)
    assert [c.type for c in turned.changes] == ["moved", "disappeared"]
    assert (turned.changes[0].box_before, turned.changes[0].box_after) == (THERE, HERE)
    assert [(o.side, o.box, o.identity) for o in turned.objects] == [
        ("after", HERE, 0),
        ("before", THERE, 0),
        ("before", APPEARED.box_after, 2),
    ]
    assert turned.before is pair.after
    again = swapped(turned)
    assert (again.changes, again.objects, again.sources) == (pair.changes, pair.objects, pair.sources)
    assert again.before is pair.before


def test_flipping_twice_is_nothing() -> None:
    pair = draft(MOVED, APPEARED)
    once, again = flipped(pair), flipped(flipped(pair))
    assert once.objects[0].box == pytest.approx((1 - HERE[0] - HERE[2], *HERE[1:]))
    assert [o.box for o in again.objects] == [pytest.approx(o.box) for o in pair.objects]
    assert np.array_equal(again.before, pair.before)


def test_variations_keep_boxes_on_their_objects() -> None:
    """After any window, flip and swap the red rectangle is still in a box of its side, the blue one too."""
    rng = np.random.default_rng(4)
    pair = draft(MOVED)
    kept = 0
    for _ in range(120):
        varied = vary(pair, rng, grey_share=0)
        if varied is None:
            continue
        kept += 1
        (seen,) = varied.changes
        told = {varied.objects[k].side: varied.objects[k].box for k in seen.members}
        assert told == {"before": seen.box_before, "after": seen.box_after}
        for o in varied.objects:
            image = varied.before if o.side == "before" else varied.after
            lead = image[..., 0].astype(int) - image[..., 2]
            found = np.abs(lead) > 120
            inside = found[pixels(o.box, found.shape, 0.1)]
            assert inside.sum() > 0.95 * found.sum()
            assert inside.mean() > 0.5
            assert min(o.box[:2]) >= 0
            assert max(o.box[0] + o.box[2], o.box[1] + o.box[3]) <= 1 + 1e-9
        assert {o.identity for o in varied.objects} == {0}
        assert varied.sources == {"gate"}
    assert kept > 40


def test_a_window_makes_unsure_what_it_cuts_and_renumbers_members() -> None:
    """What may be there is drawn around the whole frame's edges, so that most windows cut some of it."""
    edges = tuple(SampleObject("before", "car", (x, 0.05, 0.2, 0.2), True, 9) for x in (0.0, 0.4, 0.8))
    pair = draft(APPEARED, extra=edges)
    pair = Draft(
        pair.kind,
        pair.camera,
        pair.before,
        pair.after,
        (SampleChange("appeared", "person", 1, None, APPEARED.box_after, members=(3,)),),
        (*edges, pair.objects[0]),
    )
    rng, cut, lost = np.random.default_rng(1), 0, 0
    for _ in range(200):
        part = window(pair, rng)
        if part is None:
            continue
        (change,) = part.changes
        (member,) = change.members
        assert part.objects[member].label == "person"
        assert part.objects[member].sure
        assert part.objects[member].box == change.box_after
        cut += sum(not o.sure for o in part.objects)
        lost += len(part.objects) < len(pair.objects)
    assert cut > 10
    assert lost > 10


def test_a_window_never_cuts_through_a_change() -> None:
    pair = draft(MOVED)
    rng = np.random.default_rng(2)
    parts = [window(pair, rng) for _ in range(200)]
    assert any(p is None for p in parts)
    for part in parts:
        if part is not None:
            assert [o.side for o in part.objects] == ["before", "after"]
            assert all(o.sure for o in part.objects)


def test_disturbing_leaves_changes_and_screens_cover_no_object() -> None:
    pair = draft(MOVED, APPEARED)
    rng, altered = np.random.default_rng(3), 0
    for _ in range(60):
        other = disturbed(pair, rng)
        assert (other.changes, other.objects) == (pair.changes, pair.objects)
        both = [not np.array_equal(a, b) for a, b in ((other.before, pair.before), (other.after, pair.after))]
        altered += any(both)
        if all(both):  # a screen, on both sides
            for o in pair.objects:
                image, was = (other.before, pair.before) if o.side == "before" else (other.after, pair.after)
                assert np.array_equal(
                    image[pixels(o.box, was.shape, -0.1)], was[pixels(o.box, was.shape, -0.1)]
                )
    assert altered > 50
