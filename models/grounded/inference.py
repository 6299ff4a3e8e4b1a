"""Inference: the detector on the whole frames of a pair, and on tiles where something small differs."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from models.box_tensors import corner_overlaps, corners
from models.detections import Detections
from models.family_tensors import FAMILY
from models.grounded.detections import OVERLAP, decode, suppress
from models.grounded.detector import Detector
from models.grounded.graph import graph_of
from models.grounded.settings import SETTINGS

_CELL = 32


def pixels_at(gap_s: float) -> int:
    """About so many pixels the detector sees of stills this many seconds apart, NaN where not known."""
    return SETTINGS.fine_pixels if gap_s >= SETTINGS.fine_gap_s else SETTINGS.pixels


def canvas(height: int, width: int, pixels: int = SETTINGS.pixels) -> tuple[int, int]:
    """Height and width in pixels at which the detector sees a frame: multiples of 32 of about its shape.

    Args:
        height: of the frame in pixels.
        width: of the frame in pixels.
        pixels: about how many it should have.
    """
    high = max(_CELL, round((pixels * height / width) ** 0.5 / _CELL) * _CELL)
    wide = max(_CELL, round(pixels / high / _CELL) * _CELL)
    return high, wide


def detect(
    detector: Detector, pictures: Sequence[Tensor], least: float = SETTINGS.seen_score
) -> list[Detections]:
    """Detections of pictures, uint8 RGB ``(3, h, w)`` each, with this score or more.

    On a CPU one after the other: eight at once take more memory and no less time. Elsewhere those of one size
    at once, or as many of them as there is memory for.

    Raises:
        torch.OutOfMemoryError: there is none for a single one.
    """
    if all(picture.device.type == "cpu" for picture in pictures):
        look = graph_of(detector)
        return [decode(look(p[None]), (p.shape[1], p.shape[2]), least)[0] for p in pictures]
    sizes: dict[tuple[int, int], list[int]] = {}
    for n, picture in enumerate(pictures):
        sizes.setdefault((picture.shape[1], picture.shape[2]), []).append(n)
    found: dict[int, Detections] = {}
    for size, numbers in sizes.items():
        some = _of_one_size(detector, [pictures[n] for n in numbers], size, least)
        found.update(zip(numbers, some, strict=True))
    return [found[n] for n in range(len(pictures))]


def _of_one_size(
    detector: Detector, pictures: Sequence[Tensor], size: tuple[int, int], least: float
) -> list[Detections]:
    """The same of pictures of one size."""
    try:
        return decode(detector(torch.stack(list(pictures))), size, least)
    except torch.OutOfMemoryError:
        if len(pictures) == 1:
            raise
    # Outside of the handler: the error would hold the tensors that must be freed first.
    torch.cuda.empty_cache()
    half = (len(pictures) + 1) // 2
    parts = pictures[:half], pictures[half:]
    return [found for part in parts for found in _of_one_size(detector, part, size, least)]


def merge_tiles(whole: Detections, tiles: Sequence[tuple[Detections, Tensor]]) -> Detections:
    """Detections of a frame as a whole and in tiles of it, each object once.

    Args:
        whole: of the frame.
        tiles: of each tile what is seen there and its window, float32 ``(4,)`` in 0..1 of the frame.
    """
    parts = [whole]
    for found, window in tiles:
        low, size = window[:2], window[2:]
        near, far = found.box[:, :2], found.box[:, :2] + found.box[:, 2:]
        cut_low = (near < SETTINGS.tile_edge) & (low > SETTINGS.tile_edge / 4)
        cut_high = (far > 1 - SETTINGS.tile_edge) & (low + size < 1 - SETTINGS.tile_edge / 4)
        kept = ~(cut_low | cut_high).any(1)
        box = torch.cat([low + found.box[:, :2] * size, found.box[:, 2:] * size], dim=1)
        moved = Detections(box.clamp(0, 1), found.score, found.label, found.feature)
        parts.append(moved.select(kept & (box[:, :2] + box[:, 2:] / 2 <= 1).all(1)))
    joined = Detections(
        *(torch.cat([getattr(p, name) for p in parts]) for name in ("box", "score", "label", "feature"))
    )
    origin = torch.cat([torch.full((len(p),), n, device=p.score.device) for n, p in enumerate(parts)])
    return _once(joined, origin)


def _once(found: Detections, origin: Tensor) -> Detections:
    """The surest of the detections of one object, of all passes."""
    order = found.score.argsort(descending=True, stable=True)
    found, origin = found.select(order), origin[order]
    edges = corners(found.box)
    family = FAMILY.to(edges.device)[found.label.argmax(1)] if len(found) else origin
    same = family[:, None] == family[None]
    area = found.box[:, 2:].prod(1)
    share = corner_overlaps(edges, edges)
    shared = share * (area[:, None] + area[None]) / (1 + share)
    within = shared / torch.minimum(area[:, None], area[None]).clamp(min=1e-9)
    other = origin[:, None] != origin[None]
    rivals = same & ((share > OVERLAP) | (other & (within > SETTINGS.tile_part)))
    return found.select(suppress(rivals))
