"""Narrations and camera states as they come, as server-sent events."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import datetime

from daemon.questions.question import Filters, Measure, Question, Span
from daemon.search.found import FoundRecord
from daemon.serve.search_thread import News
from daemon.serve.site import Site, moment_of
from daemon.serve.tiles import Tile

SHOWN = 20
"""Narrations on the live page, and those that a browser gets which had lost the connection."""

_BEAT_S = 10.0


async def events(site: Site, news: News, last_id: str) -> AsyncIterator[str]:
    """The events of one browser, until it leaves or the server ends.

    Args:
        site: the parts of the page.
        news: of `SearchThread.listen`.
        last_id: of the last narration that the browser got, empty at first; it gets what it missed.
    """
    try:
        yield "retry: 2000\n\n"
        shown = {tile.name: _tile(site, tile) for tile in await site.camera_tiles()}
        for found in await _missed(site, last_id) if last_id else []:
            yield _narration(site, found)
        while True:
            for tile in await site.camera_tiles():
                html = _tile(site, tile)
                if shown.get(tile.name) != html:
                    shown[tile.name] = html
                    yield _event("camera", {"name": tile.name, "html": html})
            try:
                found_or_end = await asyncio.wait_for(news.get(), _BEAT_S)
            except TimeoutError:
                yield ": still here\n\n"
                continue
            if found_or_end is None:
                return
            if not found_or_end.record.held:
                yield _narration(site, found_or_end)
    finally:
        site.search.leave(news)


async def newest(site: Site, since: datetime | None = None) -> list[FoundRecord]:
    """The newest narrations that were not held back, newest first."""
    question = Question(Filters(held=False), Span(since), Measure(limit=SHOWN))
    return await site.search.ask(lambda search: list(search.answer(question).found)[::-1])


async def _missed(site: Site, last_id: str) -> list[FoundRecord]:
    """What came after the record of an id, oldest first."""
    span = moment_of(last_id)
    found = await newest(site, span[0]) if span else []
    return [each for each in reversed(found) if each.record.id != last_id]


def _narration(site: Site, found: FoundRecord) -> str:
    record = found.record
    (card,) = site.cards([found])
    html = site.fragment("card", card=card, size="?width=960", fresh=True)
    return _event("narration", {"id": record.id, "html": html, "text": record.text}, record.id)


def _tile(site: Site, tile: Tile) -> str:
    last = site.cards([tile.last])[0] if tile.last else None
    return site.fragment("tile", state=tile, last=last)


def _event(kind: str, values: dict[str, str], identity: str = "") -> str:
    head = f"id: {identity}\n" if identity and identity.isprintable() else ""
    return f"{head}event: {kind}\ndata: {json.dumps(values)}\n\n"
