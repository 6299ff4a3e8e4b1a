"""Narrations and camera states as they come, as server-sent events."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace

from daemon.questions.question import Filters, Question
from daemon.search.found import FoundRecord
from daemon.search.search import Search
from daemon.serve.camera_tiles import CameraTile
from daemon.serve.cards import moment_of
from daemon.serve.site import Site

MOST_LISTENERS = 64
SHOWN = 20
"""Narrations on the live page, and those that a browser is told which had lost us."""

_BEAT_S = 10.0


async def events(site: Site, last_id: str) -> AsyncIterator[str]:
    """The events of one browser, until it leaves or the server ends.

    Args:
        site: the parts of the page.
        last_id: of the last narration that the browser got, empty at first; it is told what it missed.
    """
    news = site.search.listen()
    try:
        yield "retry: 2000\n\n"
        shown = {state.name: _tile(site, state) for state in await site.camera_states()}
        for found in await _missed(site, last_id) if last_id else []:
            yield _narration(site, found)
        while True:
            for state in await site.camera_states():
                html = _tile(site, state)
                if shown.get(state.name) != html:
                    shown[state.name] = html
                    yield _event("camera", {"name": state.name, "html": html})
            try:
                found_or_end = await asyncio.wait_for(news.get(), _BEAT_S)
            except TimeoutError:
                yield ": still here\n\n"
                continue
            if found_or_end is None:
                return
            yield _narration(site, found_or_end)
    finally:
        site.search.leave(news)


async def newest(site: Site, filters: Filters | None = None) -> list[FoundRecord]:
    """The newest narrations, newest first."""
    question = Question(filters or Filters(), limit=SHOWN)

    def ask(search: Search) -> list[FoundRecord]:
        return list(search.answer(question).found)[::-1]

    return await site.search.ask(ask)


async def _missed(site: Site, last_id: str) -> list[FoundRecord]:
    """What came after the record of an id, the newest of it, oldest first."""
    span = moment_of(last_id)
    if span is None:
        return []
    found = await newest(site, replace(Filters(), since=span[0]))
    return [each for each in reversed(found) if each.record.id != last_id]


def _narration(site: Site, found: FoundRecord) -> str:
    (card,) = site.cards([found])
    html = site.fragment("card", card=card, fresh=True)
    return _event(
        "narration", {"id": found.record.id, "html": html, "text": found.record.text}, found.record.id
    )


def _tile(site: Site, state: CameraTile) -> str:
    last = site.cards([state.last])[0] if state.last else None
    return site.fragment("tile", state=state, last=last)


def _event(kind: str, values: dict[str, str], identity: str = "") -> str:
    head = f"id: {identity}\n" if identity and identity.isprintable() else ""
    return f"{head}event: {kind}\ndata: {json.dumps(values)}\n\n"
