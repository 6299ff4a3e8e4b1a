"""Request handlers of all pages."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from urllib.parse import parse_qsl, quote

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import (
    JSONResponse,
    PlainTextResponse,
    RedirectResponse,
    Response,
    StreamingResponse,
)
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from daemon.digest.digest import SHOWN
from daemon.questions.question import SearchError
from daemon.questions.words import ANIMALS, COLOURS, NOUNS
from daemon.search.results import SearchResult
from daemon.search.search import Search
from daemon.serve.access import SESSION_S
from daemon.serve.areas import AreaError, write_area
from daemon.serve.digests import digest_of, week
from daemon.serve.live import events, newest
from daemon.serve.review import ALL_DAYS, ReviewQuery, empty_review, review, unread
from daemon.serve.rules import SPANS, tried
from daemon.serve.site import Site
from pipeline.evidence import evidence_fault
from pipeline.feedback import LONGEST, TYPES, FeedbackError, FeedbackStore
from pipeline.record import Record
from pipeline.report.words import TYPES as TYPE_WORDS

_LONGEST_FORM = 64 * 1024
_LONGEST_RULE = 300
_FORM_S = 20.0
_FIELDS = 20


class Routes:
    """Request handlers."""

    def __init__(self, site: Site) -> None:
        self.site = site

    def all(self) -> list[BaseRoute]:
        """Routes of all pages."""
        return [
            Route("/", self._live),
            Route("/events", self._events),
            Route("/review", self._review),
            Route("/digest", self._digest),
            Route("/week", self._week),
            Route("/rules", self._rules),
            Route("/camera/{name}", self._camera, methods=["GET", "POST"]),
            Route("/record/{identity}", self._record),
            Route("/record/{identity}/{what}", self._remark, methods=["POST"]),
            Route("/picture/{digest}", self._picture),
            Mount("/static", StaticFiles(packages=[("pipeline.report", "static")])),
            Route("/login", self._login, methods=["GET", "POST"]),
            Route("/logout", self._logout, methods=["POST"]),
            Route("/alive", self._alive),
        ]

    async def _live(self, request: Request) -> Response:
        tiles = await self.site.tiles.read(self.site.search.latest)
        last = {tile.name: self.site.card(tile.last) for tile in tiles}
        cards = await self.site.visits(await newest(self.site))
        faults = await self.site.search.ask(lambda search: search.index.faults())
        digest = await self.site.today()
        return self.site.page(
            request, "live", tiles=tiles, last=last, cards=cards, faults=faults, digest=digest, shown=SHOWN
        )

    async def _digest(self, request: Request) -> Response:
        asked, now = request.query_params.get("q", "").strip()[:100] or "today", datetime.now(UTC)
        digest, error = None, ""
        try:
            digest = await self.site.search.ask(lambda search: digest_of(search, asked, now))
        except SearchError as refused:
            error = str(refused)
        status = HTTPStatus.BAD_REQUEST if error else HTTPStatus.OK
        cards = await self.site.visits(digest.pictured) if digest else []
        return self.site.page(request, "span", status, digest=digest, asked=asked, cards=cards, error=error)

    async def _week(self, request: Request) -> Response:
        now = datetime.now(UTC)
        days = await self.site.search.ask(lambda search: week(search, now))
        return self.site.page(request, "week", days=days)

    async def _camera(self, request: Request) -> Response:
        name = request.path_params["name"]
        tiles = await self.site.tiles.read(self.site.search.latest)
        if (tile := next((each for each in tiles if each.name == name), None)) is None:
            raise HTTPException(HTTPStatus.NOT_FOUND, "There is no such camera.")
        form, error, written = dict[str, str](), "", "written" in request.query_params
        if request.method == "POST":
            form = await _form(request)
            try:
                await asyncio.to_thread(write_area, self.site.config, name, form)
                return RedirectResponse(f"/camera/{quote(name)}?written=yes", HTTPStatus.SEE_OTHER)
            except AreaError as refused:
                error = str(refused)
        status, card = HTTPStatus.BAD_REQUEST if error else HTTPStatus.OK, self.site.card(tile.last)
        return self.site.page(
            request, "camera", status, tile=tile, card=card, form=form, error=error, written=written
        )

    async def _rules(self, request: Request) -> Response:
        now, rule, error = datetime.now(UTC), None, ""
        names = ("when", "hours", "cooldown", "since")
        given = {name: request.query_params.get(name, "")[:_LONGEST_RULE] for name in names}
        if "since" not in request.query_params:
            given["since"] = "7d"
        try:
            if given["when"]:
                rule = await self.site.search.ask(lambda search: tried(search, given, now))
        except SearchError as refused:
            error = str(refused)
        status = HTTPStatus.BAD_REQUEST if error else HTTPStatus.OK
        return self.site.page(request, "rules", status, given=given, rule=rule, error=error, spans=SPANS)

    async def _events(self, request: Request) -> Response:
        news = self.site.search.listen()
        if news is None:
            raise HTTPException(HTTPStatus.SERVICE_UNAVAILABLE, "There are too many live pages.")
        stream = events(self.site, news, request.headers.get("last-event-id", ""))
        return StreamingResponse(stream, media_type="text/event-stream", headers={"x-accel-buffering": "no"})

    async def _review(self, request: Request) -> Response:
        error, parameters = "", request.query_params
        try:
            answer = await self.site.search.ask(lambda search: review(search, parameters, datetime.now(UTC)))
        except SearchError as refused:
            error = str(refused).replace("--", "")
            answer = await self.site.search.ask(lambda search: empty_review(search, unread(parameters)))
        return self.site.page(
            request,
            "review",
            HTTPStatus.BAD_REQUEST if error else HTTPStatus.OK,
            it=answer,
            asked=answer.asked,
            cards=await self.site.visits(answer.results),
            error=error,
            kinds={"came": "came", "left": "left", **TYPE_WORDS},
            colours_of_objects=sorted(set(COLOURS.values())),
            all_days=ALL_DAYS,
        )

    async def _record(self, request: Request) -> Response:
        result = await self._find_record(request)

        def ask(search: Search) -> tuple[ReviewQuery, tuple[SearchResult | None, ...]]:
            try:
                asked = ReviewQuery.read(request.query_params, search, datetime.now(UTC), newest_day=False)
            except SearchError:
                asked = ReviewQuery()
            return asked, search.neighbours(result.record, asked.question)

        asked, (older, newer) = await self.site.search.ask(ask)
        changed = await asyncio.to_thread(_changed_pictures, result, self.site.pictures.folder)
        return self.site.page(
            request,
            "record",
            card=self.site.card(result),
            visit=(await self.site.visits([result]))[0],
            asked=asked,
            faults=[*result.marks, *changed],
            older=self.site.card(older),
            newer=self.site.card(newer),
            objects=[name for name in (*NOUNS, *ANIMALS) if name != "scene"],
            types={name: TYPE_WORDS[name] for name in TYPES},
            longest=LONGEST,
            verify=f"narrated verify {self.site.search.folder}",
        )

    async def _remark(self, request: Request) -> Response:
        form, what = await _form(request), request.path_params["what"]
        result = await self._find_record(request)
        try:
            store = self.site.feedback
            await asyncio.to_thread(_store_remark, store, result.record, what, form, request.state.user)
        except (FeedbackError, ValueError) as error:
            raise HTTPException(HTTPStatus.BAD_REQUEST, str(error)) from None
        address = f"/record/{quote(request.path_params['identity'], safe='')}"
        address += f"?{quote(form['query'], safe='=&%+')}" if form.get("query") else ""
        address += f"#s{form['sentence']}" if what == "feedback" else ""
        return RedirectResponse(address, HTTPStatus.SEE_OTHER)

    async def _picture(self, request: Request) -> Response:
        digest, width = request.path_params["digest"], request.query_params.get("width")
        answer = await self.site.pictures.answer(digest, width)
        if answer is None:
            raise HTTPException(HTTPStatus.NOT_FOUND, "There is no such picture.")
        return answer

    async def _login(self, request: Request) -> Response:
        passwords, sessions = self.site.passwords, self.site.sessions
        if passwords is None or sessions is None:
            return RedirectResponse("/", HTTPStatus.SEE_OTHER)
        form = await _form(request) if request.method == "POST" else {}
        wanted = _local_path(form.get("next", request.query_params.get("next", "")))
        if request.method != "POST":
            return self.site.page(request, "login", wanted=wanted, error="")
        address = request.client.host if request.client else ""
        if wait_s := self.site.guesses.take(address):
            error = f"Too many wrong passwords. Try again in {round(wait_s / 60) or 1} min."
            page = self.site.page(request, "login", HTTPStatus.TOO_MANY_REQUESTS, wanted=wanted, error=error)
            page.headers["retry-after"] = str(int(wait_s) + 1)
            return page
        name = request.state.name = form.get("name", "")
        if not await passwords.match(name, form.get("password", "")):
            error = "Wrong name or password."
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

    async def _logout(self, request: Request) -> Response:
        if self.site.sessions:
            self.site.sessions.end(request.cookies.get(self.site.cookie, ""))
        answer = RedirectResponse("/login", HTTPStatus.SEE_OTHER)
        answer.delete_cookie(self.site.cookie, secure=self.site.secure, httponly=True, samesite="strict")
        return answer

    async def _alive(self, _: Request) -> Response:
        await asyncio.wait_for(self.site.search.ask(lambda _: None), 20)
        return JSONResponse({"ok": True})

    async def error(self, request: Request, error: Exception) -> Response:
        """The response to an error, HTML for browsers."""
        status, words = HTTPStatus.INTERNAL_SERVER_ERROR, "An error occurred; see the log."
        headers: Mapping[str, str] = {}
        if isinstance(error, HTTPException):
            status, words, headers = HTTPStatus(error.status_code), error.detail, error.headers or {}
        if "text/html" not in request.headers.get("accept", ""):
            return PlainTextResponse(f"{words}\n", status, headers)
        page = self.site.page(request, "message", status, title=status.phrase, words=words)
        page.headers.update(headers)
        return page

    async def _find_record(self, request: Request) -> SearchResult:
        """The record that the address names; 404 where there is none."""
        identity = request.path_params["identity"]
        result = await self.site.search.ask(lambda search: search.by_id(identity))
        if result is None:
            raise HTTPException(
                HTTPStatus.NOT_FOUND, "There is no such narration; retention may have deleted it."
            )
        return result


def _changed_pictures(result: SearchResult, evidence: Path | None) -> list[str]:
    """One sentence for each picture that is another than the record names; those that are gone are none."""
    named = result.record.evidence.model_dump(exclude_none=True) if result.record.evidence else {}
    faults = [(side, evidence_fault(evidence, named[side])) for side in result.pictures]
    return [f"The picture {side} was changed." for side, fault in faults if "was changed" in fault]


async def _form(request: Request) -> dict[str, str]:
    """The fields of a form.

    Raises:
        HTTPException: it is none, too large or too slow.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise HTTPException(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "Send a form.")
    if int(request.headers.get("content-length", _LONGEST_FORM + 1)) > _LONGEST_FORM:
        raise HTTPException(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "The form is too large.")
    try:
        async with asyncio.timeout(_FORM_S):
            body = await request.body()
        text = body.decode("ascii")
        return dict(parse_qsl(text, keep_blank_values=True, max_num_fields=_FIELDS, errors="strict"))
    except TimeoutError:
        raise HTTPException(HTTPStatus.REQUEST_TIMEOUT, "The form took too long.") from None
    except ValueError:
        raise HTTPException(HTTPStatus.BAD_REQUEST, "The form cannot be read.") from None


def _store_remark(store: FeedbackStore, record: Record, what: str, form: Mapping[str, str], who: str) -> None:
    """Store the remark in a form: `what` is reviewed, note or feedback.

    Raises:
        FeedbackError, ValueError: the fields do not fit.
    """
    if what == "reviewed":
        store.set_reviewed(record.id, reviewed=form.get("reviewed") == "yes", who=who)
    elif what == "note":
        store.set_note(record.id, form.get("text", "").replace("\r\n", "\n"), who)
    elif what == "feedback":
        place, opinion = form.get("sentence", ""), form.get("opinion", "")
        if place not in map(str, range(len(record.sentences))):
            raise ValueError("there is no such sentence")
        corrected = {name: form.get(name, "").lower().strip() or None for name in ("type", "object")}
        store.set_opinion(record.id, int(place), opinion, **corrected, who=who)
    else:
        raise ValueError("only reviews, notes and feedback are kept")


def _local_path(target: str) -> str:
    """The path to open after the login; `/` where `target` is not a local path."""
    ours = target.startswith("/") and target[1:2] not in ("/", "\\")
    return target if ours and target.isascii() and target.isprintable() else "/"
