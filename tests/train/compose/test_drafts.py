from dataclasses import replace

import numpy as np
import pytest

from models.boxes import iou
from pipeline.changes import image_changes
from train.compose.drafts import Draft, SplitFootage, against_median, behind, erased, nuisance, real
from train.compose.objects import apart, cut, matte_of, moving, object_bank, pixels, solidity
from train.compose.overlay import paste
from train.compose.pasted import pasted
from train.footage.recipe import Plans, Recipe
from train.footage.scenes import Scene
from train.footage.teacher import Detection

HEIGHT, WIDTH, SIDE = 144, 192, 24


def ground() -> np.ndarray:
    rng = np.random.default_rng(5)
    rough = rng.integers(70, 150, (HEIGHT // 8, WIDTH // 8, 3), np.uint8)
    return np.kron(rough, np.ones((8, 8, 1), np.uint8))


def driving_scene(frames: int = 12) -> Scene:
    """A red disc that drives along the lower half of a textured ground."""
    median = ground()
    rows, columns = np.mgrid[0:HEIGHT, 0:WIDTH]
    images, detections = [], []
    for k in range(frames):
        x, y = 8 + k * 12, 80
        disc = (rows - y - SIDE / 2) ** 2 + (columns - x - SIDE / 2) ** 2 < (SIDE / 2) ** 2
        image = median.copy()
        image[disc] = (230, 20, 30)
        images.append(image)
        box = (x / WIDTH, y / HEIGHT, SIDE / WIDTH, SIDE / HEIGHT)
        detections.append((Detection("car", box, 0.9),))
    times = tuple(float(k) for k in range(frames))
    tracks = tuple((0,) for _ in range(frames))
    return Scene("road", "road.mp4", times, tuple(images), median, tuple(detections), tracks, ())


@pytest.fixture(scope="module")
def scene() -> Scene:
    return driving_scene()


@pytest.fixture(scope="module")
def footage(scene: Scene) -> SplitFootage:
    return SplitFootage({"road": (scene,)}, object_bank([scene]))


def test_matte_is_the_object(scene: Scene) -> None:
    matte, cover = matte_of(scene.images[4], scene.median, scene.detections[4][0].box)
    assert cover == pytest.approx(np.pi / 4, abs=0.04)
    assert solidity(matte) > 0.9
    assert matte[matte.shape[0] // 2, matte.shape[1] // 2] == 1
    assert matte[0, 0] == 0
    empty, nothing = matte_of(scene.median, scene.median, scene.detections[4][0].box)
    assert nothing == 0
    assert empty.max() == 0


def test_bank_holds_what_moves(scene: Scene, footage: SplitFootage) -> None:
    assert moving(scene, 4) == [0]
    crop = cut(scene, 4, 0)
    assert crop is not None
    assert (crop.label, crop.camera) == ("car", "road")
    assert crop.foot == pytest.approx((80 + SIDE) / HEIGHT)
    assert crop.image[crop.matte == 1].mean(0) == pytest.approx((230, 20, 30))
    assert list(footage.bank) == ["car"]
    parked = replace(scene, images=(scene.median,) * 12)
    assert object_bank([parked]) == {}


def test_what_is_cut_off_is_not_cut_out(scene: Scene) -> None:
    box = (0.0, *scene.detections[0][0].box[1:])
    there = replace(scene, detections=((Detection("car", box, 0.9),), *scene.detections[1:]))
    assert cut(there, 0, 0) is None


def test_erasing_leaves_the_ground(scene: Scene) -> None:
    rng = np.random.default_rng(1)
    draft = next(d for d in (erased(scene, rng) for _ in range(50)) if d is not None)
    (change,) = draft.changes
    assert (change.type, change.object, change.box_after) == ("disappeared", "car", None)
    assert change.box_before is not None
    window = pixels(change.box_before, draft.after.shape, margin=-0.1)
    assert np.array_equal(draft.after[window], scene.median[window])
    assert not np.array_equal(draft.before[window], scene.median[window])


def test_nothing_is_erased_where_it_is_not_known_what_is_behind(scene: Scene) -> None:
    box = scene.detections[4][0].box
    ghost = replace(scene, standing=(Detection("car", box, 0.4),))
    assert behind(scene, 4, 0) is not None
    assert behind(ghost, 4, 0) is None
    smaller = (Detection("car", (box[0], box[1], box[2] / 2, box[3]), 0.9),)
    half_seen = replace(scene, detections=(*scene.detections[:4], smaller, *scene.detections[5:]))
    assert behind(half_seen, 4, 0) is None


def test_real_pairs_follow_the_track(scene: Scene) -> None:
    rng = np.random.default_rng(1)
    draft = next(d for d in (real(scene, rng) for _ in range(50)) if d is not None)
    (change,) = draft.changes
    assert change.type == "moved"
    assert draft.guessed
    against = next(d for d in (against_median(scene, rng) for _ in range(50)) if d is not None)
    assert [c.type for c in against.changes] == ["appeared"]


def test_pasted_objects_are_where_the_labels_say(scene: Scene, footage: SplitFootage) -> None:
    rng = np.random.default_rng(2)
    drafts = [d for d in (pasted(scene, footage, rng) for _ in range(200)) if d is not None]
    assert {c.type for d in drafts for c in d.changes} >= {"appeared", "moved"}
    assert max(len(d.changes) for d in drafts) > 1
    for draft in drafts:
        differs = np.abs(draft.before.astype(int) - draft.after).max(axis=2) > 20
        for change in draft.changes:
            for box in (change.box_before, change.box_after):
                if box is not None and change.type != "replaced":
                    assert differs[pixels(box, differs.shape)].mean() > 0.15
                    assert min(box[:2]) > 0
                    assert box[0] + box[2] < 1
                    assert all(iou(box, standing) < 0.1 for _, standing in draft.standing)


def pasted_by(plan: str, scene: Scene, footage: SplitFootage, count: int = 150) -> list[Draft]:
    """What one plan alone pastes."""
    plans = Plans(**{name: float(name == plan) for name in Plans.__slots__})
    own = replace(footage, recipe=Recipe(plans=plans, small_share=0.0, unknown_share=0.0))
    rng = np.random.default_rng(3)
    return [d for d in (pasted(scene, own, rng) for _ in range(count)) if d is not None]


def test_a_group_has_its_members_one_by_one(scene: Scene, footage: SplitFootage) -> None:
    drafts = pasted_by("group", scene, footage)
    assert drafts
    for draft in drafts:
        assert len(draft.objects) >= 2
        assert {o.side for o in draft.objects} == {"after"}
        assert len({o.identity for o in draft.objects}) == len(draft.objects)
        assert [c.members for c in draft.changes] == [(k,) for k in range(len(draft.objects))]


def test_what_moves_is_one_and_what_is_replaced_is_two(scene: Scene, footage: SplitFootage) -> None:
    moved = pasted_by("moved", scene, footage)
    other = replace(footage.bank["car"][0], camera="gate", origin="gate.mp4:1")
    replaced = pasted_by("replaced", scene, replace(footage, bank={"car": (*footage.bank["car"], other)}))
    for drafts, same in ((moved, True), (replaced, False)):
        assert drafts
        for draft in drafts:
            first, second = draft.objects
            assert (first.side, second.side) == ("before", "after")
            assert (first.identity == second.identity) == same
            assert min(first.identity, second.identity) >= 0


def test_many_are_on_both_sides_and_small(scene: Scene, footage: SplitFootage) -> None:
    drafts = pasted_by("many", scene, footage)
    assert {o.side for d in drafts for o in d.objects} == {"before", "after"}
    assert max(len(d.objects) for d in drafts) >= 4
    heights = [o.box[3] * 288 for d in drafts for o in d.objects]
    assert sum(h < 41 for h in heights) > len(heights) / 2


def test_sources_name_whose_footage_was_pasted(scene: Scene, footage: SplitFootage) -> None:
    foreign = {"car": tuple(replace(c, camera="gate") for c in footage.bank["car"])}
    drafts = pasted_by("single", scene, replace(footage, bank=foreign))
    assert drafts
    assert {d.camera for d in drafts} == {"road"}
    assert all(d.sources == {"gate"} for d in drafts)


def test_rare_scenes_and_every_object_are_drawn(scene: Scene, footage: SplitFootage) -> None:
    bus = replace(scene, detections=tuple((Detection("bus", seen[0].box, 0.9),) for seen in scene.detections))
    both = SplitFootage({"road": (*(scene,) * 9, bus)}, {})
    assert both.rarity == {"car": 1.0, "bus": pytest.approx(3.0)}
    rng = np.random.default_rng(1)
    drawn = sum(both.draw("road", rng) is bus for _ in range(400)) / 400
    assert drawn == pytest.approx(0.25, abs=0.06)
    crop = footage.bank["car"][0]
    often = (*(replace(crop, origin="a:1"),) * 30, replace(crop, origin="a:2"))
    crops = SplitFootage({"road": (scene,)}, {"car": often})
    assert sum(crops.draw_crop("car", rng).origin == "a:2" for _ in range(200)) > 70


def test_parted_banks_share_no_object(footage: SplitFootage) -> None:
    crop = footage.bank["car"][0]
    crops = tuple(replace(crop, origin=f"a:{k // 3}") for k in range(30))
    few = tuple(replace(crop, label="bus", origin=f"a:{k}") for k in range(3))
    first, second = apart({"car": crops, "bus": few}, 0.2)
    assert {c.origin for c in second["car"]} == {"a:8", "a:9"}
    assert len(first["car"]) == 24
    assert (first["bus"], "bus" in second) == (few, False)


def test_pasting_fills_the_box_and_nothing_else(footage: SplitFootage) -> None:
    image = np.full((100, 200, 3), 110, np.uint8)
    paste(image, footage.bank["car"][0], (0.4, 0.3, 0.15, 0.3), (1.0, 0.0, 0.0))
    rows, columns = np.nonzero((image != 110).any(axis=2))
    assert (rows.min(), rows.max() + 1) == pytest.approx((30, 60), abs=2)
    assert (columns.min(), columns.max() + 1) == pytest.approx((80, 110), abs=2)
    assert image[45, 95] == pytest.approx((230, 20, 30), abs=2)


def test_nuisances_change_no_object(scene: Scene) -> None:
    draft = nuisance(scene, np.random.default_rng(3))
    assert draft.changes == ()
    assert draft.before.shape == draft.after.shape


def test_the_mask_pipeline_finds_what_was_erased(scene: Scene) -> None:
    draft = next(d for d in (erased(scene, np.random.default_rng(k)) for k in range(50)) if d is not None)
    clusters = image_changes(draft.before, draft.after)[1]
    assert draft.changes[0].box_before is not None
    assert max(iou(c.box, draft.changes[0].box_before) for c in clusters) > 0.5
