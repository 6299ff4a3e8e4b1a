import numpy as np
import pytest

from pipeline.clusters import Cluster
from train.compose.differences import Side, as_comparison, as_objects, explained, match, seen_objects, shown
from train.footage.identity import link, vote
from train.footage.teacher import Detection
from train.samples import SampleChange, SampleObject

GREY = np.full((100, 200, 3), 90, np.uint8)


def side(*seen: tuple[str, tuple[float, float, float, float], float], tracks=(), together=()) -> Side:
    return Side(GREY, tuple(Detection(*s) for s in seen), tracks, frozenset(together))


def cluster(*boxes: tuple[int, int, int, int]) -> Cluster:
    """A cluster of filled boxes, in pixels of a 100 x 200 mask."""
    mask = np.zeros((100, 200), bool)
    for x, y, width, height in boxes:
        mask[y : y + height, x : x + width] = True
    rows, columns = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
    box = (columns[0] / 200, rows[0] / 100, len(columns) / 200, len(rows) / 100)
    return Cluster(mask, box, int(mask.sum()))


CAR, FAR = (0.1, 0.3, 0.1, 0.1), (0.7, 0.3, 0.1, 0.1)


def test_what_is_on_both_sides_is_no_change() -> None:
    found = match(side(("car", CAR, 0.9)), side(("bus", (0.11, 0.3, 0.1, 0.1), 0.6)))
    assert found.changes == ()


def test_appeared_and_disappeared() -> None:
    found = match(side(("car", CAR, 0.9)), side(("person", FAR, 0.9)))
    assert found.changes == (
        SampleChange("disappeared", "car", 1, CAR, None, members=(0,)),
        SampleChange("appeared", "person", 1, None, FAR, members=(1,)),
    )
    assert found.objects == (
        SampleObject("before", "car", CAR, True, 0),
        SampleObject("after", "person", FAR, True, 1),
    )


def test_the_same_track_elsewhere_has_moved() -> None:
    found = match(side(("car", CAR, 0.9), tracks=(4,)), side(("car", FAR, 0.9), tracks=(4,)))
    assert found.changes == (SampleChange("moved", "car", 1, CAR, FAR, members=(0, 1)),)
    assert [(o.side, o.sure, o.identity) for o in found.objects] == [("before", True, 0), ("after", True, 0)]


def test_near_and_alike_has_moved_unless_both_were_seen_together() -> None:
    near = (0.22, 0.3, 0.1, 0.1)
    found = match(side(("car", CAR, 0.9)), side(("car", near, 0.9)))
    assert [c.type for c in found.changes] == ["moved"]
    assert [o.identity for o in found.objects] == [-1, -1], "a likeness does not prove that they are one"
    apart = match(
        side(("car", CAR, 0.9), tracks=(1,), together=[(1, 2)]), side(("car", near, 0.9), tracks=(2,))
    )
    assert [c.type for c in apart.changes] == ["disappeared", "appeared"]
    assert [o.identity for o in apart.objects] == [0, 1]


def test_another_one_at_the_same_place_has_replaced_the_first() -> None:
    before = side(("car", CAR, 0.9), tracks=(1,), together=[(1, 2)])
    found = match(before, side(("car", CAR, 0.9), tracks=(2,)))
    assert [c.type for c in found.changes] == ["replaced"]
    assert [(o.side, o.identity) for o in found.objects] == [("before", 0), ("after", 1)]


def test_of_what_may_be_one_of_several_the_identity_is_not_known() -> None:
    before = side(("car", CAR, 0.9), ("person", (0.5, 0.3, 0.05, 0.2), 0.9))
    found = match(before, side(("car", FAR, 0.9), ("bus", (0.1, 0.8, 0.1, 0.1), 0.9)))
    numbers = {(o.side, o.label): o.identity for o in found.objects}
    assert numbers["before", "car"] == numbers["after", "car"] == numbers["after", "bus"] == -1
    assert numbers["before", "person"] >= 0, "no person is on the other side"


def test_a_weak_detection_is_not_told_but_remembered() -> None:
    found = match(side(), side(("car", CAR, 0.3)))
    assert found.changes == ()
    assert [o.box for o in found.objects if not o.sure] == [CAR]
    (weak,) = found.objects
    assert (weak.side, weak.label, weak.box, weak.sure) == ("after", "car", CAR, False)


def test_only_what_the_mask_shows_is_told() -> None:
    near, far = SampleChange("appeared", "car", 1, None, CAR), SampleChange("appeared", "car", 1, None, FAR)
    assert shown([near, far], [cluster((20, 30, 15, 10))]) == (near,)
    assert shown([near], [cluster((100, 50, 60, 40))]) == ()
    assert shown([near], []) == ()


