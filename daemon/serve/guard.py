"""ASGI middleware around every page: host names, forms of other sites, logins, headers, the access log."""

import asyncio
from collections.abc import Collection
from http import HTTPStatus
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import quote, urlsplit

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from daemon.serve.access import Sessions
from pipeline.journal import JournalError
from pipeline.journal.access_log import Deed, record_access
from pipeline.loop import Faults

OPEN = ("/login", "/static/")  # addresses that need no login

_HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",  # no-referrer would take the Origin from our own forms
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=(), payment=()",
}


class Guard:
    """Passes on what may be asked, with the user's name under ``state.user``.

    What a page puts under ``state.deed``, as a deed and its detail, is on disk before the page is sent. A log
    that cannot be written is logged, and does not keep anybody from looking. Hosts are names of the page
    beside localhost and numeric addresses, in lower case; sessions are None where no login is needed.
    """

    def __init__(
        self, app: ASGIApp, hosts: Collection[str], sessions: Sessions | None, cookie: str, accesses: Path
    ) -> None:
        self._app, self._hosts, self._sessions, self._cookie = app, hosts, sessions, cookie
        self._accesses, self._recording, self._faults = accesses, asyncio.Lock(), Faults()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        request = Request(scope)
        token = request.cookies.get(self._cookie, "")
        request.state.user = self._sessions.user(token) if self._sessions else ""
        request.state.deed = None

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                if request.state.deed:
                    await self._record(request, *request.state.deed)
                headers = MutableHeaders(scope=message)
                headers.update(_HEADERS)
                headers.setdefault("cache-control", "no-cache" if "etag" in headers else "no-store")
            await send(message)

        await (self._refuse(request) or self._app)(scope, receive, send_guarded)

    async def _record(self, request: Request, what: Deed, detail: str) -> None:
        who = request.state.user or getattr(request.state, "name", "")
        address = request.client.host if request.client else ""
        async with self._recording:
            with self._faults.noted("", "accesses are not recorded", OSError, JournalError):
                await run_in_threadpool(
                    record_access, self._accesses, what, who=who, address=address, detail=detail
                )

    def _refuse(self, request: Request) -> Response | None:
        hosts = request.headers.getlist("host")
        if len(hosts) != 1 or not self._is_ours(hosts[0]):
            words = "This host name is not allowed; add it to serve.hosts.\n"
            return PlainTextResponse(words, HTTPStatus.MISDIRECTED_REQUEST)
        if request.method == "POST" and not _is_own_form(request, hosts[0]):
            return PlainTextResponse("That form was sent by another site.\n", HTTPStatus.FORBIDDEN)
        if not self._sessions or request.state.user or request.url.path.startswith(OPEN):
            return None
        if request.method != "GET" or "text/html" not in request.headers.get("accept", ""):
            return PlainTextResponse("Log in first.\n", HTTPStatus.UNAUTHORIZED)
        wanted = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        return RedirectResponse(f"/login?next={quote(wanted, safe='')}", HTTPStatus.SEE_OTHER)

    def _is_ours(self, host: str) -> bool:
        """True for a name of our own; a numeric address cannot be rebound by another's name server."""
        try:
            name = urlsplit(f"//{host}").hostname
            if name is None or any(c in host for c in "/?#@\\ "):
                return False
            return name == "localhost" or name in self._hosts or bool(ip_address(name))
        except ValueError:
            return False


def _is_own_form(request: Request, host: str) -> bool:
    """False for forms of other sites, with which every browser sends Origin."""
    if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        return False
    origin = request.headers.get("origin")
    return origin is None or origin.lower().partition("://")[2] == host.lower()
