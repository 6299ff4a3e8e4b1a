"""Who may see the page: passwords as argon2 hashes, signed cookies, tokens in forms, a limit on guesses."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import os
import re
import secrets
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import IPv6Address, ip_address
from pathlib import Path
from time import monotonic

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError
from itsdangerous import BadData, URLSafeTimedSerializer

from daemon.serve.errors import ServeError

SESSION_S = 7 * 86_400
"""A login lasts so long."""

SHORTEST_PASSWORD = 10
_LONGEST_PASSWORD = 1024
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@-]{0,63}")
_KEY_BYTES = 32
_MODE = 0o600
_SAME_NET = 64  # bits: one house has as many IPv6 addresses as it likes


def password_line(name: str, password: str) -> str:
    """A line of the file of passwords.

    Raises:
        ServeError: the name or the password cannot be used.
    """
    if _NAME.fullmatch(name) is None:
        raise ServeError(f"the name {name!r} cannot be used: letters, digits and _.@-, at most 64")
    if not SHORTEST_PASSWORD <= len(password) <= _LONGEST_PASSWORD:
        raise ServeError(f"the password must have at least {SHORTEST_PASSWORD} characters")
    return f"{name}:{PasswordHasher().hash(password)}"


class Passwords:
    """Those who may log in, each with the argon2 hash of a password.

    Args:
        path: of a file with lines ``name:hash``.

    Raises:
        ServeError: it cannot be read, or holds something else.
    """

    def __init__(self, path: Path) -> None:
        self._hasher = PasswordHasher()
        self._nobody = self._hasher.hash(secrets.token_urlsafe())
        self._turns = asyncio.Semaphore(2)  # each guess takes 64 MB
        self._hashes = dict(self._read(path))
        if not self._hashes:
            raise ServeError(f"{path} names nobody: `narrated serve --new-password NAME >> {path}`")

    def _read(self, path: Path) -> list[tuple[str, str]]:
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
            raise ServeError(f"the passwords in {path} cannot be read: {reason}") from None
        found = []
        for number, line in enumerate(lines, 1):
            if not line.strip() or line.startswith("#"):
                continue
            name, _, hashed = line.strip().partition(":")
            try:
                self._hasher.check_needs_rehash(hashed)
            except InvalidHashError:
                hashed = ""
            if not hashed or _NAME.fullmatch(name) is None:
                raise ServeError(
                    f"{path}:{number} is not a name:hash line of `narrated serve --new-password NAME`"
                )
            found.append((name, hashed))
        return found

    async def right(self, name: str, password: str) -> bool:
        """Whether that is the password; for a name that nobody has it takes as long."""
        if len(password) > _LONGEST_PASSWORD:
            return False
        hashed = self._hashes.get(name)
        async with self._turns:
            matches = await asyncio.to_thread(self._matches, hashed or self._nobody, password)
        return matches and hashed is not None

    def mark(self, name: str) -> str:
        """Changes with the password, so that older logins end; empty for a name that nobody has."""
        hashed = self._hashes.get(name)
        return hashlib.sha256(hashed.encode()).hexdigest()[:16] if hashed else ""

    def _matches(self, hashed: str, password: str) -> bool:
        try:
            return self._hasher.verify(hashed, password)
        except (VerificationError, InvalidHashError):
            return False


@dataclass(frozen=True, slots=True)
class Session:
    """A browser that is known again.

    Attributes:
        nonce: its own.
        who: has logged in there; empty where nobody has.
    """

    nonce: str = field(default_factory=lambda: secrets.token_urlsafe(18))
    who: str = ""


class SessionCookies:
    """Signs and reads cookies and the tokens of forms.

    Args:
        key: signs; whoever knows it can log in.
        passwords: None where nobody is asked.
    """

    def __init__(self, key: bytes, passwords: Passwords | None) -> None:
        self._key, self._passwords = key, passwords
        self._signer = URLSafeTimedSerializer(
            key, salt="narrated session", signer_kwargs={"digest_method": hashlib.sha256}
        )

    def cookie(self, session: Session) -> str:
        """The session, signed."""
        mark = self._passwords.mark(session.who) if self._passwords and session.who else ""
        return str(self._signer.dumps([session.nonce, session.who, mark]))

    def read(self, cookie: str) -> Session | None:
        """The session of a cookie; None where it is not ours, too old, or of a password that was changed."""
        try:
            nonce, who, mark = self._signer.loads(cookie, max_age=SESSION_S)
        except (BadData, ValueError, TypeError):
            return None
        if not all(isinstance(each, str) for each in (nonce, who, mark)):
            return None
        known = self._passwords.mark(who) if self._passwords and who else ""
        return Session(nonce, who) if hmac.compare_digest(mark, known) and bool(who) == bool(known) else None

    def token(self, session: Session) -> str:
        """Stands in every form of the session, so that no other site can send it."""
        return hmac.new(self._key, f"form {session.nonce}".encode(), hashlib.sha256).hexdigest()

    def genuine(self, session: Session, token: str) -> bool:
        """Whether a form is ours."""
        return hmac.compare_digest(self.token(session).encode(), token.encode("utf-8", "replace"))


class GuessLimit:
    """How many wrong passwords are taken, from one network and from all together.

    Args:
        each, all_together: within `within_s`.
    """

    def __init__(self, each: int = 5, all_together: int = 100, within_s: float = 300.0) -> None:
        self._each, self._all, self._within_s = each, all_together, within_s
        self._wrong: deque[tuple[float, str]] = deque()

    def wait_s(self, address: str) -> float:
        """Seconds until the next password is looked at; 0 is at once."""
        now = monotonic()
        while self._wrong and self._wrong[0][0] <= now - self._within_s:
            self._wrong.popleft()
        net = _net(address)
        own = [at for at, of in self._wrong if of == net]
        waits = [own[-self._each]] if len(own) >= self._each else []
        waits += [self._wrong[-self._all][0]] if len(self._wrong) >= self._all else []
        return max((at + self._within_s - now for at in waits), default=0.0)

    def wrong(self, address: str) -> None:
        """A password was wrong."""
        self._wrong.append((monotonic(), _net(address)))


def session_key(folder: Path | None) -> bytes:
    """The key of the cookies: kept in a folder, so that a restart ends no login; None is for this process.

    Raises:
        ServeError: it cannot be kept there.
    """
    if folder is None:
        return secrets.token_bytes(_KEY_BYTES)
    path = folder / "session.key"
    try:
        folder.mkdir(mode=0o750, parents=True, exist_ok=True)
        made = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _MODE)
    except FileExistsError:
        pass
    except OSError as error:
        raise ServeError(f"{path} cannot be written: {error.strerror}") from None
    else:
        with open(made, "wb") as file:  # noqa: PTH123 - a descriptor
            file.write(secrets.token_bytes(_KEY_BYTES))
    try:
        key = path.read_bytes()
    except OSError as error:
        raise ServeError(f"{path} cannot be read: {error.strerror}") from None
    if len(key) != _KEY_BYTES:
        raise ServeError(f"{path} is not a key: delete it, and everybody logs in again")
    return key


def password_file(text: str, environment: Mapping[str, str]) -> Path:
    """The file that a configuration means: a path, or ``${cred:NAME}``.

    Raises:
        ServeError: there are no credentials.
    """
    named = re.fullmatch(r"\$\{(cred|file):([^}]+)\}", text)
    if named is None or named[1] == "file":
        return Path(named[2] if named else text)
    folder = environment.get("CREDENTIALS_DIRECTORY")
    if folder is None or re.fullmatch(r"[A-Za-z0-9._-]+", named[2]) is None:
        raise ServeError(f"{text}: give the unit LoadCredential={named[2]}:/path/to/it")
    return Path(folder, named[2])


def _net(address: str) -> str:
    try:
        parsed = ip_address(address)
    except ValueError:
        return address
    if not isinstance(parsed, IPv6Address):
        return str(parsed)
    return str(parsed.ipv4_mapped or int(parsed) >> _SAME_NET)
