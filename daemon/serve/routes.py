"""Request handlers of all pages; those that search run in threads, one of them at a time searching."""

import asyncio
import re
from collections import Counter, deque
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import lru_cache, partial
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl, quote

import yaml
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from daemon import __version__
from daemon.config.units import parse_duration
from daemon.digest.digest import SHOWN, week, write_digest
from daemon.questions.asker import read_span
from daemon.questions.local_time import moment_of, parse_hours
from daemon.questions.question import SearchError, Span
from daemon.questions.words import ANIMALS, COLOURS, NOUNS
from daemon.rules.rule import read_rule
from daemon.search.output import local_words
from daemon.search.search import Search, SearchResult
from daemon.search.trial import records_of, try_rule
from daemon.serve.access import SESSION_S
from daemon.serve.areas import AreaError, areas_of, write_area
from daemon.serve.review import Bar, review
from daemon.serve.site import Site
from models.language.catalogue import N_, _, tell
from pipeline.evidence import EvidenceStore, evidence_fault
from pipeline.feedback import LONGEST, TYPES, FeedbackError
from pipeline.report.page import MEDIA_TYPES, environment
from pipeline.report.picture import encode_small
from pipeline.report.words import TYPES as TYPE_WORDS
from pipeline.report.words import counted

Form = dict[str, str]

_LONGEST_FORM = 64 * 1024
_LONGEST_RULE = 300
_SHOWN_FIRINGS = 50
_SPANS = {
    "1d": N_("the last day"),
    "7d": N_("the last 7 days"),
    "30d": N_("the last 30 days"),
    "": N_("everything"),
}
_FORM_S = 20.0
_FIELDS = 20
_WIDTHS = ("480", "960")  # pixels of small pictures
_DIGEST = re.compile(r"[0-9a-f]{64}")
_FOREVER = {"cache-control": "private, max-age=31536000, immutable"}  # named by the hash of their content
_NOTABLE = ("rule", "obstructed", "view_changed", "unusual", "stay", "gap")  # what a week shows of a digest
_QUERIES = ("review", "digest", "rules")
_small = lru_cache(512)(encode_small)