def test_neighbours_in_one_cluster_are_a_group_and_scattered_ones_are_not() -> None:
    beside = (0.21, 0.3, 0.1, 0.1)
    changes = [
        SampleChange("appeared", "car", 1, None, b, members=(k,)) for k, b in enumerate((CAR, beside, FAR))
    ]
    told = shown(changes, [cluster((20, 30, 42, 10), (140, 30, 20, 10))])
    assert sorted((c.count, c.box_after, c.members) for c in told) == [
        (1, FAR, (2,)),
        (2, pytest.approx((0.1, 0.3, 0.21, 0.1)), (0, 1)),
    ]


def test_objects_of_changes_that_are_known_to_the_pixel() -> None:
    changes, objects = as_objects(
        [
            SampleChange("appeared", "car", 1, None, CAR),
            SampleChange("moved", "person", 1, CAR, FAR),
            SampleChange("replaced", "car", 1, FAR, FAR),
        ]
    )
    assert [c.members for c in changes] == [(0,), (1, 2), (3, 4)]
    assert [(o.side, o.label) for o in objects] == [
        ("after", "car"),
        ("before", "person"),
        ("after", "person"),
        ("before", "car"),
        ("after", "car"),
    ]
    numbers = [o.identity for o in objects]
    assert numbers[1] == numbers[2]
    assert len({*numbers}) == 4


def test_objects_follow_the_mask() -> None:
    middle = (0.4, 0.6, 0.1, 0.2)
    objects = [
        SampleObject("after", "person", middle, False, -1),
        SampleObject("after", "car", CAR, True, 0),
        SampleObject("after", "car", FAR, True, 1),
        SampleObject("before", "car", (0.65, 0.3, 0.1, 0.1), False, -1),
    ]
    change = SampleChange("appeared", "car", 1, None, CAR, members=(1,))
    left, (named,) = seen_objects(objects, [change], [cluster((20, 30, 20, 10)), cluster((132, 30, 4, 10))])
    assert left == (objects[1], SampleObject("after", "car", FAR, False, 1), objects[3])
    assert named.members == (0,)


def test_a_group_beside_others_of_its_kind_is_more() -> None:
    group = SampleChange("appeared", "car", 2, None, (0.3, 0.3, 0.2, 0.1))
    assert as_comparison(group, [(0.5, 0.3, 0.1, 0.1)]).type == "more"
    assert as_comparison(group, [(0.8, 0.8, 0.1, 0.1)]).type == "appeared"
    gone = SampleChange("disappeared", "car", 2, (0.3, 0.3, 0.2, 0.1), None)
    assert as_comparison(gone, [(0.5, 0.3, 0.1, 0.1)]).type == "fewer"
    single = SampleChange("appeared", "car", 1, None, (0.3, 0.3, 0.2, 0.1))
    assert as_comparison(single, [(0.5, 0.3, 0.1, 0.1)]) == single


def test_explained_share() -> None:
    clusters = [cluster((20, 30, 20, 10)), cluster((140, 30, 20, 10))]
    assert explained(clusters, [CAR], margin=0) == pytest.approx(0.5)
    assert explained(clusters, [CAR, FAR], margin=0) == 1
    assert explained([], []) == 1


def test_tracks_follow_an_object_and_survive_a_gap() -> None:
    def at(x: float) -> tuple[Detection, ...]:
        return (Detection("car", (x, 0.3, 0.1, 0.1), 0.8), Detection("person", (0.8, 0.3, 0.05, 0.2), 0.8))

    seen = [at(0.1), at(0.15), (at(0.2)[1],), at(0.22)]
    tracks = link([GREY] * 4, seen)
    assert tracks == ((0, 1), (0, 1), (1,), (0, 1))
    assert link([GREY] * 2, [at(0.1)[:1], at(0.6)[:1]]) == ((0,), (1,))
    assert link([GREY] * 4, seen, gaps={2}) == ((0, 1), (0, 1), (2,), (3, 2))


def test_a_track_has_one_label_and_a_doubtful_bus_is_a_vehicle() -> None:
    box = (0.1, 0.1, 0.2, 0.2)
    seen = [
        (Detection("bus", box, 0.5),),
        (Detection("car", box, 0.8),),
        (Detection("bus", box, 0.2), Detection("bus", box, 0.6)),
        (Detection("bus", box, 0.9),),
    ]
    voted = vote(seen, [(1,), (1,), (1, 2), (3,)])
    assert [[d.label for d in own] for own in voted] == [["car"], ["car"], ["car", "vehicle"], ["bus"]]
    assert voted[1][0].score == 0.8
