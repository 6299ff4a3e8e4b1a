"""Pictures for the detector: frames as they are, windows of them, four beside one another, in other light."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from models.boxes import Box
from pipeline.sources import Image
from pipeline.sources.frame import shrink
from train.footage.labels import LabelledFrame, by_camera, picture
from train.footage.votes import Vote

CANVASES = ((352, 640), (416, 544), (448, 512), (384, 608), (480, 480))
"""Heights and widths of the pictures, about as many pixels as the detector sees of a frame."""

HELD = 960  # decoded pictures are held in memory at most this wide
_GREY = 114
_LEAST_SIDE = 5.0  # pixels: what is smaller is neither there nor not
_VISIBLE = 0.45  # share of a box that a window must show for it to be there


@dataclass(frozen=True, slots=True, eq=False)
class LabelledPicture:
    image: Image  # RGB uint8 ``(h, w, 3)``
    boxes: NDArray[np.float32]  # float32 ``(N, 4)``, left, top, right, bottom in pixels
    votes: tuple[Vote, ...]  # the N candidates
    sure: NDArray[np.bool_]  # bool ``(N,)``, whether it is there; otherwise nothing is learnt where it is


class Pictures:
    """Draws pictures of labelled frames, the same from the same seed; every camera about equally often."""

    def __init__(self, folder: Path, frames: Sequence[LabelledFrame], memory_mb: int = 2500) -> None:
        """Take the frames of a folder, see `train.footage.labels`; hold `memory_mb` of decoded pictures."""
        self._folder, self._frames = folder, list(frames)
        counts = {camera: len(own) for camera, own in by_camera(frames).items()}
        weight = np.array([counts[frame.camera] ** -0.6 for frame in frames])
        self._weight = weight / weight.sum()
        self._held: OrderedDict[str, Image] = OrderedDict()
        self._room = memory_mb * 1_000_000

    def draw(self, rng: np.random.Generator, canvas: tuple[int, int]) -> LabelledPicture:
        mosaic = rng.random() < 0.3  # noqa: PLR2004 - three in ten
        picture = self._mosaic(rng, canvas) if mosaic else self._view(rng, canvas)
        if rng.random() < 0.5:  # noqa: PLR2004 - a coin
            picture = _mirror(picture)
        return LabelledPicture(_other_light(picture.image, rng), picture.boxes, picture.votes, picture.sure)

    def _view(self, rng: np.random.Generator, canvas: tuple[int, int]) -> LabelledPicture:
        frame = self._frames[rng.choice(len(self._frames), p=self._weight)]
        image = self._image(frame)
        if rng.random() < 0.4:  # noqa: PLR2004 - two in five as they are
            return _window(image, frame.votes, (0.0, 0.0, 1.0, 1.0), canvas)
        zoom = float(np.exp(rng.uniform(np.log(0.3), np.log(1.25))))
        stretch = float(np.exp(rng.uniform(-0.15, 0.15)))
        ratio = (canvas[1] / canvas[0]) / (image.shape[1] / image.shape[0])
        width, height = zoom * stretch * min(ratio, 1.0), zoom / stretch * min(1 / ratio, 1.0)
        x, y = (rng.uniform(min(0.0, 1 - size), max(0.0, 1 - size)) for size in (width, height))
        return _window(image, frame.votes, (float(x), float(y), width, height), canvas)

    def _mosaic(self, rng: np.random.Generator, canvas: tuple[int, int]) -> LabelledPicture:
        height, width = canvas
        across, down = (int(size * rng.uniform(0.35, 0.65)) for size in (width, height))
        image = np.full((height, width, 3), _GREY, np.uint8)
        boxes, sure = [], []
        votes: list[Vote] = []
        for top, high in ((0, down), (down, height - down)):
            for left, wide in ((0, across), (across, width - across)):
                part = self._view(rng, (high, wide))
                image[top : top + high, left : left + wide] = part.image
                boxes.append(part.boxes + np.array([left, top, left, top], np.float32))
                votes += part.votes
                sure.append(part.sure)
        return LabelledPicture(image, np.concatenate(boxes), tuple(votes), np.concatenate(sure))

    def _image(self, frame: LabelledFrame) -> Image:
        if frame.image in self._held:
            self._held.move_to_end(frame.image)
            return self._held[frame.image]
        image = shrink(picture(self._folder, frame), HELD)
        self._held[frame.image] = image
        self._room -= image.nbytes
        while self._room < 0:
            self._room += self._held.popitem(last=False)[1].nbytes
        return image


def _window(image: Image, votes: Sequence[Vote], window: Box, canvas: tuple[int, int]) -> LabelledPicture:
    """A window ``x, y, width, height`` in 0..1 of the image, grey beyond its edge, at the canvas's size."""
    height, width = canvas
    x, y, wide, high = window
    scale_x, scale_y = width / (wide * image.shape[1]), height / (high * image.shape[0])
    right, down = (
        -start * side * scale + 0.5 * scale - 0.5
        for start, side, scale in ((x, image.shape[1], scale_x), (y, image.shape[0], scale_y))
    )
    way = np.array([[scale_x, 0, right], [0, scale_y, down]], np.float32)
    if min(scale_x, scale_y) < 0.6:  # noqa: PLR2004 - bilinear sampling alone would drop thin things
        size = max(1, round(1 / scale_x)), max(1, round(1 / scale_y))
        image = np.asarray(cv2.blur(image, size), np.uint8)
    cut_out = cv2.warpAffine(image, way, (width, height), flags=cv2.INTER_LINEAR, borderValue=(_GREY,) * 3)
    box = np.array([v.box for v in votes], np.float32).reshape(-1, 4)
    corners = np.concatenate([box[:, :2], box[:, :2] + box[:, 2:]], axis=1)
    corners = (corners - [x, y, x, y]) / [wide, high, wide, high] * [width, height, width, height]
    cut = np.clip(corners, 0, [width, height, width, height]).astype(np.float32)
    sides = (cut[:, 2:] - cut[:, :2]).clip(min=0)
    visible = sides.prod(1) / np.maximum((corners[:, 2:] - corners[:, :2]).prod(1), 1e-6)
    kept = (sides > 1).all(1)
    sure = np.array([v.sure for v in votes], bool) & (visible >= _VISIBLE) & (sides >= _LEAST_SIDE).all(1)
    shown = np.asarray(cut_out, np.uint8)
    return LabelledPicture(shown, cut[kept], tuple(votes[int(n)] for n in np.flatnonzero(kept)), sure[kept])


