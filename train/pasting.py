"""Pasting object crops into scenes, at a size and place that the scene's own objects suggest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from train.drafts import Draft, Footage
from train.objects import Crop
from train.samples import Box, SampleChange
from train.scenes import Scene
from train.teacher import FAMILIES, Detection, centre, intersection

Image = NDArray[np.uint8]

PLANS = {"single": 0.46, "two": 0.14, "moved": 0.12, "group": 0.22, "replaced": 0.06}
"""What is pasted, with shares: one object, two at different places, one that moves, a group, another one."""
UNKNOWN_SHARE = 0.03
"""Share of pasted objects that are of no known class."""
_MAX_ENLARGED = 1.6


@dataclass(frozen=True, slots=True, eq=False)
class _Canvas:
    """What is pasted onto; the images and the boxes that are taken change."""

    before: Image
    after: Image
    scene: Scene
    footage: Footage
    taken: list[Box]
    rng: np.random.Generator


def pasted(scene: Scene, footage: Footage, rng: np.random.Generator) -> Draft | None:
    """A picture of the scene without and with pasted objects; None where no place was found."""
    at = int(rng.integers(len(scene.images) + 1))
    still = at == len(scene.images)
    image = scene.median if still else scene.images[at]
    seen = scene.standing if still else scene.detections[at]
    taken = [d.box for d in seen]
    before, after = image.copy(), image.copy()
    plan = str(rng.choice(list(PLANS), p=list(PLANS.values())))
    changes: list[SampleChange] = []
    canvas = _Canvas(before, after, scene, footage, taken, rng)
    for _ in range(2 if plan == "two" else 1):
        crop = _choose(footage, scene, rng)
        if crop is None:
            return None
        change = _one(plan, crop, canvas)
        if change is None:
            return None
        changes += change
    standing = tuple((d.label, d.box) for d in seen)
    return Draft("pasted", scene.camera, before, after, tuple(changes), standing=standing)


def _one(plan: str, crop: Crop, on: _Canvas) -> list[SampleChange] | None:
    box = _place(crop, on.scene, on.taken, on.after.shape, on.rng)
    if box is None:
        return None
    on.taken.append(box)
    if plan == "group":
        return _group(crop, box, on)
    if plan == "moved":
        return _move(crop, box, on)
    if plan == "replaced" and crop.label in on.footage.bank:
        return _replace(crop, box, on)
    paste(on.after, crop, box, _light(on.rng))
    return [SampleChange("appeared", crop.label, 1, None, box)]


def _move(crop: Crop, box: Box, on: _Canvas) -> list[SampleChange] | None:
    other = _step_aside(box, on.taken, on.rng)
    if other is None:
        return None
    on.taken.append(other)
    light = _light(on.rng)
    paste(on.before, crop, box, light)
    paste(on.after, crop, other, light)
    return [SampleChange("moved", crop.label, 1, box, other)]


def _replace(crop: Crop, box: Box, on: _Canvas) -> list[SampleChange] | None:
    crops = on.footage.bank[crop.label]
    second = crops[int(on.rng.integers(len(crops)))]
    if second is crop or likely_same(crop, second):
        return None
    standing = _keep_aspect(second, box, on.after.shape)
    paste(on.before, crop, box, _light(on.rng))
    paste(on.after, second, standing, _light(on.rng))
    return [SampleChange("replaced", crop.label, 1, box, standing)]


def likely_same(a: Crop, b: Crop) -> bool:
    """Whether two crops may show one object: the same camera and a like mean colour."""
    means = [np.average(c.image.reshape(-1, 3), axis=0, weights=c.matte.ravel() + 1e-6) for c in (a, b)]
    return a.camera == b.camera and float(np.abs(means[0] - means[1]).max()) < 25  # noqa: PLR2004


def _group(crop: Crop, box: Box, on: _Canvas) -> list[SampleChange] | None:
    """Two to four of a kind side by side."""
    after, taken, rng = on.after, on.taken, on.rng
    crops = on.footage.bank.get(crop.label, (crop,))
    members = [(crop, box)]
    for _ in range(int(rng.integers(1, 4))):
        last = members[-1][1]
        other = crops[int(rng.integers(len(crops)))]
        x, y = last[0] + last[2] * rng.uniform(0.85, 1.25), last[1] + last[3] * rng.uniform(-0.08, 0.08)
        new = _keep_aspect(other, (x, y, last[2], last[3]), after.shape)
        inside = new[0] + new[2] < 0.99 and new[1] > 0 and new[1] + new[3] < 0.99  # noqa: PLR2004
        if not inside or _blocked(new, taken, [b for _, b in members]):
            break
        members.append((other, new))
    if len(members) == 1:
        return None
    for other, new in sorted(members, key=lambda m: m[1][1] + m[1][3]):
        paste(after, other, new, _light(rng))
        taken.append(new)
    return [SampleChange("appeared", crop.label, 1, None, b) for _, b in members]


def _choose(footage: Footage, scene: Scene, rng: np.random.Generator) -> Crop | None:
    if rng.random() < UNKNOWN_SHARE:
        return _unknown(footage, rng)
    labels = sorted(footage.bank)
    if not labels:
        return None
    own = {d.label for seen in scene.detections for d in seen}
    weights = np.array(
        [
            len(footage.bank[n]) ** 0.3 * (6.0 if n in own else 1.0) * (3.0 if n == "person" else 1.0)
            for n in labels
        ]
    )
    crops = footage.bank[labels[int(rng.choice(len(labels), p=weights / weights.sum()))]]
    return crops[int(rng.integers(len(crops)))]


def _unknown(footage: Footage, rng: np.random.Generator) -> Crop:
    """A lump of some texture: a thing of no known class."""
    image = footage.draw(footage.draw_camera(rng), rng).median
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
    return Crop("object", texture, soft, side / height, 1.0, float(np.median(image)), "")


def _extent(crop: Crop) -> tuple[slice, slice]:
    """Where the matte is solid: the object's tight rows and columns."""
    rows = np.flatnonzero((crop.matte > 0.5).any(axis=1))  # noqa: PLR2004
    columns = np.flatnonzero((crop.matte > 0.5).any(axis=0))  # noqa: PLR2004
    return slice(int(rows[0]), int(rows[-1]) + 1), slice(int(columns[0]), int(columns[-1]) + 1)


