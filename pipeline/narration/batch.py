"""From changes to what a captioner looks at."""

from collections.abc import Sequence
from dataclasses import replace

import cv2
import numpy as np
from numpy.typing import NDArray

from models.captioner import Captioner, PairInput
from models.detections import Detections
from models.grounded.inference import canvas, pixels_at
from models.grounded.settings import SETTINGS
from pipeline.changes import Change
from pipeline.changes.clusters import Cluster
from pipeline.changes.difference import Shift, reduce_image, resize, shift_image
from pipeline.narration.regions import RegionDetector
from pipeline.settings import LEAST_SCORE
from pipeline.sources import Image


def pair_input(change: Change, captioner: Captioner) -> PairInput:
    """A change with at least one cluster, as frames of one size or as views."""
    gap_s = float("nan") if change.pair.gap_s is None else change.pair.gap_s
    images = change.pair.before.image, change.pair.after.image
    if captioner.sees_views:
        return with_views(images, change.shift, change.clusters, gap_s)
    height, width = change.clusters[0].mask.shape
    aligned = align_images(*images, change.shift, (height, width), captioner.image_size)
    return PairInput(np.stack(aligned), *_arrays(change.clusters), gap_s)


def with_views(
    images: tuple[Image, Image], shift: Shift, clusters: Sequence[Cluster], gap_s: float = float("nan")
) -> PairInput:
    """A pair with its views: frames at the size at which the detector sees them.

    Images are RGB uint8 ``(h, w, 3)``; `shift` is in pixels of the masks; `clusters` are most salient first.
    """
    masks, boxes, active = _arrays(clusters)
    moved = shift[0] / masks.shape[2], shift[1] / masks.shape[1]
    return PairInput(views(*images, moved, pixels_at(gap_s)), masks, boxes, active, gap_s, images)


def views(
    before: Image, after: Image, shift: tuple[float, float], pixels: int = SETTINGS.pixels
) -> NDArray[np.uint8]:
    """Both frames, before laid on after, uint8 ``(2, h, w, 3)``, see `models.grounded.inference.canvas`.

    They are RGB uint8 ``(h, w, 3)`` of one size; `shift` is in shares of the frame, `pixels` about a view's.
    """
    size = canvas(after.shape[0], after.shape[1], pixels)
    return np.stack([_view(before, size, shift), _view(after, size, (0.0, 0.0))])


def _view(image: Image, size: tuple[int, int], moved: tuple[float, float]) -> Image:
    """An image whose content is moved by shares of the frame, at ``(height, width)``."""
    height, width = image.shape[:2]
    if moved == (0.0, 0.0):
        if height * width > size[0] * size[1]:
            return reduce_image(image, size)
        return np.asarray(cv2.resize(image, (size[1], size[0]), interpolation=cv2.INTER_LINEAR), np.uint8)
    left, top = -moved[0] * width, -moved[1] * height
    scale_x, scale_y = size[1] / width, size[0] / height
    blur = (max(1, round(1 / scale_x)), max(1, round(1 / scale_y)))
    if blur != (1, 1):  # bilinear sampling alone would drop thin things
        x0, y0 = max(int(left) - blur[0], 0), max(int(top) - blur[1], 0)
        x1, y1 = int(left + width) + blur[0] + 1, int(top + height) + blur[1] + 1
        image = np.asarray(cv2.blur(image[y0:y1, x0:x1], blur), np.uint8)
        left, top = left - x0, top - y0
    matrix = np.array(
        [[scale_x, 0, (0.5 - left) * scale_x - 0.5], [0, scale_y, (0.5 - top) * scale_y - 0.5]], np.float32
    )
    return np.asarray(
        cv2.warpAffine(image, matrix, (size[1], size[0]), borderMode=cv2.BORDER_REPLICATE), np.uint8
    )


def _arrays(
    clusters: Sequence[Cluster],
) -> tuple[NDArray[np.bool_], NDArray[np.float32], NDArray[np.float32]]:
    masks = np.stack([cluster.mask for cluster in clusters])
    active = np.array([cluster.active_pixels for cluster in clusters], np.float32) / masks[0].size
    return masks, np.array([cluster.box for cluster in clusters], np.float32), active


def detect(
    images: Sequence[Image], captioner: Captioner, cameras: Sequence[RegionDetector] = ()
) -> list[Detections]:
    """What a captioner sees in pictures RGB uint8 ``(h, w, 3)``, embedded; TypeError where it cannot.

    Of `cameras`, one for each picture, the detector sees only what has changed.
    """

    def see(seen: Sequence[Image]) -> list[Detections]:
        return [replace(each, feature=captioner.embed(each)) for each in captioner.see(seen, LEAST_SCORE)]

    pictures = [resize(image, canvas(*image.shape[:2])) for image in images]
    if not cameras:
        return see(pictures)
    return [
        camera.detect(picture, lambda region: see([region])[0])
        for picture, camera in zip(pictures, cameras, strict=True)
    ]


def align_images(
    before: Image, after: Image, shift: Shift, mask_size: tuple[int, int], size: tuple[int, int]
) -> tuple[Image, Image]:
    """Both images, RGB uint8, at a captioner's `size`, before moved onto after; in training as in narrating.

    Sizes are ``(height, width)``; the shift is in pixels of `mask_size`.
    """
    scaled = (round(shift[0] * size[1] / mask_size[1]), round(shift[1] * size[0] / mask_size[0]))
    return shift_image(resize(before, size), scaled), resize(after, size)
