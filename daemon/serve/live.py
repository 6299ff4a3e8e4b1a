"""Narrations and camera states as they come, as server-sent events."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import datetime

from daemon.questions.question import Filters, Measure, Question, Span
from daemon.search.found import FoundRecord
from daemon.serve.search_thread import News
from daemon.serve.site import Site

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
        shown = await _tiles(site)
        last = await site.search.ask(lambda search: search.named(last_id, Span()))
        missed = await newest(site, last.record.after.moment) if last else []
        for hit in reversed(missed):
            if hit.record.id != last_id:
                yield _narration(site, hit)
        while True:
            tiles = await _tiles(site)
            for name, html in tiles.items():
                if shown.get(name) != html:
                    yield _event("camera", {"name": name, "html": html})
            shown = tiles
            try:
                fresh = await asyncio.wait_for(news.get(), _BEAT_S)
            except TimeoutError:
                yield ": still here\n\n"
                continue
            if fresh is None:
                return
            if not fresh.record.held:
                yield _narration(site, fresh)
    finally:
        site.search.listeners.discard(news)


async def newest(site: Site, since: datetime | None = None) -> list[FoundRecord]:
    """The newest narrations that were not held back, newest first."""
    question = Question(Filters(held=False), Span(since), Measure(limit=SHOWN))
    return await site.search.ask(lambda search: list(search.answer(question).found)[::-1])


async def _tiles(site: Site) -> dict[str, str]:
    """HTML by camera."""
    return {
        tile.name: site.fragment("tile", state=tile, last=site.card(tile.last) if tile.last else None)
        for tile in await site.tiles.read(site.search.latest)
    }


def _narration(site: Site, hit: FoundRecord) -> str:
    record = hit.record
    html = site.fragment("card", card=site.card(hit), size="?width=960", fresh=True)
    return _event("narration", {"id": record.id, "html": html, "text": record.text}, record.id)


def _event(kind: str, values: dict[str, str], identity: str = "") -> str:
    head = f"id: {identity}\n" if identity and identity.isprintable() else ""
    return f"{head}event: {kind}\ndata: {json.dumps(values)}\n\n"
