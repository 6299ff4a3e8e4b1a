"""The pictures of the evidence, whole or small."""

from __future__ import annotations

import asyncio
import re
from collections import OrderedDict
from pathlib import Path

from starlette.responses import FileResponse, Response

from pipeline.evidence import EvidenceStore

WIDTHS = (480, 960)
"""Pixels of small pictures."""

_DIGEST = re.compile(r"[0-9a-f]{64}")
_KEPT = 48 * 2**20
"""Bytes of small pictures that are remembered."""
_QUALITY = 80
_MEDIA = {".jpg": "image/jpeg", ".webp": "image/webp"}
_FOREVER = {"cache-control": "private, max-age=31536000, immutable"}


class PictureShelf:
    """Pictures by the hash of their content, which therefore never change."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self._store = EvidenceStore(folder) if folder else None
        self._small: OrderedDict[tuple[str, int], bytes] = OrderedDict()
        self._size = 0
        self._turns = asyncio.Semaphore(2)

    def find(self, digest: str) -> Path | None:
        """The file of a picture; None for what is no hash, or not there."""
        if self._store is None or _DIGEST.fullmatch(digest) is None:
            return None
        return self._store.find(digest)

    async def answer(self, digest: str, width: int | None) -> Response | None:
        """The picture, of at most that width; None where there is none."""
        path = self.find(digest)
        if path is None:
            return None
        if width is None:
            return FileResponse(path, media_type=_MEDIA[path.suffix], headers=_FOREVER)
        small = self._small.get((digest, width))
        if small is None:
            async with self._turns:
                small = await asyncio.to_thread(_shrunk, path, width)
            if small is None:
                return None
            self._remember((digest, width), small)
        return Response(small, media_type="image/jpeg", headers=_FOREVER)

    def _remember(self, key: tuple[str, int], small: bytes) -> None:
        self._small[key] = small
        self._size += len(small)
        while self._size > _KEPT:
            self._size -= len(self._small.popitem(last=False)[1])


def _shrunk(path: Path, width: int) -> bytes | None:
    import cv2  # noqa: PLC0415 - loads in the thread that needs it

    try:
        encoded = path.read_bytes()
    except OSError:
        return None
    import numpy as np  # noqa: PLC0415

    image = cv2.imdecode(np.frombuffer(encoded, np.uint8), cv2.IMREAD_COLOR)
    if image is None:
        return None
    rows, columns = image.shape[:2]
    if columns > width:
        image = cv2.resize(
            image, (width, max(1, round(rows * width / columns))), interpolation=cv2.INTER_AREA
        )
    written, small = cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, _QUALITY])
    return bytes(small) if written else None
