"""Pasting object crops into scenes, at a size and place that the scene's own objects suggest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field

import cv2
import numpy as np

from models.boxes import Box, area, centre, intersection
from models.families import family_of
from pipeline.sources import Image
from train.compose.differences import as_objects
from train.compose.drafts import Draft, SplitFootage
from train.compose.objects import Crop
from train.compose.overlay import extent, keep_aspect, light_of, paste, varied
from train.footage.scenes import Scene
from train.footage.teacher import Detection
from train.samples import SampleChange

_MAX_ENLARGED = 1.6
_REFERENCE = 288
"""Height in pixels of the frame in which `Recipe.small_pixels` are measured."""


@dataclass(frozen=True, slots=True, eq=False)
class _Canvas:
    """What is pasted onto; the images, the boxes that are taken and the cameras pasted from change."""

    before: Image
    after: Image
    scene: Scene
    footage: SplitFootage
    taken: list[Box]
    rng: np.random.Generator
    sources: set[str] = field(default_factory=set)

    def lay(self, image: Image, crop: Crop, box: Box, light: tuple[float, float, float]) -> None:
        """Paste, and remember whose footage it is."""
        paste(image, crop, box, light)
        self.sources.add(crop.camera)


def pasted(scene: Scene, footage: SplitFootage, rng: np.random.Generator) -> Draft | None:
    """A picture of the scene without and with pasted objects; None where no place was found."""
    at = int(rng.integers(len(scene.images) + 1))
    still = at == len(scene.images)
    image = scene.median if still else scene.images[at]
    seen = scene.standing if still else scene.detections[at]
    canvas = _Canvas(image.copy(), image.copy(), scene, footage, [d.box for d in seen], rng)
    plans = asdict(footage.recipe.plans)
    shares = np.array(list(plans.values()))
    plan = str(rng.choice(list(plans), p=shares / shares.sum()))
    count = {"two": 2, "many": int(rng.integers(3, 9))}.get(plan, 1)
    changes: list[SampleChange] = []
    for _ in range(count):
        crop = _choose(footage, scene, rng)
        change = None if crop is None else _one(plan, crop, canvas)
        if change is None and plan != "many":
            return None
        changes += change or []
    if not changes:
        return None
    standing = tuple((d.label, d.box) for d in seen)
    sources = frozenset(canvas.sources)
    return Draft(
        "pasted",
        scene.camera,
        canvas.before,
        canvas.after,
        *as_objects(changes),
        standing=standing,
        sources=sources,
    )


def _one(plan: str, crop: Crop, on: _Canvas) -> list[SampleChange] | None:
    recipe, rng = on.footage.recipe, on.rng
    many = plan == "many"
    small = rng.random() < (0.8 if many else recipe.small_share)
    box = _anywhere(crop, on) if small else _place(crop, on.scene, on.taken, on.after.shape, rng)
    if box is None:
        return None
    on.taken.append(box)
    if plan == "group":
        return _group(crop, box, on)
    if plan == "moved" or (many and rng.random() < 0.25):  # noqa: PLR2004
        return _move(crop, box, on)
    if plan == "replaced" and crop.label in on.footage.bank:
        return _replace(crop, box, on)
    if plan in ("two", "many") and rng.random() < 0.5:  # noqa: PLR2004
        on.lay(on.before, crop, box, light_of(rng))
        return [SampleChange("disappeared", crop.label, 1, box, None)]
    on.lay(on.after, crop, box, light_of(rng))
    return [SampleChange("appeared", crop.label, 1, None, box)]


def _move(crop: Crop, box: Box, on: _Canvas) -> list[SampleChange] | None:
    other = _step_aside(box, on.taken, on.rng)
    if other is None:
        return None
    on.taken.append(other)
    light = light_of(on.rng)
    on.lay(on.before, crop, box, light)
    on.lay(on.after, crop, other, light)
    return [SampleChange("moved", crop.label, 1, box, other)]


def _replace(crop: Crop, box: Box, on: _Canvas) -> list[SampleChange] | None:
    second = on.footage.draw_crop(crop.label, on.rng)
    if likely_same(crop, second):
        return None
    second = varied(second, on.rng, tinted=on.footage.recipe.tinted)
    standing = keep_aspect(second, box, on.after.shape)
    out = min(standing[:2]) < 0 or standing[0] + standing[2] > 1
    if out or _enlarged(second, box[3], on.after.shape):
        return None
    on.lay(on.before, crop, box, light_of(on.rng))
    on.lay(on.after, second, standing, light_of(on.rng))
    return [SampleChange("replaced", crop.label, 1, box, standing)]


def likely_same(a: Crop, b: Crop) -> bool:
    """Whether two crops may show one object: one track, or the same camera and a like mean colour."""
    means = [np.average(c.image.reshape(-1, 3), axis=0, weights=c.matte.ravel() + 1e-6) for c in (a, b)]
    alike = float(np.abs(means[0] - means[1]).max()) < 25  # noqa: PLR2004
    return a.camera == b.camera and (alike or a.origin == b.origin)


def _group(crop: Crop, box: Box, on: _Canvas) -> list[SampleChange] | None:
    """Two to four side by side, most of them of a kind; further ones may cover earlier ones a little."""
    after, taken, rng = on.after, on.taken, on.rng
    recipe = on.footage.recipe
    members = [(crop, box)]
    for _ in range(int(rng.integers(1, 4))):
        last = members[-1][1]
        mixed = rng.random() < recipe.mixed_group
        other = (_choose(on.footage, on.scene, rng) if mixed else None) or _alike(crop, on.footage, rng)
        high = last[3] * _RELATIVE.get(other.label, 1.0) / _RELATIVE.get(members[-1][0].label, 1.0)
        high *= rng.uniform(0.9, 1.1)
        wide = keep_aspect(other, (0.0, 0.0, 0.0, high), after.shape)[2]
        x = last[0] + last[2] * rng.uniform(0.85, 1.25) + wide / 2
        foot = last[1] + last[3] + last[3] * rng.uniform(-0.08, 0.08)
        new = keep_aspect(other, (x, foot - high, 0.0, high), after.shape)
        inside = new[0] + new[2] < 0.99 and new[1] > 0 and new[1] + new[3] < 0.99  # noqa: PLR2004
        coarse = _enlarged(other, high, after.shape)
        if not inside or coarse or _blocked(new, taken, [b for _, b in members]):
            break
        members.append((other, new))
    if len(members) == 1:
        return None
    for other, new in sorted(members, key=lambda m: m[1][1] + m[1][3]):
        on.lay(after, other, new, light_of(rng))
        taken.append(new)
    return [SampleChange("appeared", other.label, 1, None, b) for other, b in members]


_RELATIVE = {"bus": 1.9, "truck": 1.6, "person": 1.15, "bottle": 0.3, "cyclist": 1.2, "bicycle": 0.7}
"""Rough heights of things that stand side by side, in those of a car."""


def _alike(crop: Crop, footage: SplitFootage, rng: np.random.Generator) -> Crop:
    """Another crop of the same label; the crop itself where there is none."""
    other = footage.draw_crop(crop.label, rng) if crop.label in footage.bank else crop
    return varied(other, rng, tinted=footage.recipe.tinted)


def _choose(footage: SplitFootage, scene: Scene, rng: np.random.Generator) -> Crop | None:
    """A crop: labels by the root of their crops and by rarity, those of the scene itself more often."""
    recipe = footage.recipe
    if rng.random() < recipe.unknown_share:
        return _unknown(footage, rng)
    labels = sorted(footage.bank)
    if not labels:
        return None
    own = {d.label for seen in scene.detections for d in seen}
    weights = []
    for name in labels:
        weight = len(footage.bank[name]) ** 0.5 * min(footage.rarity.get(name, 1.0), 8.0)
        weight *= recipe.own_labels if name in own else 1.0
        weights.append(weight * (recipe.person_weight if name == "person" else 1.0))
    chosen = rng.choice(len(labels), p=np.array(weights) / sum(weights))
    return varied(footage.draw_crop(labels[int(chosen)], rng), rng, tinted=recipe.tinted)


def _unknown(footage: SplitFootage, rng: np.random.Generator) -> Crop:
    """A lump of some texture: a thing of no known class."""
    scene = footage.draw(footage.draw_camera(rng), rng)
    image = scene.median
    height, width = image.shape[:2]
    side = int(rng.integers(24, 72))
    y, x = int(rng.integers(0, height - side)), int(rng.integers(0, width - side))
    angle = np.sort(rng.uniform(0, 2 * np.pi, 9))
    reach = rng.uniform(0.3, 0.48, 9) * side
    corners = np.stack([np.cos(angle) * reach, np.sin(angle) * reach], 1) + side / 2
    matte = np.zeros((side, side), np.float32)
    cv2.fillPoly(matte, [corners.round().astype(np.int32)], 1.0)
    soft = np.asarray(cv2.GaussianBlur(matte, (3, 3), 0), np.float32)
    tint = rng.uniform(0.5, 1.5, 3)
    texture = np.clip(image[y : y + side, x : x + side] * tint, 0, 255).astype(np.uint8)
    return Crop("object", texture, soft, side / height, 1.0, float(np.median(image)), scene.camera, "")


def _height(crop: Crop, foot: float, own: Sequence[Detection], rng: np.random.Generator) -> float:
    """A plausible height 0..1 of an object that stands at `foot`."""
    near = sorted(own, key=lambda d: abs(d.box[1] + d.box[3] - foot))[:5]
    jitter = float(rng.uniform(0.8, 1.25))
    if near:
        ratios = [d.box[3] * np.clip((foot + 0.1) / (d.box[1] + d.box[3] + 0.1), 0.5, 2) for d in near]
        return float(np.median(ratios)) * jitter
    return float(crop.height * np.clip((foot + 0.15) / (crop.foot + 0.15), 0.4, 2) * jitter)


def _place(
    crop: Crop, scene: Scene, taken: Sequence[Box], shape: tuple[int, ...], rng: np.random.Generator
) -> Box | None:
    """A free place that the scene's own objects of the same family suggest, else one in its lower part."""
    family = family_of(crop.label)
    own = [d for seen in scene.detections for d in seen if d.family == family and d.score > 0.5]  # noqa: PLR2004
    for _ in range(12):
        if own and rng.random() < 0.8:  # noqa: PLR2004
            like = own[int(rng.integers(len(own)))].box
            foot = like[1] + like[3] + rng.normal(0, 0.04)
            x = centre(like)[0] + rng.normal(0, 0.12)
        else:
            foot, x = rng.uniform(0.45, 0.98), rng.uniform(0.05, 0.95)
        height = _height(crop, foot, own, rng)
        if not (0.045 if own else 0.09) < height < 0.7 or _enlarged(crop, height, shape):  # noqa: PLR2004
            continue
        box = keep_aspect(crop, (x, foot - height, 0, height), shape)
        inside = min(box[:2]) > 0.005 and box[0] + box[2] < 0.995 and foot < 0.995  # noqa: PLR2004
        if inside and not _blocked(box, taken, ()):
            return box
    return None


