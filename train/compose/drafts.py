"""Drafts of pairs: two images and what is known to differ between them, before any caption."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import cv2
import numpy as np
from numpy.typing import NDArray

from models.boxes import Box, intersection
from pipeline.sources import Image
from train.compose.differences import Side, as_objects, match
from train.compose.nuisances import disturb, screens, strong
from train.compose.objects import MIN_DIFFERENCE, Crop, moving, pixels
from train.footage.recipe import Recipe
from train.footage.scenes import Scene, aligned_views
from train.samples import SampleChange, SampleObject

_ERASED_MARGIN = 0.15


@dataclass(frozen=True, slots=True, eq=False)
class Draft:
    """A pair in the making.

    Attributes:
        kind: real, median, occasion, erased, pasted or nuisance.
        camera: whose footage it is.
        before, after: RGB uint8 ``(h, w, 3)``.
        changes: what is known to differ; their `members` are positions in `objects`.
        objects: every single object that is on one side or has moved, and what may be one.
        standing: ``(label, box)`` of objects that are on both sides.
        guessed: True where the teacher, not the composition, says what changed.
        sources: the cameras whose footage is in the pictures besides `camera`.
    """

    kind: str
    camera: str
    before: Image
    after: Image
    changes: tuple[SampleChange, ...]
    objects: tuple[SampleObject, ...] = ()
    standing: tuple[tuple[str, Box], ...] = ()
    guessed: bool = False
    sources: frozenset[str] = frozenset()


@dataclass(frozen=True, eq=False)
class SplitFootage:
    """The scenes and the objects of one split.

    Attributes:
        cameras: camera to its scenes.
        bank: label to its crops.
        recipe: how they are drawn.
    """

    cameras: dict[str, tuple[Scene, ...]]
    bank: dict[str, tuple[Crop, ...]]
    recipe: Recipe = field(default_factory=Recipe)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The cameras, in order."""
        return tuple(sorted(self.cameras))

    @cached_property
    def weights(self) -> NDArray[np.float64]:
        """How often each camera is drawn: by the root of its sampled frames, within bounds of the recipe."""
        frames = [sum(len(s.images) for s in self.cameras[n]) for n in self.names]
        each = np.clip(np.sqrt(np.array(frames) / 24), *self.recipe.camera_weight)
        return np.asarray(each / each.sum(), np.float64)

    @cached_property
    def rarity(self) -> dict[str, float]:
        """How rare each label is: the commonest label's number of detections over its own, to a power."""
        counts = Counter(
            d.label for own in self.cameras.values() for s in own for seen in s.detections for d in seen
        )
        most = max(counts.values(), default=1)
        return {label: (most / n) ** self.recipe.rarity for label, n in counts.items()}

    @cached_property
    def _scene_weights(self) -> dict[str, NDArray[np.float64]]:
        weights = {}
        for name, scenes in self.cameras.items():
            each = np.array([self._rare(s) for s in scenes]) ** self.recipe.rare_scenes
            weights[name] = each / each.sum()
        return weights

    def _rare(self, scene: Scene) -> float:
        """Rarity of a scene: that of the rarest label of each frame, on average, at least 1."""
        each = [max((self.rarity[d.label] for d in seen), default=1.0) for seen in scene.detections]
        return float(np.mean(each))

    def draw_crop(self, label: str, rng: np.random.Generator) -> Crop:
        """A crop of a label: every object is as likely, however many crops there are of it."""
        crops = self.bank[label]
        origins = sorted({c.origin for c in crops})
        origin = origins[int(rng.integers(len(origins)))]
        own = [c for c in crops if c.origin == origin]
        return own[int(rng.integers(len(own)))]

    def draw_camera(self, rng: np.random.Generator) -> str:
        """A camera, by weight."""
        return self.names[int(rng.choice(len(self.names), p=self.weights))]

    def draw(self, camera: str, rng: np.random.Generator) -> Scene:
        """One of a camera's scenes, those with rare labels more often."""
        scenes = self.cameras[camera]
        return scenes[int(rng.choice(len(scenes), p=self._scene_weights[camera]))]


def _together(scene: Scene) -> frozenset[tuple[int, int]]:
    """Tracks that are two objects: seen on one frame."""
    return frozenset((a, b) for seen in scene.tracks for a in seen for b in seen if a != b)


def real(scene: Scene, rng: np.random.Generator, *, min_gap_s: float = 1.0) -> Draft | None:
    """Two frames of a clip, labelled by the teacher."""
    first, second = sorted(rng.choice(len(scene.images), size=2, replace=False))
    if scene.times_s[second] - scene.times_s[first] < min_gap_s:
        return None
    together = _together(scene)
    sides = [Side(scene.images[k], scene.detections[k], scene.tracks[k], together) for k in (first, second)]
    return _guessed("real", scene.camera, *sides)


def against_median(scene: Scene, rng: np.random.Generator) -> Draft | None:
    """A frame against the clip's temporal median, labelled by the teacher."""
    at = int(rng.integers(len(scene.images)))
    empty = Side(scene.median, scene.standing)
    draft = _guessed("median", scene.camera, empty, Side(scene.images[at], scene.detections[at]))
    if not draft.changes:
        return None  # a ghost in the median may be what differs: "nothing" would not be true
    new = {c.box_after for c in draft.changes if c.type == "appeared"}
    for k, d in enumerate(scene.detections[at]):
        if d.box in new and behind(scene, at, k, crowded=True) is None:
            return None
    return draft


