"""The pages: what they show, and what people say of it; those that search run in threads, one at a time."""

import asyncio
import logging
import re
import sqlite3
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from http import HTTPStatus
from pathlib import Path
from threading import Lock
from time import monotonic
from typing import Any
from urllib.parse import parse_qsl, quote

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from daemon import __version__
from daemon.config.secrets import secret_file
from daemon.config.settings import ServeSettings
from daemon.digest.digest import SHOWN, Digest, week, write_digest
from daemon.questions.asker import read_span
from daemon.questions.question import Filters, LocalTime, Measure, Question, SearchError, Span
from daemon.questions.words import ANIMALS, COLOURS, NOUNS
from daemon.rules.rule import places_of
from daemon.search.search import Search, SearchResult
from daemon.serve.access import Logins, ServeError
from daemon.serve.cameras import AreaError, Cameras, areas_of, write_area
from daemon.serve.review import Bar, review, try_out
from models.language.catalogue import N_, _, tell
from pipeline.evidence import EvidenceStore, evidence_fault, evidence_folder
from pipeline.feedback import FILE, LONGEST, TYPES, FeedbackError, FeedbackStore, Remarks
from pipeline.loop import Faults
from pipeline.record import Record
from pipeline.report.page import MEDIA_TYPES, Card, environment
from pipeline.report.picture import encode_small
from pipeline.report.words import counted

_NEWEST = 20
_REFRESH_S = 0.5
_GOOD = {N_("streaming"), N_("reading")}  # states of a camera that is watched
_OTHERS = (N_("connecting"), N_("stalled"), N_("backing off"), N_("ended"), N_("waiting"))
_CHANGES = {
    "appeared": N_("came or appeared"),
    "disappeared": N_("left or disappeared"),
    "moved": N_("moved"),
    "more": N_("more of them"),
    "fewer": N_("fewer of them"),
    "replaced": N_("replaced by another"),
    "unknown": N_("changed in some way"),
    "none": N_("no change"),
}
"""Labels of types of sentences."""
_LONGEST_RULE = 300
_SPANS = {
    "1d": N_("the last day"),
    "7d": N_("the last 7 days"),
    "30d": N_("the last 30 days"),
    "": N_("everything"),
}
_FORM_S, _LONGEST_FORM, _FIELDS = 20.0, 64 * 1024, 20
_WIDTHS = ("480", "960")  # pixels of small pictures
_DIGEST = re.compile(r"[0-9a-f]{64}")
_FOREVER = {"cache-control": "private, max-age=31536000, immutable"}  # named by the hash of their content
_NOTABLE = ("rule", "obstructed", "view_changed", "unusual", "stay", "gap")  # what a week shows of a digest
_QUERIES = ("review", "digest", "rules")

_small = lru_cache(512)(encode_small)
logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Tile:
    name: str
    state: str  # in words; empty where it is not known
    level: str  # good, bad, removed or unknown
    card: Card | None  # its newest record with pictures, else its newest
    live: str = ""  # address of its live picture; empty where none is configured
    limited: bool = False  # the hourly limit holds its newest change


