"""One narration per change, in order, with ids that depend on footage, settings and model alone."""

import dataclasses
from typing import Any, ClassVar

import cv2
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from still import shown

import models
from models.captioner import Captioner, DescribeOptions, PairInput, Sentence
from models.encoders import ENCODERS
from models.language.places import Zone
from models.language.templates import Statement
from models.papers.ddla import DDLA
from models.papers.vocabulary import Vocabulary, read
from pipeline.changes import Change, SceneEvent, find_changes
from pipeline.changes.difference import resize
from pipeline.narration.batch import align_images
from pipeline.narration.narration import (
    MOST_CORNERS,
    Narration,
    facts_sentence,
    narrate,
    narrate_facts,
    outline,
)
from pipeline.pairs import FramePair
from pipeline.record import ChainEnd, build_record, read_record

ALL = DescribeOptions(min_salience=0.0)


@pytest.fixture(scope="module")
def captioner() -> Captioner:
    torch.manual_seed(3)
    said = ["a car has appeared on the left", "the person in the middle is gone"]
    ddla = DDLA(Vocabulary.build(said, min_count=1), ENCODERS["efficientnet_lite0"]())
    ddla.sha256 = "ab" * 32
    return ddla.eval()


def _pair(*boxes: tuple[int, int], camera: str = "yard", beyond_upper: bool = False) -> FramePair:
    """A textured yard, in which white boxes stand at the given places afterwards."""
    texture = np.random.default_rng(7).integers(60, 110, (30, 40, 3), np.uint8)
    before = np.kron(texture, np.ones((8, 8, 1), np.uint8))
    after = before.copy()
    for x, y in boxes:
        after[y : y + 50, x : x + 30] = (250, 240, 200)
    return FramePair(shown(before, 0, camera), shown(after, 1, camera), 5.0, beyond_upper)


def _changes(*pairs: FramePair) -> list[Change]:
    return find_changes(pairs)


def test_one_narration_per_change_and_a_batch_equals_its_singles(captioner):
    changes = _changes(_pair((30, 40)), _pair(camera="lot"), _pair((30, 40), (250, 150), camera="gate"))
    together = narrate(changes, captioner, ALL)
    assert [n.camera for n in together] == ["yard", "lot", "gate"]
    assert together[1].sentences == ()
    assert together[0].sentences
    for change, narration in zip(changes, together, strict=True):
        (alone,) = narrate([change], captioner, ALL)
        assert alone.text == narration.text
        assert alone.id == narration.id
        for a, b in zip(alone.sentences, narration.sentences, strict=True):
            assert a.box == b.box
            assert a.confidence == pytest.approx(b.confidence, abs=1e-4)


def test_ids_are_deterministic_and_name_what_they_depend_on(captioner):
    first, again = (narrate(_changes(_pair((30, 40))), captioner, ALL, "s1")[0] for _ in range(2))
    assert first == again
    assert first.id.startswith("yard-20240301T120001.000Z-")
    other_settings = narrate(_changes(_pair((30, 40))), captioner, ALL, "s2")[0]
    other_pixels = narrate(_changes(_pair((30, 48))), captioner, ALL, "s1")[0]
    other_camera = narrate(_changes(_pair((30, 40), camera="lot")), captioner, ALL, "s1")[0]
    assert len({first.id, other_settings.id, other_pixels.id, other_camera.id}) == 4


def test_the_before_image_is_moved_onto_the_after_image(captioner):
    still = _pair((30, 40))
    shaken = np.roll(still.before.image, (3, 4), axis=(0, 1))
    pair = FramePair(shown(shaken, 0), still.after, 5.0)
    (change,) = _changes(pair)
    assert change.shift != (0, 0)
    size, mask = (224, 224), change.clusters[0].mask
    both = align_images(shaken, still.after.image, change.shift, (mask.shape[0], mask.shape[1]), size)
    images = (both[0], resize(still.before.image, size), resize(shaken, size))
    moved, meant, unmoved = (image.astype(int) for image in images)
    inner = (slice(10, -10), slice(10, -10))
    assert np.abs(moved - meant)[inner].mean() < 0.7 * np.abs(unmoved - meant)[inner].mean()


class Says:
    """Tells what the test wants, with the confidence it wants: what narration makes of it is tested."""

    name, sha256, sees_views, image_size = "says", "cd" * 32, False, (224, 224)
    record: ClassVar[dict[str, object]] = {}

    def __init__(self, *sentences: Sentence, min_confidence: float = 0.5) -> None:
        self.sentences, self.min_confidence, self.asked = sentences, min_confidence, list[DescribeOptions]()

    def describe(self, pairs: list[PairInput], options: DescribeOptions) -> list[list[Sentence]]:
        self.asked.append(options)
        return [list(self.sentences[: options.sentences]) for _ in pairs]


