"""What is told without a captioner: where, as far as the clusters tell, and marked as such."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from still import Still

import models
from models.boxes import Box
from models.captioner import DescribeOptions
from models.language.places import Zone
from models.papers.wording import read
from pipeline.changes import ChangeOptions, find_changes
from pipeline.distance import l2_rgb
from pipeline.narration.narration import LATE, Narration, facts_sentence, narrate, narrate_facts
from pipeline.pairs import FramePair
from pipeline.record import ChainEnd, build_record, read_record
from pipeline.sources import Clock, Frame

LEFT, RIGHT, TOP = (0.1, 0.4, 0.1, 0.2), (0.8, 0.4, 0.1, 0.2), (0.45, 0.0, 0.1, 0.1)


@pytest.mark.parametrize(
    ("boxes", "text"),
    [
        ([], "Something has changed."),
        ([LEFT], "Something has changed on the left."),
        ([LEFT, LEFT, RIGHT], "Something has changed on the left and on the right."),
        ([LEFT, TOP, RIGHT], "Something has changed in several places."),
    ],
)
def test_the_sentence_says_where(boxes: list[Box], text: str) -> None:
    sentence = facts_sentence(boxes, DescribeOptions())
    assert sentence.text == text
    wording = read(text)  # type and object are what any reader of the text would find
    assert (sentence.type, sentence.object) == (wording.type, wording.object)
    assert sentence.confidence == 0


def test_its_box_holds_all_clusters_and_a_zone_is_a_place() -> None:
    lot = Zone("in the Lot", ((0, 0.5), (0.5, 0.5), (0.5, 1), (0, 1)))
    sentence = facts_sentence([LEFT, RIGHT], DescribeOptions(zones=(lot,)))
    assert sentence.text == "Something has changed in the Lot and on the right."
    assert sentence.box == pytest.approx((0.1, 0.4, 0.8, 0.2))
    assert facts_sentence([(0, 0, 1, 1)], DescribeOptions()).text == "Something has changed."


def frame(t: float, paint: Callable[[np.ndarray], None]) -> Frame:
    image = np.full((240, 320, 3), 90, np.uint8)
    paint(image)
    time = datetime(2024, 3, 1, tzinfo=UTC) + timedelta(seconds=t)
    return Frame("yard", time, Clock.RTCP, round(t), image[..., 0].copy(), Still(image))


def facts(paint: Callable[[np.ndarray], None], *, beyond: bool = False, placed: bool = True) -> Narration:
    first, last = frame(0, lambda _: None), frame(4, paint)
    pair = FramePair(first, last, l2_rgb(first.image, last.image)[0], beyond_upper=beyond)
    captioner = models.load_captioner(models.SHIPPED["ddla"])
    (change,) = find_changes([pair], ChangeOptions())
    narration = narrate_facts(change, captioner, LATE, settings_sha256="d" * 64, placed=placed)
    (usual,) = narrate([change], captioner, settings_sha256="d" * 64)
    assert (narration.id, narration.before, narration.after) == (usual.id, usual.before, usual.after)
    return narration


@pytest.mark.parametrize("options", [None, DescribeOptions(depth=True)])
def test_a_journal_takes_it_without_a_hash_of_the_settings(options: DescribeOptions | None) -> None:
    pair = FramePair(frame(0, lambda _: None), frame(4, box), 50.0)
    captioner = models.load_captioner(models.SHIPPED["ddla"])
    (change,) = find_changes([pair], ChangeOptions())
    (told,) = narrate([change], captioner, options)
    late = narrate_facts(change, captioner, LATE, options)
    for narration in (told, late):
        assert read_record(build_record(narration, ChainEnd()).line()).id == late.id
    (other,) = narrate([change], captioner, DescribeOptions(colours=False))
    assert other.id != told.id


def box(image: np.ndarray) -> None:
    image[70:130, 20:80] = 230


def test_a_change_is_told_and_the_record_says_that_no_captioner_did() -> None:
    narration = facts(box)
    assert narration.text == "Something has changed on the left."
    record = build_record(narration, ChainEnd())
    assert record.fallback == LATE
    assert read_record(record.line()) == record
    assert b'"fallback":"late"' in record.line()


def test_where_nothing_is_found_nothing_is_told_unless_nobody_could_look() -> None:
    assert facts(lambda _: None).sentences == ()
    assert facts(lambda _: None, placed=False).text == "Something has changed."


def test_a_scene_event_is_told_as_ever() -> None:
    def bright(image: np.ndarray) -> None:
        image[:] = 220

    assert facts(bright, beyond=True).text == "The light has changed."
