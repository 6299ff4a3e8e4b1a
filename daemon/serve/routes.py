"""What each address answers."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Mapping
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote

from starlette.background import BackgroundTask
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import (
    FileResponse,
    JSONResponse,
    PlainTextResponse,
    RedirectResponse,
    Response,
    StreamingResponse,
)
from starlette.routing import BaseRoute, Route

from daemon.export.export import ExportOptions, write_export
from daemon.export.files import ExportError
from daemon.questions.question import SearchError, Span
from daemon.questions.restatement import restate
from daemon.questions.words import ANIMALS, COLOURS, NOUNS
from daemon.search.found import FoundRecord
from daemon.search.output import gap_sentences
from daemon.search.search import Search
from daemon.serve.access import SESSION_S
from daemon.serve.chain import check_record
from daemon.serve.live import events, newest
from daemon.serve.pictures import WIDTHS
from daemon.serve.review import ALL_DAYS, Asked, Review, choices, given_parameters, review
from daemon.serve.site import Site, moment_of
from pipeline.feedback import LONGEST_NOTE, TYPES, Correction, FeedbackError, FeedbackStore, Opinion
from pipeline.record import Record
from pipeline.report.pages import STATIC, static
from pipeline.report.words import TYPES as TYPE_WORDS

MOST_EXPORTED = 5000
"""Narrations in one zip; more take so long that they are a matter for `narrated export`."""

_LONGEST_FORM = 64 * 1024
_FORM_S = 20.0
_FIELDS = 20


class Routes:
    """The answers."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self._exporting = asyncio.Lock()

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
        tiles = await self.site.camera_tiles()
        last = {tile.name: self.site.cards([tile.last])[0] for tile in tiles if tile.last}
        cards = self.site.cards(await newest(self.site))
        faults = await self.site.search.ask(Search.faults)
        return self.site.page(request, "live", tiles=tiles, last=last, cards=cards, faults=faults)

    async def events(self, request: Request) -> Response:
        """The same, as it comes."""
        news = self.site.search.listen() if self.site.search.reading is None else None
        if news is None:
            raise HTTPException(HTTPStatus.SERVICE_UNAVAILABLE, "Too many are listening.")
        stream = events(self.site, news, request.headers.get("last-event-id", ""))
        return StreamingResponse(stream, media_type="text/event-stream", headers={"x-accel-buffering": "no"})

    async def review(self, request: Request) -> Response:
        """What was narrated, by day, filter and question."""
        if waiting := self._waiting(request):
            return waiting
        error, parameters = "", request.query_params
        try:
            found = await self.site.search.ask(lambda search: review(search, parameters, datetime.now(UTC)))
        except SearchError as refused:
            error = str(refused).replace("--", "")
            found = await self.site.search.ask(lambda search: choices(search, given_parameters(parameters)))
        return self._review(request, found, error)

    def _review(self, request: Request, found: Review, error: str) -> Response:
        return self.site.page(
            request,
            "review",
            HTTPStatus.BAD_REQUEST if error else HTTPStatus.OK,
            it=found,
            asked=found.asked,
            cards=self.site.cards(found.found),
            error=error,
            kinds={"came": "came", "left": "left", **TYPE_WORDS},
            colours_of_objects=sorted(set(COLOURS.values())),
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
            try:
                asked = Asked.read(request.query_params, search, datetime.now(UTC), newest_day=False)
            except SearchError:
                asked = Asked()
            return asked, found, *search.beside(found.record, asked.question)

        answer = await self.site.search.ask(ask)
        if answer is None:
            raise HTTPException(
                HTTPStatus.NOT_FOUND, "There is no such narration here; perhaps retention has deleted it."
            )
        asked, found, older, newer = answer
        folder, evidence = self.site.search.folder, self.site.pictures.folder
        checked = await asyncio.to_thread(check_record, found, folder, evidence)
        (card,) = self.site.cards([found])
        return self.site.page(
            request,
            "record",
            card=card,
            asked=asked,
            checked=checked,
            sound=all(holds is not False for holds, _ in checked),
            older=self.site.cards([older])[0] if older else None,
            newer=self.site.cards([newer])[0] if newer else None,
            objects=[name for name in (*NOUNS, *ANIMALS) if name != "scene"],
            types={name: TYPE_WORDS[name] for name in TYPES},
            longest_note=LONGEST_NOTE,
            verify=f"narrated verify {folder}",
        )

    async def remark(self, request: Request) -> Response:
        """Keep feedback to a narration: reviewed, a note, right, wrong, what it was."""
        form = await _form(request)
        identity, what = request.path_params["identity"], request.path_params["what"]
        found = await self.site.search.ask(lambda search: _named(search, identity, form.get("at", "")))
        if found is None or what not in ("reviewed", "note", "feedback"):
            raise HTTPException(HTTPStatus.NOT_FOUND, "There is no such narration here.")
        try:
            say = (self.site.feedback, found.record, what, form, request.state.user)
            await asyncio.to_thread(_say, *say)
        except (FeedbackError, ValueError) as error:
            raise HTTPException(HTTPStatus.BAD_REQUEST, str(error)) from None
        query, place = form.get("query", ""), f"#s{form['sentence']}" if what == "feedback" else ""
        address = f"/record/{quote(identity, safe='')}"
        return RedirectResponse(
            address + (f"?{quote(query, safe='=&%+')}" if query else "") + place, HTTPStatus.SEE_OTHER
        )

    async def export(self, request: Request) -> Response:
        """What the review shows, as a zip."""
        await _form(request)
        if self._exporting.locked():
            raise HTTPException(HTTPStatus.SERVICE_UNAVAILABLE, "Another export is being written.")
        async with self._exporting:
            scratch = tempfile.TemporaryDirectory(prefix="narrated-")
            path = Path(scratch.name) / f"narrated-{datetime.now(UTC):%Y%m%dT%H%M%SZ}.zip"
            try:
                found, options = await self.site.search.ask(
                    lambda search: _selection(search, request.query_params)
                )
                await asyncio.to_thread(write_export, found, path, options)
            except (SearchError, ExportError) as error:
                scratch.cleanup()
                raise HTTPException(HTTPStatus.BAD_REQUEST, f"{error}.") from None
        return FileResponse(
            path, media_type="application/zip", filename=path.name, background=BackgroundTask(scratch.cleanup)
        )

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
        if name not in STATIC:
            raise HTTPException(HTTPStatus.NOT_FOUND, "There is no such file.")
        return Response(static(name), media_type=STATIC[name], headers={"cache-control": "no-cache"})

    async def login(self, request: Request) -> Response:
        """The form of the login, and what it sends."""
        passwords, sessions = self.site.passwords, self.site.sessions
        wanted = _local(request.query_params.get("next", ""))
        if passwords is None or sessions is None:
            return RedirectResponse("/", HTTPStatus.SEE_OTHER)
        if request.method == "GET":
            return self.site.page(request, "login", wanted=wanted, error="")
        form = await _form(request)
        wanted, name = _local(form.get("next", "")), form.get("name", "")
        address = request.client.host if request.client else ""
        if wait_s := self.site.guesses.take(address):
            error = f"Too many wrong passwords. Try again in {round(wait_s / 60) or 1} min."
            page = self.site.page(request, "login", HTTPStatus.TOO_MANY_REQUESTS, wanted=wanted, error=error)
            page.headers["retry-after"] = str(int(wait_s) + 1)
            return page
        if not await passwords.match(name, form.get("password", "")):
            error = "That name and password do not go together."
            return self.site.page(request, "login", HTTPStatus.FORBIDDEN, wanted=wanted, error=error)
        self.site.guesses.give_back(address)
        answer = RedirectResponse(wanted, HTTPStatus.SEE_OTHER)
        answer.set_cookie(
            self.site.cookie,
            sessions.open(name),
            max_age=SESSION_S,
            secure=self.site.secure,
            httponly=True,
            samesite="strict",
        )
        return answer

    async def logout(self, request: Request) -> Response:
        """End the login, also for a copy of the cookie."""
        if self.site.sessions:
            self.site.sessions.end(request.cookies.get(self.site.cookie, ""))
        answer = RedirectResponse("/login", HTTPStatus.SEE_OTHER)
        answer.delete_cookie(self.site.cookie, secure=self.site.secure, httponly=True, samesite="strict")
        return answer

    async def alive(self, _: Request) -> Response:
        """200 while the journals can be asked."""
        if self.site.search.reading is None:
            await asyncio.wait_for(self.site.search.ask(Search.faults), 20)
        return JSONResponse({"ok": True})

    async def error(self, request: Request, error: Exception) -> Response:
        """What cannot be answered, in words."""
        status, words = HTTPStatus.INTERNAL_SERVER_ERROR, "Something went wrong here; the log says what."
        headers: Mapping[str, str] | None = None
        if isinstance(error, HTTPException):
            status, words, headers = HTTPStatus(error.status_code), error.detail, error.headers
        if "text/html" not in request.headers.get("accept", ""):
            return PlainTextResponse(f"{words}\n", status, headers)
        page = self.site.page(request, "message", status, title=status.phrase, words=words, wait=False)
        page.headers.update(headers or {})
        return page

    def _waiting(self, request: Request) -> Response | None:
        """The page while the index is still built."""
        reading = self.site.search.reading
        if reading is None:
            return None
        words = f"{reading:,} records so far. This page comes by itself when they are read."
        values: dict[str, Any] = {"title": "Reading the journals", "words": words, "wait": True}
        page = self.site.page(request, "message", HTTPStatus.SERVICE_UNAVAILABLE, **values)
        page.headers["retry-after"] = "2"
        return page


async def _form(request: Request) -> dict[str, str]:
    """The fields of a form.

    Raises:
        HTTPException: it is none, too large or too slow.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise HTTPException(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "Send a form.")
    body = bytearray()
    try:
        async with asyncio.timeout(_FORM_S):
            async for part in request.stream():
                body += part
                if len(body) > _LONGEST_FORM:
                    raise HTTPException(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "The form is too large.")
        fields = parse_qsl(
            body.decode("ascii"), keep_blank_values=True, max_num_fields=_FIELDS, errors="strict"
        )
    except TimeoutError:
        raise HTTPException(HTTPStatus.REQUEST_TIMEOUT, "The form took too long.") from None
    except ValueError:
        raise HTTPException(HTTPStatus.BAD_REQUEST, "The form cannot be read.") from None
    return dict(fields)


def _named(search: Search, identity: str, at: str) -> FoundRecord | None:
    span = moment_of(identity, at)
    return search.named(identity, Span(*span)) if span else None


def _selection(search: Search, parameters: Any) -> tuple[list[FoundRecord], ExportOptions]:
    """What an address of the review shows, with all its pages.

    Raises:
        SearchError: it cannot be understood, finds nothing or too much.
    """
    asked = Asked.read(parameters, search, datetime.now(UTC))
    if asked.question.measure.count:
        raise SearchError("counts cannot be exported: ask for the narrations")
    answer = search.answer(asked.question, MOST_EXPORTED)
    if answer.more and asked.question.measure.order == "all":
        raise SearchError(
            f"these are more than {MOST_EXPORTED:,} narrations: choose fewer, or use narrated export"
        )
    if not answer.shown:
        raise SearchError("nothing was found, so nothing is written")
    selection, gaps = restate(asked.question, search.local), gap_sentences(search, asked.question)
    return list(answer.found), ExportOptions(search.folder, search.local, selection, gaps)


def _say(store: FeedbackStore, record: Record, what: str, form: Mapping[str, str], who: str) -> None:
    """Keep what a form says of a record: `what` is reviewed, note or feedback.

    Raises:
        FeedbackError, ValueError: the fields do not fit.
    """
    if what == "reviewed":
        store.set_reviewed(record.id, reviewed=form.get("reviewed") == "yes", who=who)
        return
    if what == "note":
        store.set_note(record.id, form.get("text", "").replace("\r\n", "\n"), who)
        return
    text, number = form.get("sentence", ""), len(record.sentences)
    if not (text.isascii() and text.isdecimal() and len(text) <= len(str(number)) and int(text) < number):
        raise ValueError("there is no such sentence")
    place, opinion = int(text), form.get("opinion", Opinion.CORRECTED)
    if opinion == "back":
        store.withdraw(record.id, place)
    elif opinion != Opinion.CORRECTED:
        store.say(record.id, place, Opinion(opinion), who=who)
    else:
        remarks = store.remarks([record.id]).get(record.id)
        known = remarks.feedback.get(place) if remarks else None
        before = known.correction if known else None
        box = tuple(float(number) for number in form["box"].split(",")) if form.get("box") else None
        correction = Correction(
            form.get("type") or (before and before.type) or None,
            " ".join(form.get("object", "").lower().split()) or (before and before.object) or None,
            box or (before and before.box) or None,  # type: ignore[arg-type]
        )
        store.say(record.id, place, Opinion.CORRECTED, correction, who)


def _local(target: str) -> str:
    """Where to go after the login: a path of ours, whatever was asked for."""
    ours = target.startswith("/") and target[1:2] not in ("/", "\\")
    return target if ours and target.isascii() and target.isprintable() else "/"
