"""Access to the page: passwords, sessions that a logout ends, a limit on guesses, the guard of every page.

Hashes are argon2's. The guard also sees to host names, forms of other sites, headers and the access log.
"""

import asyncio
import re
import secrets
from collections.abc import Collection
from http import HTTPStatus
from ipaddress import IPv6Address, ip_address
from pathlib import Path
from time import monotonic
from urllib.parse import quote, urlsplit

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pipeline.journal import JournalError
from pipeline.journal.custody import Deed, record_access
from pipeline.loop import Faults

SESSION_S = 7 * 86_400  # longest login

SHORTEST_PASSWORD = 10
_LONGEST_PASSWORD = 1024
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@-]{0,63}")
_SAME_NET = 64  # bits: one house has as many IPv6 addresses as it likes
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


class ServeError(Exception):
    """The page cannot be served; the message says what to do."""


def password_line(name: str, password: str) -> str:
    """A line of the password file; ServeError where the name or the password cannot be used."""
    if _NAME.fullmatch(name) is None:
        raise ServeError(f"the name {name!r} cannot be used: letters, digits and _.@-, at most 64")
    if not SHORTEST_PASSWORD <= len(password) <= _LONGEST_PASSWORD:
        raise ServeError(f"the password must have at least {SHORTEST_PASSWORD} characters")
    return f"{name}:{PasswordHasher().hash(password)}"


class Passwords:
    """Names and argon2 hashes of passwords, from a file of lines ``name:hash``; raises `ServeError`."""

    def __init__(self, path: Path) -> None:
        self._hasher = PasswordHasher()
        self._absent = self._hasher.hash(secrets.token_urlsafe())
        self._turns = asyncio.Semaphore(2)  # each guess takes 64 MB
        self._hashes: dict[str, str] = {}
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
            raise ServeError(f"the passwords in {path} cannot be read: {reason}") from None
        for number, line in enumerate(map(str.strip, lines), 1):
            if line and not line.startswith("#"):
                name, _, hashed = line.partition(":")
                if _NAME.fullmatch(name) is None or not self._is_hash(hashed):
                    raise ServeError(
                        f"{path}:{number} is not a name:hash line of `narrated serve --new-password NAME`"
                    )
                self._hashes[name] = hashed
        if not self._hashes:
            raise ServeError(f"{path} names no user: `narrated serve --new-password NAME --passwords {path}`")

    async def match(self, name: str, password: str) -> bool:
        """True for the right password; an unknown name takes as long."""
        if len(password) > _LONGEST_PASSWORD:
            return False
        hashed = self._hashes.get(name)
        async with self._turns:
            try:
                await asyncio.to_thread(self._hasher.verify, hashed or self._absent, password)
            except VerificationError:
                return False
        return hashed is not None

    def _is_hash(self, text: str) -> bool:
        try:
            self._hasher.check_needs_rehash(text)
        except InvalidHashError:
            return False
        return True


class Sessions:
    """Logins by a random cookie, with their expiry; a logout, a week or a restart ends them."""

    def __init__(self) -> None:
        self._sessions: dict[str, tuple[str, float]] = {}

    def open(self, name: str) -> str:
        token, now = secrets.token_urlsafe(32), monotonic()
        self._sessions = {each: login for each, login in self._sessions.items() if login[1] > now}
        self._sessions[token] = name, now + SESSION_S
        return token

    def user(self, token: str) -> str:
        name, expires = self._sessions.get(token, ("", 0.0))
        return name if expires > monotonic() else ""

    def end(self, token: str) -> None:
        self._sessions.pop(token, None)


class GuessLimit:
    """At most so many wrong passwords within a while, from one network and from all together."""

    def __init__(self, each: int = 5, together: int = 100, within_s: float = 300.0) -> None:
        self._each, self._together, self._within_s = each, together, within_s
        self._guesses: list[tuple[float, str]] = []

    def take(self, address: str) -> float:
        """Count a guess as wrong, before it is checked; gives the seconds to wait first, mostly 0."""
        now, net = monotonic(), _net(address)
        self._guesses = [guess for guess in self._guesses if guess[0] > now - self._within_s]
        own = [guess for guess in self._guesses if guess[1] == net]
        for guesses, most in ((own, self._each), (self._guesses, self._together)):
            if len(guesses) >= most:
                return guesses[-most][0] + self._within_s - now
        self._guesses.append((now, net))
        return 0.0

    def refund(self, address: str) -> None:
        """The guess was right: it does not count."""
        net = _net(address)
        newest = next((guess for guess in reversed(self._guesses) if guess[1] == net), None)
        if newest:
            self._guesses.remove(newest)


def _net(address: str) -> str:
    try:
        parsed = ip_address(address)
    except ValueError:
        return address
    if not isinstance(parsed, IPv6Address):
        return str(parsed)
    return str(parsed.ipv4_mapped or int(parsed) >> _SAME_NET)


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
