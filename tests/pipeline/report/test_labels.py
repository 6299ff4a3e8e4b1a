from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.report.labels import Rectangle, place_labels

PICTURE = (352, 288)
SIZE = (18, 16)
corners = st.tuples(st.integers(0, 352), st.integers(0, 288))
things = st.lists(
    st.tuples(corners, corners).map(
        lambda ends: Rectangle(*map(min, *ends), abs(ends[0][0] - ends[1][0]), abs(ends[0][1] - ends[1][1]))
    ),
    max_size=9,
)


def placed(some, picture=PICTURE):
    return place_labels(some, [thing.x for thing in some], [SIZE] * len(some), picture)


@given(things)
@settings(max_examples=80, deadline=None)
def test_no_label_lies_on_another_and_all_lie_in_the_picture(some):
    labels = placed(some)
    assert len(labels) == len(some)
    for i, label in enumerate(labels):
        assert (label.width, label.height) == SIZE
        assert 0 <= label.x <= PICTURE[0] - SIZE[0]
        assert 0 <= label.y <= PICTURE[1] - SIZE[1]
        assert not any(label.shared(other) for other in labels[:i])


def test_the_same_thing_nine_times_has_nine_labels_near_it():
    thing = Rectangle(100, 100, 30, 30)
    labels = placed([thing] * 9)
    assert all(thing.gap(label) <= 3 * SIZE[1] for label in labels)


def test_a_label_stands_over_its_own_things_peak_and_on_no_other_thing():
    [label] = place_labels([Rectangle(100, 100, 80, 60)], [150], [SIZE], PICTURE)
    assert label == Rectangle(141, 83, *SIZE)
    crowd = [Rectangle(x, y, 30, 30) for y in (60, 95, 130) for x in (60, 95, 130)]
    labels = placed(crowd)
    for own, label in zip(crowd, labels, strict=True):
        assert own.gap(label) <= 2
        assert not any(label.shared(thing) for thing in crowd if thing is not own)


def test_a_thing_that_fills_the_picture_has_its_label_inside():
    [label] = placed([Rectangle(0, 0, *PICTURE)])
    assert (label.x, label.y) == (0, 0)


def test_where_there_is_no_room_labels_still_have_a_place():
    labels = placed([Rectangle(2, 2, 10, 10)] * 3, (20, 16))
    assert len(labels) == 3