class Routes:
    def __init__(self, site: Site) -> None:
        self.site = site
        self._versions = deque[str](maxlen=1000)  # of the live page, as it was given out

    def all(self) -> list[BaseRoute]:
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

    def page(self, request: Request, name: str, status: int = 0, **values: Any) -> Response:
        """A page of a template; without a status 200, or 400 where there is an `error`."""
        status = status or (HTTPStatus.BAD_REQUEST if values.get("error") else HTTPStatus.OK)
        path, query = request.url.path, request.url.query if name in _QUERIES else ""
        if status == HTTPStatus.OK and name != "login":
            seen = "/" if name == "live" else path.removeprefix("/record/")
            request.state.deed = ("query", query) if query else ("view", seen)
        values |= {"served": True, "site": self.site, "user": request.state.user, "path": path}
        values |= {"version": __version__}
        return HTMLResponse(environment().get_template(f"{name}.html.j2").render(values), status)

    def _live(self, request: Request) -> Response:
        states, had = self.site.states(), request.query_params.get("seen")
        with self.site.search() as search:
            seen = f"{search.index.newest()}-{hash(tuple(sorted(states.items())) if states else None)}"
            if had == seen:
                return Response(status_code=HTTPStatus.NO_CONTENT)
            page = self.page(
                request,
                "live",
                tiles=self.site.tiles(search),
                known=states is not None,
                cards=self.site.newest(search),
                digest=self.site.today(search),
                shown=SHOWN,
                faults=search.index.faults(),
                seen=seen,
            )
        if had in self._versions:  # a page that follows was recorded when it was opened
            request.state.deed = None
        self._versions.append(seen)
        return page

    def _digest(self, request: Request) -> Response:
        asked, now = request.query_params.get("q", "").strip()[:100] or "today", datetime.now(UTC)
        with self.site.search() as search:
            try:
                digest = write_digest(search, read_span(asked, now, search.local), now)
            except SearchError as refused:
                return self.page(request, "digest", digest=None, asked=asked, error=str(refused))
            cards = self.site.visits(search, digest.pictured)
        return self.page(request, "digest", digest=digest, asked=asked, cards=cards, error="")

    def _week(self, request: Request) -> Response:
        with self.site.search() as search:
            digests = week(search, datetime.now(UTC))
        days = []
        for each in digests:
            day, by_hour, cameras = self.site.local.of(each.since).date(), Counter[int](), Counter[str]()
            for (camera, hour), visits in each.hours.items():
                by_hour[hour] += visits
                cameras[camera] += visits
            bars = [
                Bar(f"{n}:00: {counted(v, 'visit')}", v, v, f"day={day}&between={n}:00-{n + 1}:00")
                for n, v in ((n, by_hour[n]) for n in range(24))
            ]
            days.append((day, bars, dict(cameras.most_common()), each.sentences))
        return self.page(request, "week", days=days, notable=_NOTABLE, heads=digests[0].heads)

    def _camera(self, request: Request, form: Mapping[str, str] | None = None, error: str = "") -> Response:
        name = request.path_params["name"]
        with self.site.search() as search:
            tile = next((each for each in self.site.tiles(search) if each.name == name), None)
        if tile is None:
            raise HTTPException(HTTPStatus.NOT_FOUND, _("There is no such camera."))
        configured = (self.site.cameras or {}).get(name)
        return self.page(
            request,
            "camera",
            tile=tile,
            areas=areas_of(configured) if configured else (),
            form=form or {},
            error=error,
            written="written" in request.query_params,
        )

    def _configure(self, request: Request, form: Form) -> Response:
        name = request.path_params["name"]
        try:
            write_area(self.site.config, name, form)
        except AreaError as refused:
            return self._camera(request, form, str(refused))
        request.state.deed = "configure", name
        return RedirectResponse(f"/camera/{quote(name)}?written=yes", HTTPStatus.SEE_OTHER)

    def _rules(self, request: Request) -> Response:
        query, values = request.query_params, dict[str, Any](tried=None, error="", spans=_SPANS)
        given = {name: query.get(name, "").strip()[:_LONGEST_RULE] for name in ("when", "hours", "cooldown")}
        since = query.get("since", "7d")[:_LONGEST_RULE]
        if given["when"]:
            with self.site.search() as search:
                try:
                    values["tried"] = _try_rule(search, given, since)
                except SearchError as refused:
                    values["error"] = str(refused)
        return self.page(request, "rules", given=given, since=since, **values)

    def _review(self, request: Request) -> Response:
        with self.site.search() as search:
            answer = review(search, request.query_params, datetime.now(UTC))
            cards = self.site.visits(search, answer["results"])
        return self.page(
            request,
            "review",
            **answer,
            cards=cards,
            kinds={"came": N_("came"), "left": N_("left"), **TYPE_WORDS},
            colours_of_objects=sorted(set(COLOURS.values())),
        )

    def _record(self, request: Request) -> Response:
        with self.site.search() as search:
            result = _find_record(search, request)
            (visit,) = self.site.visits(search, [result])
        named = result.record.evidence.model_dump() if result.record.evidence else {}
        pictures = (evidence_fault(self.site.evidence, named[side]) for side in result.pictures)
        changed = [_("A picture was changed.")] if any("was changed" in fault for fault in pictures) else []
        return self.page(
            request,
            "record",
            card=self.site.card(result),
            visit=visit,
            query=request.url.query,
            faults=[*result.marks, *changed],
            objects=[name for name in (*NOUNS, *ANIMALS) if name != "scene"],
            types={name: TYPE_WORDS[name] for name in TYPES},
            longest=LONGEST,
            verify=f"narrated verify {self.site.folder}",
        )

    def _remark(self, request: Request, form: Form) -> Response:
        identity, what = request.path_params["identity"], request.path_params["what"]
        store, who = self.site.feedback, request.state.user
        with self.site.search() as search:
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
                raise HTTPException(
                    HTTPStatus.BAD_REQUEST, _("There is no such sentence, or no such remark.")
                )
        except FeedbackError as error:
            raise HTTPException(HTTPStatus.BAD_REQUEST, str(error)) from None
        request.state.deed = "mark", f"{identity}/{what}"
        address = f"/record/{quote(identity, safe='')}"
        address += f"?{quote(form['query'], safe='=&%+')}" if form.get("query") else ""
        address += f"#s{place}" if what == "feedback" else ""
        return RedirectResponse(address, HTTPStatus.SEE_OTHER)

    def _picture(self, request: Request) -> Response:
        digest, width = request.path_params["digest"], request.query_params.get("width")
        usable = _DIGEST.fullmatch(digest) and width in (None, *_WIDTHS)
        path = EvidenceStore(self.site.evidence).find(digest) if usable else None
        if path and width is None:
            return FileResponse(path, media_type=MEDIA_TYPES[path.suffix], headers=_FOREVER)
        small = _small(path, int(width or 0)) if path else None
        if small is None:
            raise HTTPException(HTTPStatus.NOT_FOUND, _("There is no such picture."))
        return Response(small, media_type="image/jpeg", headers=_FOREVER)

    async def _login(self, request: Request) -> Response:
        passwords, sessions = self.site.passwords, self.site.sessions
        if passwords is None or sessions is None:
            return RedirectResponse("/", HTTPStatus.SEE_OTHER)
        form = await _form(request) if request.method == "POST" else {}
        wanted = _local_path(form.get("next", request.query_params.get("next", "")))
        if request.method != "POST":
            return self.page(request, "login", wanted=wanted, error="")
        address = request.client.host if request.client else ""
        if wait_s := self.site.guesses.take(address):
            message = N_("Too many wrong passwords. Try again in {minutes} min.")
            error = tell(message, minutes=round(wait_s / 60) or 1)
            page = self.page(request, "login", HTTPStatus.TOO_MANY_REQUESTS, wanted=wanted, error=error)
            page.headers["retry-after"] = str(int(wait_s) + 1)
            return page  # not recorded: whoever goes on would fill the disk
        request.state.deed, request.state.name = ("refused", ""), form.get("name", "")
        if not await passwords.match(request.state.name, form.get("password", "")):
            error = _("Wrong name or password.")
            return self.page(request, "login", HTTPStatus.FORBIDDEN, wanted=wanted, error=error)
        self.site.guesses.refund(address)
        request.state.deed = "login", ""
        answer = RedirectResponse(wanted, HTTPStatus.SEE_OTHER)
        token = sessions.open(request.state.name)
        answer.set_cookie(self.site.cookie, token, max_age=SESSION_S, **self._cookie_flags())
        return answer

    async def _logout(self, request: Request) -> Response:
        if self.site.sessions:
            self.site.sessions.end(request.cookies.get(self.site.cookie, ""))
        request.state.deed = "logout", ""
        answer = RedirectResponse("/login", HTTPStatus.SEE_OTHER)
        answer.delete_cookie(self.site.cookie, **self._cookie_flags())
        return answer

    def _cookie_flags(self) -> dict[str, Any]:
        return {"secure": self.site.secure, "httponly": True, "samesite": "strict"}

    async def error(self, request: Request, error: Exception) -> Response:
        status, words = HTTPStatus.INTERNAL_SERVER_ERROR, _("An error occurred; see the log.")
        headers: Mapping[str, str] = {}
        if isinstance(error, HTTPException):
            status, words, headers = HTTPStatus(error.status_code), _(error.detail), error.headers or {}
        if words == HTTPStatus.NOT_FOUND.phrase:
            words = _("There is no such page.")
        if "text/html" not in request.headers.get("accept", ""):
            return PlainTextResponse(f"{words}\n", status, headers)
        page = self.page(request, "message", status, words=words)
        page.headers.update(headers)
        return page


