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

from argon2 import PasswordHasher, extract_parameters
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
_SHORTEST_PASSWORD, _LONGEST_PASSWORD = 10, 1024
_MOST_OF_A_NETWORK, _MOST_GUESSES, _GUESSES_WITHIN_S = 5, 100, 300.0  # wrong passwords, of one and of all
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@-]{0,63}")
_SAME_NET = 64  # bits: one house has as many IPv6 addresses as it likes
_OPEN = ("/login", "/static/")  # addresses that need no login

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
    if not _SHORTEST_PASSWORD <= len(password) <= _LONGEST_PASSWORD:
        raise ServeError(f"the password must have at least {_SHORTEST_PASSWORD} characters")
    return f"{name}:{PasswordHasher().hash(password)}"


class Logins:
    """Users by the hashes of a file of lines ``name:hash``, and their sessions; raises `ServeError`.

    A session is a random cookie; a logout, a week or a restart ends it. `secure`: browsers come over TLS, and
    send the cookie over nothing else.
    """

    def __init__(self, path: Path, *, secure: bool = False) -> None:
        self._secure = secure
        self._cookie = (
            "__Host-narrated" if secure else "narrated"
        )  # with the prefix, it is taken over TLS alone
        self._hasher = PasswordHasher()
        self._absent = self._hasher.hash(secrets.token_urlsafe())
        self._turns = asyncio.Semaphore(2)  # each guess takes 64 MB
        self._guesses: list[tuple[float, str]] = []  # wrong, or being checked: when, and from which network
        self._sessions: dict[str, tuple[str, float]] = {}  # name and end, by cookie
        self._hashes: dict[str, str] = {}
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
            raise ServeError(f"the passwords in {path} cannot be read: {reason}") from None
        for number, line in enumerate(map(str.strip, lines), 1):
            if line and not line.startswith("#"):
                name, _, hashed = line.partition(":")
                try:
                    extract_parameters(hashed if _NAME.fullmatch(name) else "")
                except InvalidHashError:
                    reason = "is not a name:hash line of `narrated serve --new-password NAME`"
                    raise ServeError(f"{path}:{number} {reason}") from None
                self._hashes[name] = hashed
        if not self._hashes:
            raise ServeError(f"{path} names no user: `narrated serve --new-password NAME --passwords {path}`")

    def wait_s(self, address: str) -> float:
        """Seconds after which a guess from an address may be checked, mostly 0."""
        now, net = monotonic(), _net(address)
        self._guesses = [guess for guess in self._guesses if guess[0] > now - _GUESSES_WITHIN_S]
        own = [guess for guess in self._guesses if guess[1] == net]
        for guesses, most in ((own, _MOST_OF_A_NETWORK), (self._guesses, _MOST_GUESSES)):
            if len(guesses) >= most:
                return guesses[-most][0] + _GUESSES_WITHIN_S - now
        return 0.0

    async def match(self, name: str, password: str, address: str = "") -> bool:
        """True for the right password; an unknown name takes as long, and what is being checked counts."""
        hashed, guess = self._hashes.get(name), (monotonic(), _net(address))
        self._guesses.append(guess)
        if len(password) > _LONGEST_PASSWORD:
            return False
        async with self._turns:
            try:
                await asyncio.to_thread(self._hasher.verify, hashed or self._absent, password)
            except VerificationError:
                return False
        if hashed:
            self._guesses.remove(guess)
        return hashed is not None

    def open_session(self, name: str, answer: Response) -> None:
        token, now = secrets.token_urlsafe(32), monotonic()
        self._sessions = {each: login for each, login in self._sessions.items() if login[1] > now}
        self._sessions[token] = name, now + SESSION_S
        self._set_cookie(answer, token, SESSION_S)

    def end_session(self, request: Request, answer: Response) -> None:
        self._sessions.pop(request.cookies.get(self._cookie, ""), None)
        self._set_cookie(answer, "", 0)

    def user(self, request: Request) -> str:
        """The name of who asks; empty where nobody is logged in."""
        name, end = self._sessions.get(request.cookies.get(self._cookie, ""), ("", 0.0))
        return name if end > monotonic() else ""

    def _set_cookie(self, answer: Response, token: str, age_s: int) -> None:
        answer.set_cookie(self._cookie, token, age_s, secure=self._secure, httponly=True, samesite="strict")


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
    beside localhost and numeric addresses, in lower case; logins are None where none is needed.
    """

    def __init__(self, app: ASGIApp, hosts: Collection[str], logins: Logins | None, accesses: Path) -> None:
        self._app, self._hosts, self._logins, self._accesses = app, hosts, logins, accesses
        self._recording, self._faults = asyncio.Lock(), Faults()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope)
        request.state.user = self._logins.user(request) if self._logins else ""
        request.state.deed, request.state.name = None, ""  # the name that a login gives

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
        who = request.state.user or request.state.name
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
        if not self._logins or request.state.user or request.url.path.startswith(_OPEN):
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