class Site:
    """All pages, and everything that they are made of; for several threads.

    `folder` has the journals, `own` the feedback; days and hours are in `timezone` (None: this machine's).
    Passwords or feedback that cannot be used raise `ServeError`; a time zone that there is not, or an index
    that cannot be written, `SearchError`.
    """

    def __init__(
        self, settings: ServeSettings, folder: Path, own: Path, timezone: str | None, cameras: Cameras
    ) -> None:
        passwords = secret_file(settings.passwords) if settings.passwords else None
        self.logins = Logins(passwords, secure=settings.proxy) if passwords else None  # None: not needed
        self.cameras, self.folder, self.local = cameras, folder, LocalTime.named(timezone)
        self.evidence = evidence_folder(folder) or folder.parent / "evidence"
        self.left_out: dict[str, str] = {}  # files that are not read, with the reason
        self.answered: Callable[[], None] = lambda: None  # called with each request; the watchdog goes by it
        self._search, self._searching, self._refreshed = Search(folder, self.local), Lock(), 0.0
        self._faults = Faults()
        self._today: tuple[datetime | None, Digest | None] = None, None
        self._versions = deque[str](maxlen=1000)  # of the live page, as it was given out
        try:
            self.feedback = FeedbackStore(own / FILE)
        except FeedbackError as error:
            raise ServeError(str(error)) from None

    def routes(self) -> list[BaseRoute]:
        return [
            Route("/", self._live),
            Route("/feed", self._live),
            Route("/review", self._review),
            Route("/digest", self._digest),
            Route("/week", self._week),
            Route("/rules", self._rules),
            Route("/camera/{name}", self._camera),
            Route("/camera/{name}", _posted(self._configure), methods=["POST"]),
            Route("/record/{identity}", self._record),
            Route("/record/{identity}/{what}", _posted(self._remark), methods=["POST"]),
            Route("/picture/{digest}", self._picture),
            Mount("/static", StaticFiles(packages=[("pipeline.report", "static")])),
            Route("/login", self._login, methods=["GET", "POST"]),
            Route("/logout", self._logout, methods=["POST"]),
        ]

    def open(self) -> None:
        self._update()
        warnings = [f"{self.folder / name} is left out: {reason}" for name, reason in self.left_out.items()]
        for warning in [*warnings, *(f"does not verify: {fault}" for fault in self._search.index.faults())]:
            logger.warning("%s", warning)

    def close(self) -> None:
        with self._searching:
            self._search.index.close()
        self.feedback.close()

    @contextmanager
    def search(self) -> Iterator[Search]:
        """The journals, caught up with, for one request at a time."""
        with self._searching:
            if monotonic() - self._refreshed >= _REFRESH_S:
                self._update()
                self._refreshed = monotonic()
            self._search.places = places_of((self.cameras.configured() or {}).values())
            try:
                with self._search.mending():
                    yield self._search
            finally:
                self.answered()

    def _update(self) -> None:
        """Read on in the journals. Where that fails, what was read before is shown."""
        left_out = dict[str, str]()
        with self._faults.noted("", "newer narrations are not shown", SearchError, OSError, sqlite3.Error):
            left_out = self._search.update()
        self.left_out = left_out | {str(self.folder): reason for reason in self._faults.values()}

    def _page(self, request: Request, name: str, status: int = 0, **values: Any) -> Response:
        """A page of a template; without a status 200, or 400 where there is an `error`."""
        status = status or (HTTPStatus.BAD_REQUEST if values.get("error") else HTTPStatus.OK)
        if status == HTTPStatus.OK and name != "login":
            seen = "/" if name == "live" else request.url.path.removeprefix("/record/")
            query = request.url.query if name in _QUERIES else ""
            request.state.deed = ("query", query) if query else ("view", seen)
        values |= {"served": True, "site": self, "request": request, "version": __version__}
        return HTMLResponse(environment().get_template(f"{name}.html.j2").render(values), status)

    # Live

    def _live(self, request: Request) -> Response:
        states, had = self.cameras.states(), request.query_params.get("seen")
        with self.search() as search:
            seen = f"{search.index.newest()}-{hash(tuple(sorted(states.items())) if states else None)}"
            if had == seen:
                return Response(status_code=HTTPStatus.NO_CONTENT)
            newest = search.answer(Question(Filters(held=False), measure=Measure(limit=_NEWEST))).results
            page = self._page(
                request,
                "live",
                tiles=self._tiles(search),
                known=states is not None,
                cards=self._visits(search, list(newest)[::-1]),
                digest=self._digest_of_today(search),
                shown=SHOWN,
                faults=search.index.faults(),
                seen=seen,
            )
        if had in self._versions:  # a page that follows was recorded when it was opened
            request.state.deed = None
        self._versions.append(seen)
        return page

    def _tiles(self, search: Search) -> list[Tile]:
        """All cameras by name, those that were removed from the configuration last."""
        configured, states, tiles = self.cameras.configured(), self.cameras.states(), list[Tile]()
        latest = {name: self._latest(search, name) for name in search.selection.cameras()}
        for name in sorted({*latest, *(configured or ())}):
            card = latest.get(name)
            if configured is not None and name not in configured:
                tiles.append(Tile(name, _("removed from the configuration"), "removed", card))
                continue
            live = (configured[name].live_url if configured else None) or ""
            state = states.get(name, N_("not watched by the running daemon")) if states is not None else ""
            level = "good" if state in _GOOD else "bad" if state else "unknown"
            limited = name in latest and _is_limited(search, name)
            tiles.append(Tile(name, _(state), level, card, live, limited))
        return sorted(tiles, key=lambda tile: tile.level == "removed")

    def _latest(self, search: Search, camera: str) -> Card | None:
        """The newest record with pictures, else the newest that was not held back; None without any."""
        pictured = search.read(search.selection.newest(camera, _NEWEST, pictured=True))
        question = Question(Filters(cameras=(camera,), held=False), measure=Measure(limit=1))
        found = next((result for result in pictured if result.pictures), None)
        found = found or next(search.answer(question).results, None)
        return self._card(found) if found else None

    def _digest_of_today(self, search: Search) -> Digest | None:
        """Made once a minute; None before the first narration."""
        now = datetime.now(UTC).replace(second=0, microsecond=0)
        if self._today[0] != now and search.selection.cameras():
            self._today = now, write_digest(search, Span(), now)
        return self._today[1]

    def _visits(self, search: Search, results: Sequence[SearchResult]) -> list[Card]:
        """Records with people's remarks, those of one visit as one card."""
        cards = []
        for visit in search.visits_of(results):
            *stages, last = map(self._card, visit)
            others = [
                (words, other.record.text, _address(other.record))
                for each in visit
                for words, other in search.others_of(each)
            ]
            cards.append(replace(last, stages=stages, others=others))
        return cards

    def _card(self, result: SearchResult) -> Card:
        record = result.record
        return Card(
            record,
            self.local.zone,
            {side: f"/picture/{path.name[:64]}" for side, path in result.pictures.items()},
            _address(record),
            result.marks,
            self.feedback.remarks([record.id]).get(record.id, Remarks()),
        )

    # Days, questions and rules

    def _digest(self, request: Request) -> Response:
        asked, now = request.query_params.get("q", "").strip()[:100] or "today", datetime.now(UTC)
        with self.search() as search:
            try:
                digest = write_digest(search, read_span(asked, now, search.local), now)
            except SearchError as refused:
                return self._page(request, "digest", digest=None, asked=asked, error=str(refused))
            cards = self._visits(search, digest.pictured)
        return self._page(request, "digest", digest=digest, asked=asked, cards=cards, error="")

    def _week(self, request: Request) -> Response:
        with self.search() as search:
            digests = week(search, datetime.now(UTC))
        days = []
        for each in digests:
            day, by_hour, cameras = self.local.of(each.since).date(), Counter[int](), Counter[str]()
            for (camera, hour), visits in each.hours.items():
                by_hour[hour] += visits
                cameras[camera] += visits
            bars = [
                Bar(f"{n}:00: {counted(v, 'visit')}", v, v, f"day={day}&between={n}:00-{n + 1}:00")
                for n, v in ((n, by_hour[n]) for n in range(24))
            ]
            days.append((day, bars, dict(cameras.most_common()), each.sentences))
        return self._page(request, "week", days=days, notable=_NOTABLE, heads=digests[0].heads)

    def _rules(self, request: Request) -> Response:
        query, values = request.query_params, dict[str, Any](tried=None, error="", spans=_SPANS)
        given = {name: query.get(name, "").strip()[:_LONGEST_RULE] for name in ("when", "hours", "cooldown")}
        since = query.get("since", "7d")[:_LONGEST_RULE]
        if given["when"]:
            with self.search() as search:
                try:
                    values["tried"] = try_out(search, **given, since=since)
                except SearchError as refused:
                    values["error"] = str(refused)
        return self._page(request, "rules", given=given, since=since, **values)

    def _review(self, request: Request) -> Response:
        with self.search() as search:
            answer = review(search, request.query_params, datetime.now(UTC))
            cards = self._visits(search, answer["results"])
        kinds = {"came": N_("came"), "left": N_("left"), **_CHANGES}
        colours = sorted(set(COLOURS.values()))
        return self._page(request, "review", **answer, cards=cards, kinds=kinds, colours_of_objects=colours)

    # One camera

    def _camera(self, request: Request, form: Mapping[str, str] | None = None, error: str = "") -> Response:
        name = request.path_params["name"]
        with self.search() as search:
            tile = next((each for each in self._tiles(search) if each.name == name), None)
        if tile is None:
            raise HTTPException(HTTPStatus.NOT_FOUND, _("There is no such camera."))
        configured = (self.cameras.configured() or {}).get(name)
        return self._page(
            request,
            "camera",
            tile=tile,
            areas=areas_of(configured) if configured else (),
            form=form or {},
            error=error,
            written="written" in request.query_params,
        )

    def _configure(self, request: Request, form: dict[str, str]) -> Response:
        name = request.path_params["name"]
        try:
            write_area(self.cameras.file, name, form)
        except AreaError as refused:
            return self._camera(request, form, str(refused))
        request.state.deed = "configure", name
        return RedirectResponse(f"/camera/{quote(name)}?written=yes", HTTPStatus.SEE_OTHER)

    # One record

    def _record(self, request: Request) -> Response:
        with self.search() as search:
            result = _find_record(search, request)
            (visit,) = self._visits(search, [result])
        named = result.record.evidence.model_dump() if result.record.evidence else {}
        pictures = (evidence_fault(self.evidence, named[side]) for side in result.pictures)
        changed = [_("A picture was changed.")] if any("was changed" in fault for fault in pictures) else []
        return self._page(
            request,
            "record",
            card=self._card(result),
            visit=visit,
            query=request.url.query,
            faults=[*result.marks, *changed],
            objects=[name for name in (*NOUNS, *ANIMALS) if name != "scene"],
            types={name: _CHANGES[name] for name in TYPES},
            longest=LONGEST,
            verify=f"narrated verify {self.folder}",
        )

    def _remark(self, request: Request, form: dict[str, str]) -> Response:
        identity, what = request.path_params["identity"], request.path_params["what"]
        store, who = self.feedback, request.state.user
        with self.search() as search:
            record = _find_record(search, request).record
        place = form.get("sentence", "")
        try:
            if what == "reviewed":
                store.set_reviewed(record.id, reviewed=form.get("reviewed") == "yes", who=who)
            elif what == "note":
                store.set_note(record.id, form.get("text", "").replace("\r\n", "\n"), who)
            elif what == "feedback" and place in map(str, range(len(record.sentences))):
                corrected = {name: form.get(name, "").lower().strip() or None for name in ("type", "object")}
                store.set_opinion(record.id, int(place), form.get("opinion", ""), **corrected, who=who)
            else:
                words = _("There is no such sentence, or no such remark.")
                raise HTTPException(HTTPStatus.BAD_REQUEST, words)
        except FeedbackError as error:
            raise HTTPException(HTTPStatus.BAD_REQUEST, str(error)) from None
        request.state.deed = "mark", f"{identity}/{what}"
        address = _address(record)
        address += f"?{quote(form['query'], safe='=&%+')}" if form.get("query") else ""
        address += f"#s{place}" if what == "feedback" else ""
        return RedirectResponse(address, HTTPStatus.SEE_OTHER)

    def _picture(self, request: Request) -> Response:
        digest, width = request.path_params["digest"], request.query_params.get("width")
        usable = _DIGEST.fullmatch(digest) and width in (None, *_WIDTHS)
        path = EvidenceStore(self.evidence).find(digest) if usable else None
        if path and width is None:
            return FileResponse(path, media_type=MEDIA_TYPES[path.suffix], headers=_FOREVER)
        small = _small(path, int(width or 0)) if path else None
        if small is None:
            raise HTTPException(HTTPStatus.NOT_FOUND, _("There is no such picture."))
        return Response(small, media_type="image/jpeg", headers=_FOREVER)

    # Logins, and what goes wrong

    async def _login(self, request: Request) -> Response:
        if self.logins is None:
            return RedirectResponse("/", HTTPStatus.SEE_OTHER)
        form = await _form(request) if request.method == "POST" else {}
        wanted = _local_path(form.get("next", request.query_params.get("next", "")))
        if request.method != "POST":
            return self._page(request, "login", wanted=wanted, error="")
        address = request.client.host if request.client else ""
        if wait_s := self.logins.wait_s(address):
            message = N_("Too many wrong passwords. Try again in {minutes} min.")
            error = tell(message, minutes=round(wait_s / 60) or 1)
            page = self._page(request, "login", HTTPStatus.TOO_MANY_REQUESTS, wanted=wanted, error=error)
            page.headers["retry-after"] = str(int(wait_s) + 1)
            return page  # not recorded: going on would fill the disk
        request.state.deed, request.state.name = ("refused", ""), form.get("name", "")
        if not await self.logins.match(request.state.name, form.get("password", ""), address):
            error = _("Wrong name or password.")
            return self._page(request, "login", HTTPStatus.FORBIDDEN, wanted=wanted, error=error)
        request.state.deed = "login", ""
        answer = RedirectResponse(wanted, HTTPStatus.SEE_OTHER)
        self.logins.open_session(request.state.name, answer)
        return answer

    async def _logout(self, request: Request) -> Response:
        request.state.deed = "logout", ""
        answer = RedirectResponse("/login", HTTPStatus.SEE_OTHER)
        if self.logins:
            self.logins.end_session(request, answer)
        return answer

    async def error(self, request: Request, error: Exception) -> Response:
        status, words = HTTPStatus.INTERNAL_SERVER_ERROR, _("An error occurred; see the log.")
        headers: Mapping[str, str] = {}
        if isinstance(error, HTTPException):
            status, words, headers = HTTPStatus(error.status_code), _(error.detail), error.headers or {}
        if words == HTTPStatus.NOT_FOUND.phrase:
            words = _("There is no such page.")
        if "text/html" not in request.headers.get("accept", ""):
            return PlainTextResponse(f"{words}\n", status, headers)
        page = self._page(request, "message", status, words=words)
        page.headers.update(headers)
        return page