def _try_rule(search: Search, given: Form, since: str) -> dict[str, Any]:
    """Try a rule on the past; the newest times at which it would have fired, and its lines of YAML."""
    when, hours, cooldown = given.values()
    between, local, now = parse_hours(hours) if hours else None, search.local, datetime.now(UTC)
    try:
        cooldown_s = parse_duration(cooldown) if cooldown else 0.0
    except ValueError as error:
        raise SearchError(str(error)) from None
    rule = read_rule(when[:60], when, search.asker(), between=between, cooldown_s=cooldown_s)
    fired = try_rule(search, rule, Span(local.parse(since, now) if since else None), now)
    newest = fired[: -_SHOWN_FIRINGS - 1 : -1]
    if between:
        hours = "-".join(f"{minutes // 60 % 24:02d}:{minutes % 60:02d}" for minutes in between)
    written = {"name": when[:60].replace('"', "").strip(), "when": when, "hours": hours, "cooldown": cooldown}
    rules = [{key: value for key, value in written.items() if value}]
    return {
        "understood": rule.restate(local),
        "times": len(fired),
        "found": list(zip(newest, records_of(search, newest), strict=True)),
        "clock": partial(local_words, local=local),
        "moment_of": moment_of,
        "lines": yaml.safe_dump({"rules": rules}, allow_unicode=True, sort_keys=False, width=1000),
    }


def _find_record(search: Search, request: Request) -> SearchResult:
    """The record that the address names; 404 where there is none."""
    if result := search.by_id(request.path_params["identity"]):
        return result
    raise HTTPException(HTTPStatus.NOT_FOUND, _("There is no such narration; retention may have deleted it."))


def _posted(handler: Callable[[Request, Form], Response]) -> Callable[[Request], Any]:

    async def endpoint(request: Request) -> Response:
        return await run_in_threadpool(handler, request, await _form(request))

    return endpoint


async def _form(request: Request) -> Form:
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