CAR = dataclasses.replace(
    Sentence("A car has appeared.", "appeared", "car", (0.1, 0.2, 0.1, 0.2), 0.9, 0.8),
    statement=Statement("appeared", "car"),
)


def sure(confidence: float, **changed: object) -> Sentence:
    return dataclasses.replace(CAR, confidence=confidence, **changed)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("confidences", "told", "why"),
    [
        ((0.8, 0.6), 2, ""),
        ((0.8, 0.4), 1, "unsure"),
        ((0.8, 0.1), 1, ""),
        ((0.4,), 0, "unsure"),
        ((0.1,), 0, "nothing of an object"),
        ((), 0, "nothing of an object"),
    ],
)
def test_what_is_held_back_has_a_reason(confidences, told, why):
    [narration] = narrate(_changes(_pair((30, 40))), Says(*map(sure, confidences)))  # type: ignore[arg-type]
    assert (len(narration.sentences), narration.abstained) == (told, why)
    assert narration.event is SceneEvent.NONE


def test_the_options_threshold_goes_before_the_captioners():
    changes, captioner = _changes(_pair((30, 40))), Says(sure(0.8), sure(0.6), sure(0.3))
    for least, told in ((None, 2), (0.7, 1), (0.2, 3), (0.95, 0)):
        [narration] = narrate(changes, captioner, DescribeOptions(min_confidence=least))  # type: ignore[arg-type]
        assert len(narration.sentences) == told
    assert {options.min_confidence for options in captioner.asked} == {0.0}, "it is asked for all it can say"
    [narration] = narrate(changes, captioner, DescribeOptions(max_sentences=1))  # type: ignore[arg-type]
    assert len(narration.sentences) == 1


def test_beside_a_change_of_light_only_what_is_sure_is_told():
    light = dataclasses.replace(_changes(_pair((30, 40)))[0], event=SceneEvent.LIGHT)
    for captioner, event, text in (
        (Says(sure(0.8)), SceneEvent.NONE, "A car has appeared."),
        (Says(sure(0.4)), SceneEvent.LIGHT, "The light has changed."),
        (Says(), SceneEvent.LIGHT, "The light has changed."),
        (Says(sure(0.8), min_confidence=0.0), SceneEvent.LIGHT, "The light has changed."),
    ):
        [narration] = narrate([light], captioner)  # type: ignore[arg-type]
        assert (narration.event, narration.text, narration.abstained) == (event, text, "")
    empty = dataclasses.replace(light, clusters=(), salience=light.salience[:0])
    silent = Says(sure(0.8))
    [narration] = narrate([empty], silent)  # type: ignore[arg-type]
    assert (narration.text, silent.asked) == ("The light has changed.", [])
    view = dataclasses.replace(light, event=SceneEvent.VIEW)
    [narration] = narrate([view], silent)  # type: ignore[arg-type]
    assert (narration.text, silent.asked) == ("The camera now shows another view.", [])


def test_outlines_and_colours_come_with_the_sides():
    pair = _pair((240, 100))
    painted = pair.after.image.copy()
    painted[100:150, 240:270] = (200, 25, 30)
    [change] = _changes(dataclasses.replace(pair, after=shown(painted, 1)))
    [cluster] = change.clusters
    came = sure(0.8, box=cluster.box, after=cluster.box)
    [plain] = narrate([change], Says(sure(0.8, box=cluster.box)))  # type: ignore[arg-type]
    assert plain.sentences[0].outline_after == ()
    [drawn] = narrate([change], Says(came))  # type: ignore[arg-type]
    assert len(drawn.sentences[0].outline_after) >= 3
    assert drawn.sentences[0].outline_before == ()
    assert drawn.text == "A red car has appeared."
    [bare] = narrate([change], Says(came), DescribeOptions(colours=False))  # type: ignore[arg-type]
    assert bare.text == "A car has appeared."


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
def test_the_sentence_says_where(boxes, text):
    sentence = facts_sentence(boxes, DescribeOptions())
    assert sentence.text == text
    wording = read(text)  # type and object are what any reader of the text would find
    assert (sentence.type, sentence.object) == (wording.type, wording.object)
    assert sentence.confidence == 0


def test_its_box_holds_all_clusters_and_a_zone_is_a_place():
    lot = Zone("in the Lot", ((0, 0.5), (0.5, 0.5), (0.5, 1), (0, 1)))
    sentence = facts_sentence([LEFT, RIGHT], DescribeOptions(zones=(lot,)))
    assert sentence.text == "Something has changed in the Lot and on the right."
    assert sentence.box == pytest.approx((0.1, 0.4, 0.8, 0.2))
    assert facts_sentence([(0, 0, 1, 1)], DescribeOptions()).text == "Something has changed."


def facts(pair: FramePair, **options: Any) -> Narration:
    """What is told without a captioner, under the id that it would have had with one."""
    captioner = models.load_captioner(models.SHIPPED["ddla"])
    (change,) = _changes(pair)
    narration = narrate_facts(change, captioner, settings_sha256="d" * 64, **options)
    (usual,) = narrate([change], captioner, settings_sha256="d" * 64)
    assert (narration.id, narration.before, narration.after) == (usual.id, usual.before, usual.after)
    return narration


