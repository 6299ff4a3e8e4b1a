"""The pictures of the evidence, whole or small."""

from __future__ import annotations

import asyncio
import re
from functools import lru_cache
from pathlib import Path

from starlette.responses import FileResponse, Response

from pipeline.evidence import EvidenceStore

WIDTHS = (480, 960)
"""Pixels of small pictures."""

_DIGEST = re.compile(r"[0-9a-f]{64}")
_QUALITY = 80
_MEDIA = {".jpg": "image/jpeg", ".webp": "image/webp"}
_FOREVER = {"cache-control": "private, max-age=31536000, immutable"}


class Pictures:
    """Pictures by the hash of their content, which therefore never change."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self._store = EvidenceStore(folder) if folder else None
        self._turns = asyncio.Semaphore(2)

    async def answer(self, digest: str, width: int | None) -> Response | None:
        """The picture, of at most that width; None where there is none."""
        known = self._store and _DIGEST.fullmatch(digest)
        path = self._store.find(digest) if self._store and known else None
        if path is None:
            return None
        if width is None:
            return FileResponse(path, media_type=_MEDIA[path.suffix], headers=_FOREVER)
        async with self._turns:
            small = await asyncio.to_thread(_shrink, path, width)
        return Response(small, media_type="image/jpeg", headers=_FOREVER) if small else None


@lru_cache(512)
def _shrink(path: Path, width: int) -> bytes | None:
    import cv2  # noqa: PLC0415 - loads in the thread that needs it
    import numpy as np  # noqa: PLC0415

    try:
        image = cv2.imdecode(np.fromfile(path, np.uint8), cv2.IMREAD_COLOR)
    except OSError:
        return None
    if image is None:
        return None
    rows, columns = image.shape[:2]
    if columns > width:
        size = width, max(1, round(rows * width / columns))
        image = cv2.resize(image, size, interpolation=cv2.INTER_AREA)
    written, small = cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, _QUALITY])
    return bytes(small) if written else None
