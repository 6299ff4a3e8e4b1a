"""Request handlers of all pages."""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from http import HTTPStatus
from pathlib import Path
from urllib.parse import parse_qsl, quote

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import (
    FileResponse,
    JSONResponse,
    PlainTextResponse,
    RedirectResponse,
    Response,
)
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from daemon.digest.digest import SHOWN, write_digest
from daemon.questions.question import SearchError
from daemon.questions.times import read_span
from daemon.questions.words import ANIMALS, COLOURS, NOUNS
from daemon.search.results import SearchResult
from daemon.search.search import Search
from daemon.serve.access import SESSION_S
from daemon.serve.areas import AreaError, areas_of, write_area
from daemon.serve.review import ALL_DAYS, ReviewQuery, review
from daemon.serve.rules import FIELDS as RULE_FIELDS
from daemon.serve.rules import SPANS, tried
from daemon.serve.site import Site
from daemon.serve.week import week
from pipeline.evidence import EvidenceStore, evidence_fault
from pipeline.feedback import LONGEST, TYPES, FeedbackError, FeedbackStore
from pipeline.record import Record
from pipeline.report.pages import MEDIA_TYPES
from pipeline.report.picture import encode_small
from pipeline.report.words import TYPES as TYPE_WORDS

_LONGEST_FORM = 64 * 1024
_LONGEST_RULE = 300
_FORM_S = 20.0
_FIELDS = 20
_WIDTHS = ("480", "960")  # pixels of small pictures
_DIGEST = re.compile(r"[0-9a-f]{64}")
_FOREVER = {"cache-control": "private, max-age=31536000, immutable"}  # named by the hash of their content
_small = lru_cache(512)(encode_small)


class Routes:
    """Request handlers."""

    def __init__(self, site: Site) -> None:
        self.site, self._shrinking = site, asyncio.Semaphore(2)
        self._versions = deque[str](maxlen=1000)  # of the live page, as it was given out

    def all(self) -> list[BaseRoute]:
        """Routes of all pages."""
        return [
            Route("/", self._live),
            Route("/feed", self._live),
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
        tiles, states = await self.site.tiles(), await self.site.states.read()
        faults = await self.site.search.ask(lambda search: search.index.faults())
        seen = f"{self.site.search.version}-{hash(tuple((tile.name, tile.state) for tile in tiles))}"
        had = request.query_params.get("seen")
        if had == seen:
            return Response(status_code=HTTPStatus.NO_CONTENT)
        request.state.follows = had in self._versions
        self._versions.append(seen)
        return self.site.page(
            request,
            "live",
            tiles=tiles,
            known=states is not None,
            cards=await self.site.newest(),
            digest=await self.site.today(),
            shown=SHOWN,
            faults=faults,
            seen=seen,
        )

    async def _digest(self, request: Request) -> Response:
        asked, now = request.query_params.get("q", "").strip()[:100] or "today", datetime.now(UTC)
        digest, error = None, ""
        try:
            digest = await self.site.search.ask(
                lambda search: write_digest(search, read_span(asked, now, search.local), now)
            )
        except SearchError as refused:
            error = str(refused)
        cards = await self.site.visits(digest.pictured) if digest else []
        return self.site.page(request, "span", digest=digest, asked=asked, cards=cards, error=error)

    async def _week(self, request: Request) -> Response:
        now = datetime.now(UTC)
        return self.site.page(
            request, "week", days=await self.site.search.ask(lambda search: week(search, now))
        )

    async def _camera(self, request: Request) -> Response:
        name, form, error = request.path_params["name"], dict[str, str](), ""
        tile = next((each for each in await self.site.tiles() if each.name == name), None)
        if tile is None:
            raise HTTPException(HTTPStatus.NOT_FOUND, "There is no such camera.")
        if request.method == "POST":
            form = await _form(request)
            try:
                written = await asyncio.to_thread(write_area, self.site.config, name, form)
                self.site.cameras = written.cameras
                return RedirectResponse(f"/camera/{quote(name)}?written=yes", HTTPStatus.SEE_OTHER)
            except AreaError as refused:
                error = str(refused)
        configured = (self.site.cameras or {}).get(name)
        return self.site.page(
            request,
            "camera",
            tile=tile,
            areas=areas_of(configured) if configured else (),
            form=form,
            error=error,
            written="written" in request.query_params,
        )

    async def _rules(self, request: Request) -> Response:
        now, rule, error = datetime.now(UTC), None, ""
        given = {name: request.query_params.get(name, "")[:_LONGEST_RULE] for name in RULE_FIELDS}
        if "since" not in request.query_params:
            given["since"] = "7d"
        try:
            if given["when"]:
                rule = await self.site.search.ask(lambda search: tried(search, given, now))
        except SearchError as refused:
            error = str(refused)
        return self.site.page(request, "rules", given=given, rule=rule, error=error, spans=SPANS)

    async def _review(self, request: Request) -> Response:
        parameters, now = request.query_params, datetime.now(UTC)
        answer = await self.site.search.ask(lambda search: review(search, parameters, now))
        return self.site.page(
            request,
            "review",
            it=answer,
            asked=answer.asked,
            cards=await self.site.visits(answer.results),
            error=answer.error,
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
        changed = await asyncio.to_thread(_changed_pictures, result, self.site.evidence)
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
        usable = _DIGEST.fullmatch(digest) and width in (None, *_WIDTHS)
        path = EvidenceStore(self.site.evidence).find(digest) if usable else None
        if path and width is None:
            return FileResponse(path, media_type=MEDIA_TYPES[path.suffix], headers=_FOREVER)
        async with self._shrinking:
            small = await asyncio.to_thread(_small, path, int(width or 0), "jpg") if path else None
        if small is None:
            raise HTTPException(HTTPStatus.NOT_FOUND, "There is no such picture.")
        return Response(small, media_type="image/jpeg", headers=_FOREVER)

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


def _changed_pictures(result: SearchResult, evidence: Path) -> list[str]:
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