def _aspect(crop: Crop) -> float:
    """Width over height of the object, in pixels."""
    rows, columns = _extent(crop)
    return float((columns.stop - columns.start) / (rows.stop - rows.start))


def _keep_aspect(crop: Crop, box: Box, shape: tuple[int, ...]) -> Box:
    """The crop standing where a box stands, as high, as wide as its own aspect makes it."""
    width = box[3] * shape[0] * _aspect(crop) / shape[1]
    return centre(box)[0] - width / 2, box[1], width, box[3]


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
    family = FAMILIES.get(crop.label, crop.label)
    own = [d for seen in scene.detections for d in seen if d.family == family and d.score > 0.5]  # noqa: PLR2004
    tight = _extent(crop)[0]
    native = (tight.stop - tight.start) / shape[0]
    for _ in range(12):
        if own and rng.random() < 0.8:  # noqa: PLR2004
            like = own[int(rng.integers(len(own)))].box
            foot = like[1] + like[3] + rng.normal(0, 0.04)
            x = centre(like)[0] + rng.normal(0, 0.12)
        else:
            foot, x = rng.uniform(0.45, 0.98), rng.uniform(0.05, 0.95)
        height = _height(crop, foot, own, rng)
        if not (0.045 if own else 0.09) < height < 0.7 or height > _MAX_ENLARGED * native:  # noqa: PLR2004
            continue
        box = _keep_aspect(crop, (x, foot - height, 0, height), shape)
        inside = min(box[:2]) > 0.005 and box[0] + box[2] < 0.995 and foot < 0.995  # noqa: PLR2004
        if inside and not _blocked(box, taken, ()):
            return box
    return None


def _blocked(box: Box, taken: Sequence[Box], allowed: Sequence[Box]) -> bool:
    area = box[2] * box[3]
    return any(intersection(box, t) > 0.08 * min(area, t[2] * t[3]) for t in taken if t not in allowed)


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


def _light(rng: np.random.Generator) -> tuple[float, float, float]:
    """Gain, how far the crop's light follows the scene's, and the shadow's depth (often none)."""
    depth = float(rng.uniform(0.1, 0.5)) if rng.random() < 0.6 else 0.0  # noqa: PLR2004
    return float(rng.uniform(0.85, 1.15)), float(rng.uniform(0.4, 1.0)), depth


def paste(image: Image, crop: Crop, box: Box, light: tuple[float, float, float]) -> None:
    """Lay a crop over an image in place so that its object fills a box.

    Args:
        image: RGB uint8 ``(h, w, 3)``, changed.
        crop: the object.
        box: where the object itself will be, ``(x, y, width, height)`` in 0..1.
        light: gain, share 0..1 to which the scene's light is taken over, depth 0..1 of the shadow.
    """
    height, width = image.shape[:2]
    rows, columns = _extent(crop)
    scale_y = box[3] * height / (rows.stop - rows.start)
    scale_x = box[2] * width / (columns.stop - columns.start)
    size = (max(round(crop.matte.shape[1] * scale_x), 2), max(round(crop.matte.shape[0] * scale_y), 2))
    way = cv2.INTER_AREA if scale_y < 1 else cv2.INTER_LINEAR
    matte = np.clip(cv2.resize(crop.matte, size, interpolation=way), 0, 1)
    texture = cv2.resize(crop.image, size, interpolation=way).astype(np.float32)
    left = round(box[0] * width - columns.start * scale_x)
    top = round(box[1] * height - rows.start * scale_y)
    window = (slice(max(top, 0), min(top + size[1], height)), slice(max(left, 0), min(left + size[0], width)))
    inner = tuple(slice(w.start - o, w.stop - o) for w, o in zip(window, (top, left), strict=True))
    gain, follow, depth = light
    around = float(np.median(image[window]))
    texture *= gain * float(np.clip((around + 20) / (crop.light + 20), 0.55, 1.8)) ** follow
    if depth:
        _shade(image, box, depth)
    weight = matte[inner][..., None]
    image[window] = (
        np.clip(image[window] * (1 - weight) + texture[inner] * weight, 0, 255).round().astype(np.uint8)
    )


def _shade(image: Image, box: Box, depth: float) -> None:
    """A soft shadow under an object."""
    height, width = image.shape[:2]
    x, foot = centre(box)[0] * width, (box[1] + box[3]) * height
    shade = np.zeros((height, width), np.float32)
    axes = (max(round(0.6 * box[2] * width), 2), max(round(0.08 * box[3] * height), 1))
    cv2.ellipse(shade, (round(x), round(foot - axes[1] * 0.5)), axes, 0, 0, 360, depth, -1)
    soft = cv2.GaussianBlur(shade, (0, 0), max(axes[1] * 0.5, 1.0))
    image[:] = (image * (1 - soft[..., None])).round().astype(np.uint8)
