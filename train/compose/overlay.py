"""Laying an object over a picture: size, light, shadow and a soft edge."""

from __future__ import annotations

from dataclasses import replace

import cv2
import numpy as np

from models.boxes import Box, centre
from models.families import family_of
from pipeline.sources import Image
from train.compose.objects import Crop


def extent(crop: Crop) -> tuple[slice, slice]:
    """Where the matte is solid: the object's tight rows and columns."""
    rows = np.flatnonzero((crop.matte > 0.5).any(axis=1))  # noqa: PLR2004
    columns = np.flatnonzero((crop.matte > 0.5).any(axis=0))  # noqa: PLR2004
    return slice(int(rows[0]), int(rows[-1]) + 1), slice(int(columns[0]), int(columns[-1]) + 1)


def aspect(crop: Crop) -> float:
    """Width over height of the object, in pixels."""
    rows, columns = extent(crop)
    return float((columns.stop - columns.start) / (rows.stop - rows.start))


def keep_aspect(crop: Crop, box: Box, shape: tuple[int, ...]) -> Box:
    """The crop standing where a box stands, as high, as wide as its own aspect makes it."""
    width = box[3] * shape[0] * aspect(crop) / shape[1]
    return centre(box)[0] - width / 2, box[1], width, box[3]


def varied(crop: Crop, rng: np.random.Generator, *, tinted: float = 0.0) -> Crop:
    """The crop, in half of the cases mirrored, and with the chance `tinted` in other colours.

    A vehicle is painted; a person gets other clothes above and below the waist.
    """
    if rng.random() < 0.5:  # noqa: PLR2004
        image, matte = np.ascontiguousarray(crop.image[:, ::-1]), np.ascontiguousarray(crop.matte[:, ::-1])
        crop = replace(crop, image=image, matte=matte)
    if family_of(crop.label) == "vehicle" and rng.random() < tinted:
        lab = cv2.cvtColor(crop.image, cv2.COLOR_RGB2LAB).astype(np.float32)
        lab[..., 0] = lab[..., 0] * rng.uniform(0.75, 1.25)
        angle, far = rng.uniform(0, 2 * np.pi), rng.uniform(0, 40)
        body = np.clip(lab[..., :1] / 90 - 0.35, 0, 1)  # tyres and the road's shadow keep their colour
        lab[..., 1:] += body * np.array([np.cos(angle), np.sin(angle)], np.float32) * far
        painted = cv2.cvtColor(np.clip(lab, 0, 255).astype(np.uint8), cv2.COLOR_LAB2RGB)
        crop = replace(crop, image=np.asarray(painted, np.uint8))
    if crop.label == "person" and rng.random() < tinted:
        crop = _dressed(crop, rng)
    return crop


_CLOTHES = ((0.17, 0.52), (0.52, 0.92))
"""Where a standing person wears what, in 0..1 of its height."""


def _dressed(crop: Crop, rng: np.random.Generator) -> Crop:
    """A person in other colours: above and below the waist each another lightness and another hue."""
    lab = cv2.cvtColor(crop.image, cv2.COLOR_RGB2LAB).astype(np.float32)
    rows, _ = extent(crop)
    height = rows.stop - rows.start
    at = (np.arange(lab.shape[0]) - rows.start) / height
    for top, bottom in _CLOTHES:
        inner = crop.matte[(at >= top) & (at < bottom)] > 0.5  # noqa: PLR2004
        worn = lab[(at >= top) & (at < bottom)]
        if not inner.any():
            continue
        wanted = rng.uniform(35, 190)
        angle, far = rng.uniform(0, 2 * np.pi), abs(rng.normal(0, 22))
        soft = np.clip(np.minimum(at - top, bottom - at) / 0.04 + 0.5, 0, 1)[:, None]
        lab[..., 0] += soft * (wanted - worn[..., 0][inner].mean())
        lab[..., 1] += soft * np.cos(angle) * far
        lab[..., 2] += soft * np.sin(angle) * far
    worn_now = cv2.cvtColor(np.clip(lab, 0, 255).astype(np.uint8), cv2.COLOR_LAB2RGB)
    return replace(crop, image=np.asarray(worn_now, np.uint8))


def light_of(rng: np.random.Generator) -> tuple[float, float, float]:
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
    rows, columns = extent(crop)
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
    texture *= gain * float(np.clip((around + 20) / (crop.light + 20), 0.6, 1.5)) ** follow
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
