"""The pictures of the evidence, in full size or small."""

from __future__ import annotations

import asyncio
import re
from functools import lru_cache
from pathlib import Path

from starlette.responses import FileResponse, Response

from pipeline.evidence import EvidenceStore
from pipeline.report.pages import MEDIA_TYPES
from pipeline.report.picture import encode_small

_WIDTHS = ("480", "960")  # pixels of small pictures
_DIGEST = re.compile(r"[0-9a-f]{64}")
_FOREVER = {"cache-control": "private, max-age=31536000, immutable"}
_small = lru_cache(512)(encode_small)


class Pictures:
    """Pictures by the hash of their content, which therefore never change."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self._turns = asyncio.Semaphore(2)

    async def answer(self, digest: str, width: str | None) -> Response | None:
        """The picture, at most so many pixels wide; None where there is none."""
        if self.folder is None or not _DIGEST.fullmatch(digest) or width not in (None, *_WIDTHS):
            return None
        path = EvidenceStore(self.folder).find(digest)
        if path is None:
            return None
        if width is None:
            return FileResponse(path, media_type=MEDIA_TYPES[path.suffix], headers=_FOREVER)
        async with self._turns:
            small = await asyncio.to_thread(_small, path, int(width), "jpg")
        return Response(small, media_type="image/jpeg", headers=_FOREVER) if small else None
