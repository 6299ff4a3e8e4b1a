from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from models.boxes import Box
from models.captioner import Sentence
from models.language.wording import read
from train.gallery.verdicts import FAULTS, judge, meets, shares
from train.samples import Sample, SampleChange, SampleObject

LEFT: Box = (0.1, 0.4, 0.1, 0.2)
RIGHT: Box = (0.7, 0.4, 0.1, 0.2)
CAME = SampleChange("appeared", "car", 1, None, LEFT)
GONE = SampleChange("disappeared", "person", 1, RIGHT, None)
MOVED = SampleChange("moved", "car", 1, LEFT, RIGHT)


def sample(*changes: SampleChange, objects: tuple[SampleObject, ...] = (), kind: str = "pasted") -> Sample:
    return Sample("a", Path("a"), Path("b"), ("-",), changes, "yard", kind, (), objects)


def says(text: str, box: Box | None = LEFT, **more: object) -> Sentence:
    claim = read(text)
    return replace(Sentence(text, claim.type, claim.object, box, 1.0, 0.5), **more)


def wrong(text: str, *changes: SampleChange, box: Box | None = LEFT) -> tuple[str, ...]:
    [verdict] = judge([says(text, box)], sample(*changes))
    assert verdict.right == (not set(verdict.wrong) - {"count"})
    return verdict.wrong


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        ("A car has appeared on the left.", ()),
        ("A van has appeared.", ()),  # one family
        ("A vehicle has appeared at the far left.", ()),
        ("There are more cars on the left.", ("count",)),
        ("The car on the left is gone.", ("type",)),
        ("The car on the left has moved.", ("type",)),
        ("A person has appeared on the left.", ("object",)),
        ("A car has appeared on the right.", ("place",)),
        ("Three people are gone at the bottom right.", ("type", "object", "place", "count")),
        ("Two cars have appeared in the middle of the left.", ("count",)),
    ],
)
def test_wrong_in_what(text: str, faults: tuple[str, ...]) -> None:
    assert set(wrong(text, CAME)) == set(faults)


def test_a_box_elsewhere_is_about_nothing() -> None:
    text = "A car has appeared on the left."
    assert wrong(text, CAME, box=RIGHT) == ("nothing there",)
    assert wrong(text) == ("nothing there",)
    assert wrong(text, CAME, box=(0.0, 0.0, 1.0, 1.0)) == ("box too large",)
    assert wrong(text, CAME, box=None) == ()  # its words say where
    assert wrong("A car has appeared.", CAME, box=None) == ("nothing there",)


def test_each_sentence_takes_the_change_that_it_fits() -> None:
    near = SampleChange("disappeared", "car", 1, (0.12, 0.42, 0.1, 0.2), None)
    told = [says("The car is gone."), says("A car has appeared."), says("The person is gone.", RIGHT)]
    verdicts = judge(told, sample(CAME, near, GONE))
    assert [v.tells for v in verdicts] == [(1,), (0,), (2,)]
    assert all(v.right and not v.wrong for v in verdicts)
    assert {v.camera for v in verdicts} == {"yard"}


def test_what_is_told_twice_is_wrong_once() -> None:
    first, second = judge([says("A car has appeared."), says("A van has appeared.")], sample(CAME))
    assert first.right
    assert second.wrong == ("told before",)


def test_several_objects_in_one_sentence_or_in_several() -> None:
    two = replace(CAME, type="more", count=2)
    assert wrong("Two cars have appeared.", two) == ()
    assert wrong("There are more cars.", two) == ()
    assert wrong("A car has appeared.", two) == ("count",)
    apart = [says("A car has appeared."), says("A car has appeared.", (0.15, 0.4, 0.04, 0.1))]
    each = judge(apart, sample(two))
    assert [v.wrong for v in each] == [(), ()]
    other = SampleChange("appeared", "car", 1, None, (0.22, 0.4, 0.1, 0.2))
    [both] = judge([says("Two cars have appeared.", (0.1, 0.4, 0.22, 0.2))], sample(CAME, other))
    assert sorted(both.tells) == [0, 1]
    assert both.wrong == ()


def test_moved_may_be_gone_and_come_only_where_identity_is_open() -> None:
    told = [says("The car is gone.", LEFT), says("A car has appeared.", RIGHT)]
    strict = judge(told, sample(MOVED))
    assert not any(v.type for v in strict)
    assert all(v.right for v in judge(told, sample(MOVED, kind="real")))
    turned = judge([says("A car has appeared.", LEFT)], sample(MOVED, kind="real"))
    assert turned[0].wrong == ("type",)
    ends = (SampleObject("before", "car", LEFT, True, -1), SampleObject("after", "car", RIGHT, True, -1))
    known = tuple(replace(each, identity=4) for each in ends)
    open_ = replace(MOVED, members=(0, 1))
    assert all(v.right for v in judge(told, sample(open_, objects=ends)))
    assert not any(v.right for v in judge(told, sample(open_, objects=known, kind="real")))
    came = replace(CAME, members=(0,))
    maybe = (SampleObject("after", "car", LEFT, True, -1),)
    moved = says("The car on the left has moved.")
    assert judge([moved], sample(came, objects=maybe))[0].right
    assert not judge([moved], sample(came, objects=(replace(maybe[0], identity=0),)))[0].right


def test_replaced_is_also_gone_and_come() -> None:
    other = SampleChange("replaced", "car", 1, LEFT, LEFT)
    told = [says("The car is gone."), says("A car has appeared.")]
    assert all(v.right for v in judge(told, sample(other)))
    assert judge([says("A different car is now on the left.")], sample(other))[0].right


def test_where_the_truth_is_not_known_nothing_is_counted() -> None:
    doubtful = SampleObject("after", "car", LEFT, False, -1)
    [verdict] = judge([says("A car has appeared.")], sample(objects=(doubtful,)))
    assert not verdict.counted
    assert verdict.wrong == ()
    assert not judge([says("Nothing has changed.", None)], sample())[0].counted


def test_the_sides_of_a_sentence_say_where_too() -> None:
    sided = says("The car on the left has moved to the right.", None, before=LEFT, after=RIGHT)
    assert judge([sided], sample(MOVED))[0].right


def test_meeting_boxes() -> None:
    assert meets(LEFT, LEFT)
    assert not meets(LEFT, RIGHT)
    assert not meets((0.14, 0.48, 0.02, 0.03), LEFT)  # a 33rd of it
    assert meets((0.14, 0.48, 0.02, 0.03), LEFT, count=2)  # a 17th of each of two
    assert meets((0.0, 0.1, 0.3, 0.5), LEFT)
    assert not meets((0.0, 0.0, 0.3, 0.8), LEFT)  # twelve times as large


def test_shares_count_what_can_be_judged() -> None:
    doubtful = SampleObject("after", "car", RIGHT, False, -1)
    told = [
        says("A car has appeared."),
        says("A person has left.", (0.11, 0.42, 0.08, 0.16)),
        says("A car is new.", RIGHT),
    ]
    verdicts = judge(told, sample(CAME, objects=(doubtful,)))
    counted = shares(verdicts)
    assert (counted.sentences, counted.right) == (2, 0.5)
    assert set(counted.wrong) == set(FAULTS)
    assert counted.wrong["told before"] == 0.5
    assert shares([]).right is None
