"""What is shown, as a zip for somebody who checks it without us."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import BinaryIO

from starlette.datastructures import QueryParams
from starlette.responses import Response, StreamingResponse

from daemon.export.export import ExportOptions, write_export
from daemon.questions.errors import SearchError
from daemon.questions.restatement import restate
from daemon.search.found import FoundRecord
from daemon.search.search import Search
from daemon.serve.asked import Asked
from daemon.serve.site import Site

MOST = 5000
"""Narrations in one zip; more take so long that they are a matter for `narrated export`."""

_BLOCK = 1 << 18


class BusyError(Exception):
    """Another zip is being written."""


class Download:
    """Writes one zip at a time, beside whatever else is asked."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._writing = False

    async def answer(self, parameters: QueryParams) -> Response:
        """The narrations that an address of the review shows, with all its pages.

        Raises:
            SearchError: it cannot be understood, finds nothing or too much.
            BusyError: another zip is being written.
            ExportError: it cannot be written.
        """
        if self._writing:
            raise BusyError
        self._writing = True
        try:
            asked, found = await self._site.search.ask(lambda search: _selected(search, parameters))
            options = ExportOptions(
                journals=self._site.search.folder,
                local=self._site.local,
                selection=restate(asked.question, self._site.local),
            )
            file = await asyncio.to_thread(_written, found, options)
        finally:
            self._writing = False
        name = f"narrated-{datetime.now(UTC):%Y%m%dT%H%M%SZ}.zip"
        headers = {
            "content-disposition": f'attachment; filename="{name}"',
            "content-length": str(_length(file)),
        }
        return StreamingResponse(_parts(file), media_type="application/zip", headers=headers)


def _selected(search: Search, parameters: QueryParams) -> tuple[Asked, list[FoundRecord]]:
    asked = Asked.read(parameters, search, datetime.now(UTC))
    if asked.question.count:
        raise SearchError("counts cannot be exported: ask for the narrations")
    answer = search.answer(asked.question, MOST)
    if answer.more and asked.question.order == "all":
        raise SearchError(f"these are more than {MOST:,} narrations: choose fewer, or use narrated export")
    if not answer.shown:
        raise SearchError("nothing was found, so nothing is written")
    return asked, list(answer.found)


def _written(found: list[FoundRecord], options: ExportOptions) -> BinaryIO:
    file: BinaryIO = tempfile.TemporaryFile()  # noqa: SIM115 - the answer closes it
    try:
        write_export(found, file, options)
    except BaseException:
        file.close()
        raise
    return file


def _length(file: BinaryIO) -> int:
    length = file.seek(0, 2)
    file.seek(0)
    return length


def _parts(file: BinaryIO) -> Iterator[bytes]:
    with file:
        while part := file.read(_BLOCK):
            yield part