def _address(record: Record) -> str:
    return f"/record/{quote(record.id, safe='')}"


def _is_limited(search: Search, camera: str) -> bool:
    """True where the hourly limit holds the camera's newest change."""
    newest = (each.record for each in search.read(search.selection.newest(camera, _NEWEST)))
    limits = (each.held for each in newest if each.event == "change" and each.held != "lost")
    return next(limits, None) == "hourly"


def _find_record(search: Search, request: Request) -> SearchResult:
    """The record that the address names; 404 where there is none."""
    if result := search.by_id(request.path_params["identity"]):
        return result
    raise HTTPException(HTTPStatus.NOT_FOUND, _("There is no such narration; retention may have deleted it."))


def _posted(handler: Callable[[Request, dict[str, str]], Response]) -> Callable[[Request], Any]:

    async def endpoint(request: Request) -> Response:
        return await run_in_threadpool(handler, request, await _form(request))

    return endpoint


async def _form(request: Request) -> dict[str, str]:
    """The fields of a form; HTTPException where it is none, too large or too slow."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise HTTPException(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, _("Send a form."))
    body = bytearray()
    try:
        async with asyncio.timeout(_FORM_S):
            async for part in request.stream():  # what Content-Length says may be false
                body += part
                if len(body) > _LONGEST_FORM:
                    raise HTTPException(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, _("The form is too large."))
        text = body.decode("ascii")
        return dict(parse_qsl(text, keep_blank_values=True, max_num_fields=_FIELDS, errors="strict"))
    except TimeoutError:
        raise HTTPException(HTTPStatus.REQUEST_TIMEOUT, _("The form took too long.")) from None
    except (ValueError, ClientDisconnect):
        raise HTTPException(HTTPStatus.BAD_REQUEST, _("The form cannot be read.")) from None


def _local_path(target: str) -> str:
    """The path to open after the login; `/` where `target` is not a local path."""
    ours = target.startswith("/") and target[1:2] not in ("/", "\\")
    return target if ours and target.isascii() and target.isprintable() else "/"