def occasions(scene: Scene, others: Sequence[Scene], rng: np.random.Generator) -> Draft | None:
    """Frames of two clips of one camera, hours to weeks apart: nothing that moves can be the same."""
    other = others[int(rng.integers(len(others)))]
    if other is scene or not aligned_views(scene, other):
        return None
    sides = []
    for each in (scene, other):
        at = int(rng.integers(len(each.images)))
        sides.append(Side(each.images[at], each.detections[at]))
    draft = _guessed("occasion", scene.camera, *sides)
    if any(c.type == "moved" for c in draft.changes):
        return None
    objects = tuple(replace(o, identity=k) for k, o in enumerate(draft.objects))
    return replace(draft, objects=objects)


def _guessed(kind: str, camera: str, before: Side, after: Side) -> Draft:
    found = match(before, after)
    changed = {b for c in found.changes for b in (c.box_before, c.box_after)}
    standing = tuple((d.label, d.box) for d in after.detections if d.box not in changed)
    return Draft(
        kind,
        camera,
        before.image.copy(),
        after.image.copy(),
        found.changes,
        found.objects,
        standing,
        guessed=True,
    )


def erased(scene: Scene, rng: np.random.Generator) -> Draft | None:
    """A frame, and the same frame with one to three moving objects replaced by what is behind them."""
    at = int(rng.integers(len(scene.images)))
    free = [k for k in moving(scene, at) if behind(scene, at, k) is not None]
    if not free:
        return None
    count = min(len(free), int(rng.choice([1, 2, 3], p=[0.6, 0.25, 0.15])))
    gone = [int(k) for k in rng.choice(free, size=count, replace=False)]
    before, after = scene.images[at].copy(), scene.images[at].copy()
    changes = []
    for k in gone:
        d = scene.detections[at][k]
        empty = behind(scene, at, k)
        if empty is None:
            continue
        where = pixels(d.box, after.shape, _ERASED_MARGIN)
        height, width = after[where].shape[:2]
        edge = max(2, round(0.07 * min(height, width)))
        matte = np.zeros((height, width), np.float32)
        matte[edge:-edge, edge:-edge] = 1
        soft = np.asarray(cv2.GaussianBlur(matte, (0, 0), edge / 2), np.float32)
        blend(after, empty, soft, where)
        changes.append(SampleChange("disappeared", d.label, 1, d.box, None))
    standing = tuple((d.label, d.box) for k, d in enumerate(scene.detections[at]) if k not in gone)
    return Draft("erased", scene.camera, before, after, *as_objects(changes), standing=standing)


def behind(scene: Scene, at: int, k: int, *, crowded: bool = False) -> Image | None:
    """The frame most like the median among those in which nothing stands where detection `k` is.

    A median holds the ghost of an object that stood still for half of the clip: then no frame is like it.

    Args:
        scene: the scene.
        at: number of the sampled frame.
        k: number of the detection.
        crowded: other objects may overlap it; otherwise it must stand free, with its whole outline inside
            the window that would be erased.

    Returns:
        The frame, or None where there is none.
    """
    box = scene.detections[at][k].box
    wide = (box[0] - 0.1 * box[2], box[1] - 0.1 * box[3], 1.2 * box[2], 1.2 * box[3])
    allowed = 0.3 * box[2] * box[3] if crowded else 0.0
    if any(intersection(wide, d.box) > allowed for d in scene.standing):
        return None
    where = pixels(box, scene.median.shape, _ERASED_MARGIN)
    if not crowded:
        others = [d for j, d in enumerate(scene.detections[at]) if j != k]
        touched = any(intersection(wide, d.box) > 0.1 * box[2] * box[3] for d in others)
        if touched or _reaches_out(scene.images[at][where], scene.median[where]):
            return None
    best, least = None, 8.0
    for other, seen in zip(scene.images, scene.detections, strict=True):
        if any(intersection(wide, d.box) > allowed for d in seen):
            continue
        difference = float(cv2.absdiff(other[where], scene.median[where]).mean())
        if difference < least:
            best, least = other, difference
    return best


def _reaches_out(window: Image, median: Image) -> bool:
    """Whether something that is not in the median crosses the edge of a window: an object is cut there."""
    active = cv2.absdiff(window, median).max(axis=2) > MIN_DIFFERENCE
    ring = np.concatenate([active[0], active[-1], active[:, 0], active[:, -1]])
    return float(ring.mean()) > 0.12  # noqa: PLR2004


def blend(target: Image, source: Image, matte: NDArray[np.float32], where: tuple[slice, slice]) -> None:
    """Lay `source` over `target` in place, weighted by a matte of the window's size."""
    weight = matte[..., None]
    mixed = target[where] * (1 - weight) + source[where] * weight
    target[where] = np.clip(mixed, 0, 255).round().astype(np.uint8)


def nuisance(scene: Scene, rng: np.random.Generator) -> Draft:
    """One picture twice: what differs are strong nuisances alone, or nothing."""
    at = int(rng.integers(len(scene.images) + 1))
    image = scene.median if at == len(scene.images) else scene.images[at]
    seen = scene.standing if at == len(scene.images) else scene.detections[at]
    before, changed, draw = image.copy(), image.copy(), rng.random()
    if draw < 0.15:  # noqa: PLR2004
        first, second = screens(rng, [d.box for d in seen])
        before, changed = disturb(image, first), disturb(image, second)
    elif draw < 0.92:  # noqa: PLR2004
        changed = disturb(image, strong(rng))
    standing = tuple((d.label, d.box) for d in seen)
    return Draft("nuisance", scene.camera, before, changed, (), standing=standing)
