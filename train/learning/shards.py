"""The cache on disk: shards of features that are whole and unchanged, or not there.

A shard becomes visible by one rename and is checked byte for byte when it is opened for the first time, and
again when its files are no longer the same: one that was half written, truncated or damaged is not trusted.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
import time
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

SHARD = 64
"""Samples in a shard."""

_CLUSTERS = ("boxes", "active", "counts")
_MAPPED = ("maps", "images", "masks")
_CHECKED = "checked.json"
_PART_AGE_S = 24 * 3600.0


class FeatureError(Exception):
    """Features cannot be computed or kept; the message names the image or folder and says what to do."""


@dataclass(frozen=True, slots=True)
class ShardContent:
    """What a captioner sees of a sample besides its clusters.

    Attributes:
        images: whether the images are kept beside the maps.
        masks: whether the clusters' masks are looked at; they are kept all the same.
    """

    images: bool = False
    masks: bool = True

    @property
    def names(self) -> tuple[str, ...]:
        """The arrays of a shard that are opened."""
        looked_at = [("images", self.images), ("masks", self.masks)]
        return ("maps", *(name for name, wanted in looked_at if wanted), *_CLUSTERS)


@dataclass(frozen=True, slots=True, eq=False)
class Shard:
    """The features of up to 64 samples.

    Attributes:
        maps: float16 ``(n, 2, C, 14, 14)``, before (aligned) and after; memory-mapped.
        images: uint8 ``(n, 2, 3, height, width)``, before (aligned) and after; memory-mapped; None where
            they are not kept.
        masks: uint8 ``(clusters, h * w / 8)``, bit-packed cluster masks of all samples in a row;
            memory-mapped; None where they are not looked at.
        boxes: float32 ``(clusters, 4)``.
        active: float32 ``(clusters,)``, share of the frame.
        counts: int64 ``(n,)``, clusters of each sample.
    """

    maps: NDArray[np.float16]
    images: NDArray[np.uint8] | None
    masks: NDArray[np.uint8] | None
    boxes: NDArray[np.float32]
    active: NDArray[np.float32]
    counts: NDArray[np.int64]


def sweep(cache: Path) -> None:
    """Delete what runs that were killed left behind; younger parts may belong to a run at work."""
    for part in cache.glob("*.part-*"):
        if time.time() - part.stat().st_mtime > _PART_AGE_S:
            shutil.rmtree(part, ignore_errors=True)


def write_shard(folder: Path, computed: Callable[[], dict[str, NDArray[np.generic]]]) -> None:
    """Compute a shard into a folder beside its place and rename it there when it is whole.

    Raises:
        FeatureError: it cannot be written.
    """
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        part = Path(tempfile.mkdtemp(prefix=f"{folder.name}.part-", dir=folder.parent))
    except OSError as error:
        raise FeatureError(
            f"{folder.parent} cannot be written: {error.strerror}; choose another --cache"
        ) from error
    try:
        sums = {}
        for name, array in computed().items():
            with (part / f"{name}.npy").open("wb") as file:
                np.save(file, array)
                file.flush()
                os.fsync(file.fileno())
            sums[name] = zlib.crc32(np.ascontiguousarray(array).data)
        (part / "sums.json").write_text(json.dumps(sums), encoding="utf-8")
        shutil.rmtree(folder, ignore_errors=True)  # a damaged one, or there would be no need to write
        part.replace(folder)
    except OSError as error:
        raise FeatureError(
            f"features cannot be kept in {folder.parent}: {error.strerror}; free some space"
        ) from error
    finally:
        shutil.rmtree(part, ignore_errors=True)


def open_shard(folder: Path, seen: ShardContent, channels: int, mask_size: tuple[int, int]) -> Shard | None:
    """The shard, if it is there, whole and unchanged since it was written.

    Args:
        folder: of the shard.
        seen: what it must hold.
        channels: of the encoder.
        mask_size: ``(height, width)`` of the cluster masks.
    """
    try:
        sums = json.loads((folder / "sums.json").read_text(encoding="utf-8"))
        arrays = {
            name: np.load(folder / f"{name}.npy", mmap_mode="r" if name in _MAPPED else None)
            for name in seen.names
        }
    except (OSError, ValueError, EOFError):
        return None
    if not isinstance(sums, dict) or not _whole(folder, arrays, sums):
        return None
    maps, images, masks = (arrays.get(name) for name in _MAPPED)
    shard = Shard(arrays["maps"], images, masks, *(arrays[name] for name in _CLUSTERS))
    packed = (mask_size[0] * mask_size[1] + 7) // 8
    fits = maps is not None and maps.shape == (len(shard.counts), 2, channels, 14, 14)
    return shard if fits and (masks is None or masks.shape[1] == packed) else None


def _whole(folder: Path, arrays: Mapping[str, NDArray[Any]], sums: Mapping[str, int]) -> bool:
    """Whether all arrays have their sums; what was checked is not read again while its file is the same."""
    checked: dict[str, list[int]] = {}
    with contextlib.suppress(OSError, ValueError, TypeError):
        checked = dict(json.loads((folder / _CHECKED).read_text(encoding="utf-8")))
    found = {}
    for name, array in arrays.items():
        status = (folder / f"{name}.npy").stat()
        found[name] = [status.st_size, status.st_ino, status.st_mtime_ns, status.st_ctime_ns]
        if checked.get(name) != found[name] and zlib.crc32(array.data) != sums.get(name):
            return False
    if any(checked.get(name) != seen for name, seen in found.items()):
        with contextlib.suppress(OSError):  # a cache that cannot be written is checked at every start
            part = folder / f"{_CHECKED}.part-{os.getpid()}"
            part.write_text(json.dumps({**checked, **found}), encoding="utf-8")
            part.replace(folder / _CHECKED)
    return True
