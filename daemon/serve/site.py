"""The parts of the page, and how a page is made of a template."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from daemon import __version__
from daemon.config.settings import Configuration, ServeSettings
from daemon.digest.digest import Digest, write_digest
from daemon.questions.local_time import LocalTime
from daemon.questions.question import Filters, Measure, Question, Span
from daemon.search.results import SearchResult
from daemon.search.search import Search
from daemon.serve.access import GuessLimit, Passwords, ServeError, Sessions, password_file
from daemon.serve.areas import may_write
from daemon.serve.search_thread import SearchThread
from daemon.serve.tiles import GOOD, CameraStates, Tile
from pipeline.evidence import evidence_beside
from pipeline.feedback import FILE, FeedbackError, FeedbackStore, Remarks
from pipeline.record import Record
from pipeline.report.card import Card
from pipeline.report.pages import environment

_NEWEST = 20


class Site:
    """Everything that the pages are made of.

    Args:
        settings: of the page.
        folder: of the journals.
        own: folder of the feedback.
        configuration: of the daemon, where it is known.
        timezone: of days and hours; None is this machine's.
        config: the configuration's file.

    Attributes:
        passwords, sessions: None where no login is needed.
        config: None where zones and lines may not be written into it.
        cameras: of the configuration, where it is known.
        secure: browsers come over TLS, so that the cookie may go over nothing else.

    Raises:
        ServeError: the passwords or the feedback cannot be used.
        SearchError: there is no such time zone.
    """

    def __init__(
        self,
        settings: ServeSettings,
        folder: Path,
        own: Path,
        *,
        configuration: Configuration | None = None,
        timezone: str | None = None,
        config: Path | None = None,
    ) -> None:
        self.passwords = (
            Passwords(password_file(settings.passwords, os.environ)) if settings.passwords else None
        )
        self.sessions = Sessions() if self.passwords else None
        self.guesses, self.secure = GuessLimit(), settings.proxy
        self.local = LocalTime.named(timezone)
        self.search = SearchThread(folder, self.local)
        self.evidence = evidence_beside(folder) or folder.parent / "evidence"
        self.config = config if config and may_write(config) else None
        self.cameras = configuration.cameras if configuration else None
        self.states = CameraStates(configuration.http.listen if configuration else None)
        self._digests: dict[datetime, Digest] = {}  # today's, by the minute
        try:
            self.feedback = FeedbackStore(own / FILE)
        except FeedbackError as error:
            raise ServeError(str(error)) from None

    @property
    def cookie(self) -> str:
        """Its name; with the prefix, browsers take it over TLS alone."""
        return "__Host-narrated" if self.secure else "narrated"

    def page(self, request: Request, name: str, status: int = 0, **values: Any) -> Response:
        """A page of a template; without a status 200, or 400 where there is an `error`."""
        status = status or (HTTPStatus.BAD_REQUEST if values.get("error") else HTTPStatus.OK)
        values |= {"site": self, "user": request.state.user, "path": request.url.path, "version": __version__}
        return HTMLResponse(environment().get_template(f"{name}.html.j2").render(values), status)

    async def today(self) -> Digest | None:
        """Today's digest, made once a minute; None before the first narration."""
        now = datetime.now(UTC).replace(second=0, microsecond=0)
        if now not in self._digests and self.search.latest:
            self._digests = {now: await self.search.ask(lambda search: write_digest(search, Span(), now))}
        return self._digests.get(now)

    async def newest(self) -> list[Card]:
        """The newest narrations that were not held back, newest first."""
        question = Question(Filters(held=False), measure=Measure(limit=_NEWEST))
        return await self.visits(
            await self.search.ask(lambda search: list(search.answer(question).results)[::-1])
        )

    async def tiles(self) -> list[Tile]:
        """All cameras by name, those that were removed from the configuration last."""
        configured, states = self.cameras, await self.states.read()
        latest, tiles, removed = self.search.latest, list[Tile](), list[Tile]()
        for name in sorted({*latest, *(configured or ())}):
            card = self.card(latest.get(name))
            if configured is not None and name not in configured:
                removed.append(Tile(name, "removed from the configuration", "removed", card))
                continue
            live = (configured[name].live_url if configured else None) or ""
            state, level = "", "unknown"
            if states is not None:
                state = states.get(name, "not watched by the daemon that runs")
                level = "good" if state in GOOD else "bad"
            tiles.append(Tile(name, state, level, card, live))
        return tiles + removed

    async def visits(self, results: Sequence[SearchResult]) -> list[Card]:
        """Records with people's remarks, those of one visit as one card."""

        def ask(search: Search) -> list[tuple[list[SearchResult], list[tuple[str, SearchResult]]]]:
            visits = search.visits_of(results)
            return [(visit, [o for each in visit for o in search.others_of(each.record)]) for visit in visits]

        made = []
        for visit, others in await self.search.ask(ask):
            *stages, last = self.cards(visit)
            names = [(words, each.record.text, _address(each.record)) for words, each in others]
            made.append(replace(last, stages=stages, others=names))
        return made

    def card(self, result: SearchResult | None) -> Card | None:
        """A record with people's remarks; None of None."""
        return self.cards([result])[0] if result else None

    def cards(self, results: Sequence[SearchResult]) -> list[Card]:
        """Records with people's remarks."""
        remarks = self.feedback.remarks([each.record.id for each in results])
        return [
            Card(
                each.record,
                self.local.zone,
                {side: f"/picture/{path.name[:64]}" for side, path in each.pictures.items()},
                _address(each.record),
                each.marks,
                remarks.get(each.record.id, Remarks()),
            )
            for each in results
        ]


def _address(record: Record) -> str:
    return f"/record/{quote(record.id, safe='')}"
