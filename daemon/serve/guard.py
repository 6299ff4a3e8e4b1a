"""Stands before every page: hosts, headers, cookies, logins, and the genuineness of forms."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from http import HTTPStatus
from ipaddress import ip_address
from urllib.parse import quote, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from daemon.serve.access import SESSION_S, Session, SessionCookies

OPEN = ("/login", "/static/", "/alive")
"""What nobody needs to log in for."""

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",  # no-referrer would take the Origin from our own forms
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=(), payment=()",
}
_YEAR_S = 31_536_000
_LONGEST = 16 * 1024
"""Bytes of an address and all headers."""
_METHODS = ("GET", "HEAD", "POST")


@dataclass(frozen=True, slots=True)
class GuardOptions:
    """How strict the guard is.

    Attributes:
        hosts: names by which the page may be called, beside localhost and numeric addresses; lower case.
        login: whether people must log in.
        encrypted: browsers speak TLS with us, or with the proxy before us.
    """

    hosts: Collection[str] = ()
    login: bool = False
    encrypted: bool = False


class Guard:
    """ASGI middleware; what it lets through has its `Session` under ``state.session``."""

    def __init__(self, app: ASGIApp, sessions: SessionCookies, options: GuardOptions) -> None:
        self._app, self._sessions, self._options = app, sessions, options
        self.cookie = "__Host-narrated" if options.encrypted else "narrated"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or pass on."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":  # a web socket: there is none
            await send({"type": "websocket.close", "code": 1008})
            return
        request = Request(scope)
        known = self._sessions.read(request.cookies.get(self.cookie, ""))
        session = known or Session()
        scope.setdefault("state", {})["session"] = session
        answer = self._refused(request, session)

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._dress(MutableHeaders(scope=message), scope)
            await send(message)

        await (answer or self._app)(scope, receive, guarded)

    def set_cookie(self, response: Response, session: Session) -> None:
        """Have a browser keep a session."""
        response.set_cookie(
            self.cookie,
            self._sessions.cookie(session),
            max_age=SESSION_S,
            secure=self._options.encrypted,
            httponly=True,
            samesite="strict",
        )

    def _refused(self, request: Request, session: Session) -> Response | None:
        """The answer to what is not let through; None lets it through."""
        headers, hosts = request.headers, request.headers.getlist("host")
        if request.method not in _METHODS:
            return _plain(HTTPStatus.METHOD_NOT_ALLOWED, "There are only GET, HEAD and POST.")
        if _length(request) > _LONGEST:
            return _plain(
                HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "The address or the headers are too long."
            )
        if len(hosts) != 1 or not self._known(hosts[0]):
            return _plain(
                HTTPStatus.MISDIRECTED_REQUEST,
                "This page is not known by that name; if it should be, write serve: {hosts: [NAME]}.",
            )
        if request.method == "POST" and not self._from_here(headers, hosts[0]):
            return _plain(HTTPStatus.FORBIDDEN, "That form was sent by another site.")
        if self._options.login and not session.who and not request.url.path.startswith(OPEN):
            return _login(request)
        return None

    def _known(self, host: str) -> bool:
        """A name of our own. A numeric address cannot be rebound by somebody else's name server."""
        try:
            name = urlsplit(f"//{host}").hostname
            if name is None or any(c in host for c in "/?#@\\ "):
                return False
            if name == "localhost" or name in self._options.hosts:
                return True
            return bool(ip_address(name))
        except ValueError:
            return False

    def _from_here(self, headers: Headers, host: str) -> bool:
        """Whether a form was sent by one of our pages, as far as the browser says; its token says more."""
        if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            return False
        origin = headers.get("origin")
        return origin is None or urlsplit(origin).netloc.lower() == host.lower()

    def _dress(self, headers: MutableHeaders, scope: Scope) -> None:
        for name, value in _HEADERS.items():
            headers[name] = value
        headers.setdefault("cache-control", "no-store")
        if self._options.encrypted:
            headers["strict-transport-security"] = f"max-age={_YEAR_S}"
        path = scope["path"]
        html = headers.get("content-type", "").startswith("text/html")
        if html and not path.startswith("/static/") and "set-cookie" not in headers:
            fresh = Response()
            self.set_cookie(fresh, scope["state"]["session"])
            headers.append("set-cookie", fresh.headers["set-cookie"])


def _length(request: Request) -> int:
    address = len(request.scope.get("raw_path") or b"") + len(request.scope["query_string"])
    return address + sum(len(name) + len(value) for name, value in request.headers.raw)


def _login(request: Request) -> Response:
    """People are asked who they are, and come back to what they wanted to see."""
    if request.method != "GET" or "text/html" not in request.headers.get("accept", ""):
        return _plain(HTTPStatus.UNAUTHORIZED, "Log in first.")
    wanted = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    return RedirectResponse(f"/login?next={quote(wanted, safe='')}", HTTPStatus.SEE_OTHER)


def _plain(status: HTTPStatus, words: str) -> Response:
    return PlainTextResponse(words + "\n", status)
