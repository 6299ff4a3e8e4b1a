"""Pictures that records name, fetched by their hash from the pages of `narrated serve`."""

import base64
import hashlib
import logging
import time
from collections.abc import Sequence
from http import HTTPStatus
from http.client import HTTPException, IncompleteRead
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import unquote, urlencode, urlsplit
from urllib.request import HTTPCookieProcessor, Request, build_opener

from pipeline.evidence import EvidenceStore, references
from pipeline.loop import Backoff, Faults, Loop
from pipeline.redaction import redact

LOOK_BACK_S = 7 * 86400.0  # at the start, pictures of journals written within so long are wanted again
RETRY_S = 60.0  # longest pause after which a page that did not answer is asked again

_MOST_WANTED = 100_000
_AT_ONCE = 64
_TIMEOUT_S = 10.0
_LARGEST_BYTES = 32 * 2**20
_SUFFIXES = {"image/jpeg": "jpg", "image/webp": "webp"}

logger = logging.getLogger(__name__)


class PictureSourceError(Exception):
    """A page cannot be asked now; the message holds no secret."""


class PictureSource:
    """One page of `narrated serve`; logs in where the URL holds a name and a password.

    The credentials serve its own login as well as a proxy's. Before the monotonic second `asked_again_s` it
    is not asked. Raises ValueError where the URL is neither ``http://`` nor ``https://``.
    """

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{redact(url)}: write the address of a page, http://HOST:PORT or https://HOST")
        self.name = redact(url)
        self.backoff, self.asked_again_s = Backoff(self.name, 1.0, RETRY_S), 0.0
        host = parts.netloc.rpartition("@")[2]
        self._base = f"{parts.scheme}://{host}{parts.path.rstrip('/')}"
        self._login = {"name": unquote(parts.username or ""), "password": unquote(parts.password or "")}
        self._opener = build_opener(HTTPCookieProcessor())
        self._token = base64.b64encode(":".join(self._login.values()).encode()).decode()

    def fetch(self, digest: str) -> tuple[bytes, str] | None:
        """Bytes and suffix; None where the page has others or none; raises `PictureSourceError`."""
        try:
            with self._get(f"picture/{digest}") as answer:
                suffix = _SUFFIXES.get(answer.headers.get_content_type())
                content = answer.read(_LARGEST_BYTES)
                if answer.length:  # of a part `read` says nothing
                    raise IncompleteRead(content, answer.length)
        except HTTPError as error:
            error.close()
            if error.code == HTTPStatus.NOT_FOUND:
                return None
            raise PictureSourceError(f"answers {error.code} {error.reason}") from None
        except OSError as error:
            raise PictureSourceError(f"cannot be reached: {error}") from None
        except HTTPException as error:
            raise PictureSourceError(f"sends no whole HTTP response: {error!r}") from None
        if suffix is None or hashlib.sha256(content).hexdigest() != digest:
            logger.warning("%s has another picture under %s; left out", self.name, digest)
            return None
        return content, suffix

    def _get(self, path: str) -> Any:
        try:
            return self._open(path)
        except HTTPError as error:
            if error.code != HTTPStatus.UNAUTHORIZED or not self._login["name"]:
                raise
            error.close()
        self._open("login", urlencode(self._login).encode()).close()
        return self._open(path)

    def _open(self, path: str, form: bytes | None = None) -> Any:
        request = Request(f"{self._base}/{path}", form)  # noqa: S310 - http or https, see above
        if self._login["name"]:  # not for whom an answer redirects to
            request.add_unredirected_header("Authorization", f"Basic {self._token}")
        return self._opener.open(request, timeout=_TIMEOUT_S)


class PictureFetcher:
    """Fetches what it is asked for in a thread of its own, from whichever page has it.

    A picture that no page has is given up, since pictures are stored before their records are published;
    while a page does not answer, it may have it, and the picture stays wanted.
    """

    def __init__(self, store: EvidenceStore, sources: Sequence[PictureSource]) -> None:
        self.fetched = self.missing = 0
        self._store, self._sources = store, sources
        self._wanted: dict[str, None] = {}
        self._faults = Faults()  # of the disk
        self.loop = Loop("pictures", self._run, 1.0)

    def want(self, lines: bytes) -> None:
        if not self._sources:
            return
        for digest in references(lines):
            if len(self._wanted) >= _MOST_WANTED:
                self.missing += 1
            elif self._store.find(digest) is None:
                self._wanted[digest] = None
        self.loop.wake()

    def want_missing(self, journals: Path) -> None:
        """Fetch missing pictures of journals written within `LOOK_BACK_S`; before the thread starts."""
        since = time.time() - LOOK_BACK_S
        for path in journals.glob("*.jsonl"):
            if path.stat().st_mtime > since:
                self.want(path.read_bytes())

    @property
    def wanted(self) -> int:
        return len(self._wanted)

    def fetch_wanted(self) -> None:
        """Fetch all that the pages have, in this thread; what a page that is away may have stays wanted."""
        while self._turn():
            pass

    def _run(self) -> None:
        if self._turn():
            self.loop.wake()

    def _turn(self) -> bool:
        """Fetch some pictures; True where any is not wanted any more."""
        before = self._wanted.copy()
        for digest in islice(before, _AT_ONCE):
            if self.loop.stopped.is_set():
                return False
            with self._faults.noted("", f"cannot store pictures in {self._store.folder}", OSError):
                done = self._fetch(digest)
            if self._faults:
                return False
            del self._wanted[digest]
            if not done:
                self._wanted[digest] = None  # others first
        return len(self._wanted.keys() & before.keys()) < len(before)

    def _fetch(self, digest: str) -> bool:
        """True where the picture is stored, or no page has it."""
        asked_all = True
        for source in self._sources:
            if time.monotonic() < source.asked_again_s:
                asked_all = False
                continue
            try:
                found = source.fetch(digest)
            except PictureSourceError as error:
                source.asked_again_s = time.monotonic() + source.backoff.next_s(str(error))
                asked_all = False
                continue
            source.backoff.reset()
            if found:
                self._store.put(*found)
                self.fetched += 1
                return True
        self.missing += asked_all
        return asked_all