def _anywhere(crop: Crop, on: _Canvas) -> Box | None:
    """A free place for a small object, as it is seen from above or from afar."""
    least, most = on.footage.recipe.small_pixels
    for _ in range(8):
        height = float(np.exp(on.rng.uniform(np.log(least), np.log(most)))) / _REFERENCE
        height *= 0.75 if family_of(crop.label) == "vehicle" else 1.0
        x, foot = on.rng.uniform(0.03, 0.97), on.rng.uniform(0.12, 0.98)
        box = keep_aspect(crop, (x, foot - height, 0, height), on.after.shape)
        inside = min(box[:2]) > 0.005 and box[0] + box[2] < 0.995  # noqa: PLR2004
        fits = inside and not _enlarged(crop, height, on.after.shape)
        if fits and not _blocked(box, on.taken, ()):
            return box
    return None


def _enlarged(crop: Crop, height: float, shape: tuple[int, ...]) -> bool:
    """Whether a crop would have to be enlarged too much to be so high, 0..1 of a picture."""
    rows = extent(crop)[0]
    return bool(height * shape[0] > _MAX_ENLARGED * (rows.stop - rows.start))


def _blocked(box: Box, taken: Sequence[Box], allowed: Sequence[Box]) -> bool:
    return any(intersection(box, t) > 0.08 * min(area(box), area(t)) for t in taken if t not in allowed)


def _step_aside(box: Box, taken: Sequence[Box], rng: np.random.Generator) -> Box | None:
    """A free place near a box for the same object."""
    for _ in range(10):
        x = box[0] + rng.choice([-1, 1]) * rng.uniform(0.5, 3.0) * box[2]
        y = box[1] + rng.normal(0, 0.25) * box[3]
        grown = float(np.clip((y + box[3] + 0.2) / (box[1] + box[3] + 0.2), 0.8, 1.25))
        new: Box = (x, y + box[3] * (1 - grown), box[2] * grown, box[3] * grown)
        inside = min(new[:2]) > 0.005 and new[0] + new[2] < 0.995 and new[1] + new[3] < 0.995  # noqa: PLR2004
        if inside and not _blocked(new, taken, [box]):
            return new
    return None
