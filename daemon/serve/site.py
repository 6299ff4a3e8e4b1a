"""The parts of the page, and how a page is made of a template."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from daemon import __version__
from daemon.digest.digest import Digest, write_digest
from daemon.questions.local_time import LocalTime
from daemon.questions.question import Span
from daemon.search.results import SearchResult
from daemon.search.search import Search
from daemon.serve.access import GuessLimit, Passwords, Sessions
from daemon.serve.pictures import Pictures
from daemon.serve.search_thread import SearchThread
from daemon.serve.tiles import Tiles
from pipeline.feedback import FeedbackStore, Remarks
from pipeline.record import Record
from pipeline.report.card import Card
from pipeline.report.pages import environment


@dataclass(frozen=True, slots=True, eq=False)
class Site:
    """Everything that the pages are made of; `passwords` and `sessions` are None where no login is needed.

    Attributes:
        digests: today's, by the minute.
        secure: browsers come over TLS, so that the cookie may go over nothing else.
        config: the configuration file, into which zones and lines may be written; else None.
    """

    search: SearchThread
    feedback: FeedbackStore
    tiles: Tiles
    pictures: Pictures
    passwords: Passwords | None
    sessions: Sessions | None
    guesses: GuessLimit
    local: LocalTime
    secure: bool
    config: Path | None = None
    digests: dict[datetime, Digest] = field(default_factory=dict)

    async def today(self) -> Digest | None:
        """Today's digest, made once a minute; None before the first narration."""
        now = datetime.now(UTC).replace(second=0, microsecond=0)
        if now not in self.digests and self.search.latest:
            self.digests.clear()
            self.digests[now] = await self.search.ask(lambda search: write_digest(search, Span(), now))
        return self.digests.get(now)

    @property
    def cookie(self) -> str:
        """Its name; with the prefix, browsers take it over TLS alone."""
        return "__Host-narrated" if self.secure else "narrated"

    def page(self, request: Request, name: str, status: int = HTTPStatus.OK, **values: Any) -> Response:
        """A page of a template."""
        values |= {"site": self, "user": request.state.user, "path": request.url.path, "version": __version__}
        return HTMLResponse(environment().get_template(f"{name}.html.j2").render(values), status)

    def fragment(self, name: str, **values: Any) -> str:
        """A macro of the template of pieces, such as one card."""
        module = environment().get_template("pieces.html.j2").module
        return str(getattr(module, name)(**values)).strip()

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
