"""Narrations and camera states as they come, as server-sent events."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import datetime

from daemon.questions.question import Filters, Measure, Question, Span
from daemon.search.results import SearchResult
from daemon.serve.search_thread import News
from daemon.serve.site import Site

SHOWN = 20
"""Narrations on the live page, and at most so many that a browser missed while it was disconnected."""

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
        last = await site.search.ask(lambda search: search.by_id(last_id))
        for result in reversed(await newest(site, last.record.after.moment) if last else []):
            if result.record.id != last_id:
                yield await _narration(site, result)
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
                yield await _narration(site, fresh)
    finally:
        site.search.listeners.discard(news)


async def newest(site: Site, since: datetime | None = None) -> list[SearchResult]:
    """The newest narrations that were not held back, newest first."""
    question = Question(Filters(held=False), Span(since), Measure(limit=SHOWN))
    return await site.search.ask(lambda search: list(search.answer(question).results)[::-1])


async def _tiles(site: Site) -> dict[str, str]:
    """HTML by camera."""
    return {
        tile.name: site.fragment("tile", state=tile, last=site.card(tile.last))
        for tile in await site.tiles.read(site.search.latest)
    }


async def _narration(site: Site, result: SearchResult) -> str:
    record, (card,) = result.record, await site.visits([result])
    html = site.fragment("card", card=card, size="?width=960", fresh=True)
    values = {"id": record.id, "visit": card.visit, "html": html, "text": record.text}
    return _event("narration", values, record.id)


def _event(kind: str, values: dict[str, str], identity: str = "") -> str:
    head = f"id: {identity}\n" if identity and identity.isprintable() else ""
    return f"{head}event: {kind}\ndata: {json.dumps(values)}\n\n"
