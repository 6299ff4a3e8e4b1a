"""Access to the page: argon2 hashes of passwords, sessions that a logout ends, a limit on guesses."""

import asyncio
import re
import secrets
from ipaddress import IPv6Address, ip_address
from pathlib import Path
from time import monotonic

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

SESSION_S = 7 * 86_400  # longest login

SHORTEST_PASSWORD = 10
_LONGEST_PASSWORD = 1024
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@-]{0,63}")
_SAME_NET = 64  # bits: one house has as many IPv6 addresses as it likes


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
