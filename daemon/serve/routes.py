"""What each address answers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime
from http import HTTPStatus
from urllib.parse import parse_qsl, quote

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from daemon.export.archive import ExportError
from daemon.questions.errors import SearchError
from daemon.questions.question import Filters
from daemon.questions.words import ANIMALS, COLOURS, NOUNS
from daemon.search.found import FoundRecord
from daemon.search.search import Search
from daemon.serve.access import Session
from daemon.serve.asked import ALL_DAYS, Asked
from daemon.serve.cards import moment_of
from daemon.serve.chain import chain_state
from daemon.serve.download import BusyError, Download
from daemon.serve.guard import Guard
from daemon.serve.live import MOST_LISTENERS, events, newest
from daemon.serve.pictures import WIDTHS
from daemon.serve.remarks import REMARKS, say
from daemon.serve.review import Reviewed, reviewed, unanswered
from daemon.serve.site import STATIC, Site, static
from pipeline.feedback import LONGEST_NOTE, TYPES, FeedbackError
from pipeline.report.words import TYPES as TYPE_WORDS

_LONGEST_FORM = 64 * 1024
_FIELDS = 20


class Routes:
    """The answers."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.guard: Guard | None = None
        self._download = Download(site)

    def all(self) -> list[BaseRoute]:
        """Every address that there is."""
        return [
            Route("/", self.live),
            Route("/events", self.events),
            Route("/review", self.review),
            Route("/record/{identity}", self.record),
            Route("/record/{identity}/{what}", self.remark, methods=["POST"]),
            Route("/export", self.export, methods=["POST"]),
            Route("/picture/{digest}", self.picture),
            Route("/static/{name}", self.static),
            Route("/login", self.login, methods=["GET", "POST"]),
            Route("/logout", self.logout, methods=["POST"]),
            Route("/alive", self.alive),
        ]

    async def live(self, request: Request) -> Response:
        """What is narrated now."""
        if waiting := self._waiting(request):
            return waiting
        states = await self.site.camera_states()
        last = {state.name: self.site.cards([state.last])[0] for state in states if state.last}
        cards = self.site.cards(await newest(self.site))
        faults = await self.site.search.ask(Search.faults)
        return self.site.page(request, "live", states=states, last=last, cards=cards, faults=faults)

    async def events(self, request: Request) -> Response:
        """The same, as it comes."""
        if self.site.search.reading is not None or self.site.search.listening >= MOST_LISTENERS:
            raise HTTPException(HTTPStatus.SERVICE_UNAVAILABLE, "Too many are listening.")
        stream = events(self.site, request.headers.get("last-event-id", ""))
        return StreamingResponse(stream, media_type="text/event-stream", headers={"x-accel-buffering": "no"})

    async def review(self, request: Request) -> Response:
        """What was narrated, by day, filter and question."""
        if waiting := self._waiting(request):
            return waiting
        try:
            found = await self.site.search.ask(
                lambda search: reviewed(search, request.query_params, datetime.now(UTC))
            )
        except SearchError as error:
            asked = await self.site.search.ask(lambda search: unanswered(search, request.query_params))
            return self._review(request, asked, str(error).replace("--", ""), HTTPStatus.BAD_REQUEST)
        return self._review(request, found)

    def _review(
        self, request: Request, found: Reviewed, error: str = "", status: int = HTTPStatus.OK
    ) -> Response:
        return self.site.page(
            request,
            "review",
            status,
            it=found,
            asked=found.asked,
            cards=self.site.cards(found.found),
            error=error,
            kinds={"came": "came", "left": "left", **TYPE_WORDS},
            colours=sorted(set(COLOURS.values())),
            all_days=ALL_DAYS,
        )

    async def record(self, request: Request) -> Response:
        """One narration."""
        if waiting := self._waiting(request):
            return waiting
        identity, at = request.path_params["identity"], request.query_params.get("at", "")

        def ask(search: Search) -> tuple[Asked, FoundRecord, FoundRecord | None, FoundRecord | None] | None:
            found = _named(search, identity, at)
            if found is None:
                return None
            asked = Asked.read(request.query_params, search, datetime.now(UTC), always=False)
            return asked, found, *search.beside(found.record, asked.question.filters)

        answer = await self.site.search.ask(ask)
        if answer is None:
            raise HTTPException(
                HTTPStatus.NOT_FOUND, "There is no such narration here; perhaps retention has deleted it."
            )
        asked, found, older, newer = answer
        chain = await asyncio.to_thread(
            chain_state, found, self.site.search.folder, self.site.pictures.folder
        )
        card, *around = self.site.cards([found, *(each for each in (older, newer) if each)])
        beside = iter(around)
        return self.site.page(
            request,
            "record",
            card=card,
            asked=asked,
            chain=chain,
            older=next(beside) if older else None,
            newer=next(beside) if newer else None,
            objects=(*NOUNS, *ANIMALS),
            types={name: TYPE_WORDS[name] for name in TYPES},
            longest_note=LONGEST_NOTE,
            verify=f"narrated verify {self.site.search.folder}",
        )

    async def remark(self, request: Request) -> Response:
        """What somebody says of a narration: reviewed, a note, right, wrong, what it was."""
        form, session = await self._form(request), request.state.session
        identity, what = request.path_params["identity"], request.path_params["what"]
        found = await self.site.search.ask(lambda search: _named(search, identity, form.get("at", "")))
        if found is None or what not in REMARKS:
            raise HTTPException(HTTPStatus.NOT_FOUND, "There is no such narration here.")
        try:
            await asyncio.to_thread(say, self.site.feedback, found.record, what, form, session.who)
        except (FeedbackError, ValueError) as error:
            raise HTTPException(HTTPStatus.BAD_REQUEST, str(error)) from None
        query = form.get("query", "")
        place = f"#s{form['sentence']}" if what == "feedback" else ""
        return RedirectResponse(
            f"/record/{quote(identity, safe='')}"
            + (f"?{quote(query, safe='=&%+')}" if query else "")
            + place,
            HTTPStatus.SEE_OTHER,
        )

    async def export(self, request: Request) -> Response:
        """What the review shows, to be taken away."""
        await self._form(request)
        try:
            return await self._download.answer(request.query_params)
        except BusyError:
            raise HTTPException(HTTPStatus.SERVICE_UNAVAILABLE, "Another export is being written.") from None
        except (SearchError, ExportError) as error:
            raise HTTPException(HTTPStatus.BAD_REQUEST, f"{error}.") from None

    async def picture(self, request: Request) -> Response:
        """A picture of the evidence."""
        width = request.query_params.get("width")
        if width is not None and width not in map(str, WIDTHS):
            raise HTTPException(HTTPStatus.NOT_FOUND, f"Pictures are {' or '.join(map(str, WIDTHS))} wide.")
        answer = await self.site.pictures.answer(request.path_params["digest"], int(width) if width else None)
        if answer is None:
            raise HTTPException(HTTPStatus.NOT_FOUND, "There is no such picture.")
        return answer

    async def static(self, request: Request) -> Response:
        """The style sheet, the script, the icon."""
        name = request.path_params["name"]
        content = static(name)
        if content is None:
            raise HTTPException(HTTPStatus.NOT_FOUND, "There is no such file.")
        return Response(content, media_type=STATIC[name], headers={"cache-control": "no-cache"})

    async def login(self, request: Request) -> Response:
        """Who are you?"""
        passwords = self.site.passwords
        wanted = _local(request.query_params.get("next", ""))
        if passwords is None:
            return RedirectResponse("/", HTTPStatus.SEE_OTHER)
        if request.method == "GET":
            return self.site.page(request, "login", wanted=wanted, error="")
        form = await self._form(request)
        address = request.client.host if request.client else ""
        wait_s, wanted = self.site.guesses.wait_s(address), _local(form.get("next", ""))
        if wait_s:
            error = f"Too many wrong passwords. Try again in {max(1, round(wait_s / 60))} minutes."
            page = self.site.page(request, "login", HTTPStatus.TOO_MANY_REQUESTS, wanted=wanted, error=error)
            page.headers["retry-after"] = str(int(wait_s) + 1)
            return page
        name = form.get("name", "")
        if not await passwords.right(name, form.get("password", "")):
            self.site.guesses.wrong(address)
            error = "That name and password do not go together."
            return self.site.page(request, "login", HTTPStatus.FORBIDDEN, wanted=wanted, error=error)
        return self._with(RedirectResponse(wanted, HTTPStatus.SEE_OTHER), Session(who=name))

    async def logout(self, request: Request) -> Response:
        """The browser is forgotten."""
        await self._form(request)
        return self._with(RedirectResponse("/login", HTTPStatus.SEE_OTHER), Session())

    async def alive(self, _: Request) -> Response:
        """Whether the journals can be asked."""
        if self.site.search.reading is None:
            await asyncio.wait_for(self.site.search.ask(Search.faults), 20)
        return JSONResponse({"ok": True})

    async def error(self, request: Request, error: Exception) -> Response:
        """What cannot be answered, said in words."""
        status, words = HTTPStatus.INTERNAL_SERVER_ERROR, "Something went wrong here; the log says what."
        headers: Mapping[str, str] | None = None
        if isinstance(error, HTTPException):
            status, words, headers = HTTPStatus(error.status_code), error.detail, error.headers
        if "text/html" not in request.headers.get("accept", ""):
            return PlainTextResponse(f"{words}\n", status, headers)
        page = self.site.page(request, "error", status, words=words, status_words=status.phrase)
        page.headers.update(headers or {})
        return page

    def _with(self, response: Response, session: Session) -> Response:
        if self.guard:
            self.guard.set_cookie(response, session)
        return response

    def _waiting(self, request: Request) -> Response | None:
        """The page for those who come while the index is still built."""
        reading = self.site.search.reading
        if reading is None:
            return None
        page = self.site.page(request, "reading", HTTPStatus.SERVICE_UNAVAILABLE, reading=reading)
        page.headers["retry-after"] = "2"
        return page

    async def _form(self, request: Request) -> dict[str, str]:
        """The fields of a form of ours.

        Raises:
            HTTPException: it is no form, or another site's.
        """
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/x-www-form-urlencoded":
            raise HTTPException(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "Send a form.")
        body = bytearray()
        async for part in request.stream():
            body += part
            if len(body) > _LONGEST_FORM:
                raise HTTPException(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "The form is too large.")
        try:
            form = dict(
                parse_qsl(
                    body.decode("ascii"), keep_blank_values=True, max_num_fields=_FIELDS, errors="strict"
                )
            )
        except ValueError:
            raise HTTPException(HTTPStatus.BAD_REQUEST, "The form cannot be read.") from None
        if not self.site.sessions.genuine(request.state.session, form.get("token", "")):
            raise HTTPException(
                HTTPStatus.FORBIDDEN, "The form is too old or of another site: load the page again."
            )
        return form


def _named(search: Search, identity: str, at: str) -> FoundRecord | None:
    span = moment_of(identity, at)
    if span is None:
        return None
    cameras = tuple(name for name in search.selection.cameras() if identity.startswith(f"{name}-"))
    found = search.named(identity, Filters(cameras, since=span[0], until=span[1])) if cameras else None
    return found or search.named(identity, Filters(since=span[0], until=span[1]))


def _local(target: str) -> str:
    """Where to go after the login: a path of ours, whatever was asked for."""
    sound = (
        target.startswith("/")
        and target[1:2] not in ("/", "\\")
        and target.isascii()
        and target.isprintable()
    )
    return target if sound else "/"