def test_without_a_captioner_nothing_is_told_of_nothing_unless_nobody_could_look():
    assert facts(_pair()).sentences == ()
    assert facts(_pair(), placed=False).text == "Something has changed."
    dark = _pair()
    bright = np.clip(dark.before.image.astype(int) + 100, 0, 255).astype(np.uint8)
    lit = dataclasses.replace(dark, after=shown(bright, 1), beyond_upper=True)
    assert facts(lit).text == "The light has changed."


@pytest.mark.parametrize("options", [None, DescribeOptions(depth=True)])
def test_a_journal_takes_it_without_a_hash_of_the_settings(options):
    captioner = models.load_captioner(models.SHIPPED["ddla"])
    (change,) = _changes(_pair((30, 40)))
    (told,) = narrate([change], captioner, options)
    late = narrate_facts(change, captioner, options)
    for narration in (told, late):
        assert read_record(build_record(narration, ChainEnd()).line()).id == late.id
    (other,) = narrate([change], captioner, DescribeOptions(colours=False))
    assert other.id != told.id


WHOLE = (0.0, 0.0, 1.0, 1.0)
HEIGHT, WIDTH = 72, 96
boxes = st.tuples(st.floats(-0.2, 0.9), st.floats(-0.2, 0.9), st.floats(0.02, 1.2), st.floats(0.02, 1.2))


def filled(corners, shape=(HEIGHT, WIDTH)):
    """Pixels whose centre the polygon encloses."""
    points = np.array(corners) * (shape[1], shape[0])
    rows, columns = np.mgrid[: shape[0], : shape[1]] + 0.5
    flat = [
        cv2.pointPolygonTest(points.astype(np.float32), (float(x), float(y)), measureDist=False) >= 0
        for y, x in zip(rows.ravel(), columns.ravel(), strict=True)
    ]
    return np.array(flat).reshape(shape)


def blob(x, y, across, down, turn=0):
    mask = np.zeros((HEIGHT, WIDTH), np.uint8)
    cv2.ellipse(mask, (x, y), (across, down), turn, 0, 360, 1, cv2.FILLED)
    return mask.astype(bool)


@given(st.integers(0, 2**32 - 1), st.floats(0.0, 0.9), boxes)
@settings(max_examples=60, deadline=None)
def test_every_corner_lies_in_the_box_and_in_the_frame(seed, emptiness, box):
    mask = np.random.default_rng(seed).random((HEIGHT, WIDTH)) > emptiness
    corners = outline(mask, box)
    assert len(corners) == 0 or 3 <= len(corners) <= MOST_CORNERS
    for x, y in corners:
        assert max(0, box[0]) <= x <= min(1, box[0] + box[2])
        assert max(0, box[1]) <= y <= min(1, box[1] + box[3])


@given(st.integers(20, 75), st.integers(20, 50), st.integers(2, 18), st.integers(2, 18), st.integers(0, 180))
@settings(max_examples=40, deadline=None)
def test_the_polygon_covers_most_of_a_thing_and_little_beside_it(x, y, across, down, turn):
    mask = blob(x, y, across, down, turn)
    inside = filled(outline(mask, WHOLE))
    assert (inside & mask).sum() >= 0.9 * mask.sum()
    assert (inside & ~mask).sum() <= 0.1 * mask.sum() + 4


def test_only_what_lies_in_the_box_is_outlined():
    mask = blob(20, 30, 8, 12) | blob(70, 30, 15, 20)
    left = filled(outline(mask, (0.0, 0.0, 0.5, 1.0)))
    assert not left[:, 48:].any()
    assert left[30, 20]
    both = filled(outline(mask, WHOLE))  # one outline tells one thing: the larger
    assert both[30, 70]
    assert not both[30, 20]


def test_a_torn_mask_gives_one_thing():
    mask = blob(45, 35, 14, 20)
    mask[::3] = False
    inside = filled(outline(mask, WHOLE))
    assert (inside & blob(45, 35, 14, 20)).sum() > 0.9 * blob(45, 35, 14, 20).sum()


@pytest.mark.parametrize("rows", [slice(30, 31), slice(30, 60)])
def test_the_smallest_things_keep_an_area(rows):
    mask = np.zeros((HEIGHT, WIDTH), bool)
    mask[rows, 50] = True
    assert (filled(outline(mask, WHOLE)) == mask).all()


def test_nothing_active_no_outline():
    mask = blob(20, 30, 8, 12)
    assert outline(mask, (0.5, 0.0, 0.5, 1.0)) == ()
    assert outline(mask, (1.0, 0.2, 0.0, 0.3)) == ()
    assert outline(np.zeros((HEIGHT, WIDTH), bool), WHOLE) == ()