def _mirror(picture: LabelledPicture) -> LabelledPicture:
    width = picture.image.shape[1]
    boxes = picture.boxes.copy()
    boxes[:, [0, 2]] = width - picture.boxes[:, [2, 0]]
    return LabelledPicture(np.ascontiguousarray(picture.image[:, ::-1]), boxes, picture.votes, picture.sure)


def _other_light(image: Image, rng: np.random.Generator) -> Image:
    """Gain, gamma, colour, noise, blur and compression of other cameras, each now and then."""
    gain, gamma = np.exp(rng.normal(0, 0.2)), np.exp(rng.normal(0, 0.25))
    if rng.random() < 0.08:  # noqa: PLR2004 - dusk
        gain *= 0.45
    table = np.clip(255 * gain * (np.arange(256) / 255) ** gamma + rng.normal(0, 6), 0, 255).astype(np.uint8)
    image = np.asarray(cv2.LUT(image, table), np.uint8)
    draw = rng.random(5)
    if draw[0] < 0.12:  # noqa: PLR2004 - infra-red
        image = np.repeat(image.mean(2, keepdims=True).astype(np.uint8), 3, axis=2)
    elif draw[0] < 0.5:  # noqa: PLR2004 - another white balance
        tint = np.exp(rng.normal(0, 0.08, 3)).astype(np.float32)
        image = np.clip(image * tint, 0, 255).astype(np.uint8)
    if draw[1] < 0.12:  # noqa: PLR2004
        image = np.asarray(cv2.GaussianBlur(image, (0, 0), float(rng.uniform(0.4, 1.2))), np.uint8)
    if draw[2] < 0.15:  # noqa: PLR2004
        noise = rng.normal(0, rng.uniform(2, 12), image.shape[:2]).astype(np.float32)
        image = np.clip(image + noise[..., None], 0, 255).astype(np.uint8)
    if draw[3] < 0.25:  # noqa: PLR2004
        quality = int(rng.integers(15, 70))
        _, packed = cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, quality])
        image = np.asarray(cv2.imdecode(packed, cv2.IMREAD_COLOR), np.uint8)
    return image
