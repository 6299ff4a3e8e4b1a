"""From the streams of many daemons to copies of their journals, and of the pictures that records name."""

import base64
import hashlib
import logging
import time
from collections.abc import Callable, Sequence
from http import HTTPStatus
from http.client import HTTPException, IncompleteRead
from itertools import islice
from pathlib import Path
from threading import Event
from typing import Any
from urllib.error import HTTPError
from urllib.parse import unquote, urlencode, urlsplit
from urllib.request import HTTPCookieProcessor, Request, build_opener

from pipeline.evidence import EvidenceStore, references
from pipeline.journal import DAILY, JournalError, JournalLockedError, SegmentLimits
from pipeline.journal.segments import SegmentWriter
from pipeline.journal.verification import check_line, follow
from pipeline.loop import Backoff, Faults, Loop
from pipeline.publisher import NO_ENTRY, Entry, RedisServer, ServerAwayError, StreamReader
from pipeline.record_format import ChainEnd, RecordError, check_camera, format_stream_id
from pipeline.redaction import redact
from pipeline.report.words import many

RETRY_S = 60.0  # after which a camera that cannot be copied, or a page that did not answer, is tried again
LOOK_BACK_S = 7 * 86400.0  # at the start, pictures of journals written within so long are wanted again

_MOST_WANTED = 100_000
_AT_ONCE = 64
_TIMEOUT_S = 10.0
_LARGEST_BYTES = 32 * 2**20
_SUFFIXES = {"image/jpeg": "jpg", "image/webp": "webp"}

logger = logging.getLogger(__name__)


class JournalCopy(SegmentWriter):
    """The same lines as the original, each checked before it is appended; for one thread.

    A copy may begin late: then its anchor names the record before its first, as retention does. Raises as
    `SegmentWriter.resume`.
    """

    def __init__(self, folder: Path, camera: str, limits: SegmentLimits) -> None:
        super().__init__(folder, camera, limits, fsync=False)
        self.resume()

    def append(self, line: bytes) -> None:
        """Append the next record's line, given without its end; it is on disk after `sync`.

        Raises JournalError where it is damaged or does not continue the chain; nothing of it is written then.
        """
        raw = line + b"\n"
        try:
            record = check_line(raw, self.camera)
            is_late = record.seq > 1 and not self._written and not self.full
            start = ChainEnd(record.seq - 1, record.prev) if is_late else None
            end = follow(start or self.end, record)
        except RecordError as error:
            raise JournalError(str(error)) from None
        if start:
            self.move_start(start)
        self.write(raw, record)
        self.end = end


class Collector:
    """Copies the journals of `cameras` (None: all) from their streams, byte for byte; for one thread.

    The end of a copy is the position in its stream, so that a collector that was killed continues without
    loss. A camera whose chain does not continue is tried again later, with the reason in `troubles` by name;
    the others are not delayed. `records` counts what was copied; `want` takes lines whose pictures are
    wanted.
    """

    def __init__(
        self, folder: Path, server: RedisServer, want: Callable[[bytes], None], cameras: Sequence[str] | None
    ) -> None:
        self.records = 0
        self.troubles: dict[str, str] = {}
        self._folder, self._server, self._want = folder, server, want
        self._cameras = cameras
        self._copies: dict[str, JournalCopy] = {}
        self._failed_at: dict[str, float] = {}

    def run(self, stop: Event, progress: Callable[[], None], *, once: bool = False) -> None:
        """Copy until `stop` is set, or with `once` until nothing more is there; then close the copies.

        `progress` is called after every look at the server. JournalLockedError where another process writes
        the copies, PublisherError where a server refuses, or with `once` is away.
        """
        reader = StreamReader(self._server, self._cameras, self._begin, stop)
        try:
            while not stop.is_set():
                try:
                    entries = reader.read()
                except ServerAwayError as error:  # at the first look
                    if once:
                        raise
                    stop.wait(reader.backoff.next_s(str(error)))
                    entries = []
                for entry in entries:
                    self._copy(entry)
                for camera in {entry.camera for entry in entries}:
                    if not self._sync(camera):
                        reader.forget(camera)
                progress()
                if once and not entries and not reader.backoff.reason:
                    return
        finally:
            for copy in self._copies.values():
                copy.release()

    @property
    def status(self) -> str:
        failing = "".join(f"; {camera}: {why}" for camera, why in self.troubles.items())
        cameras, records = many(len(self._copies), "camera"), many(self.records, "record")
        return f"{cameras}, {records} collected{failing}"

    @property
    def absent(self) -> list[str]:
        """The cameras that were asked for of which there is no record."""
        copies = self._copies
        return [name for name in self._cameras or () if name in copies and not copies[name].end.seq]

    def _begin(self, camera: str) -> str | None:
        """The stream id behind which a camera's copy continues; None while it cannot."""
        if time.monotonic() - self._failed_at.get(camera, float("-inf")) < RETRY_S:
            return None
        try:
            copy = self._copies[camera] = JournalCopy(self._folder, check_camera(camera), DAILY)
        except JournalLockedError:
            raise
        except (RecordError, JournalError, OSError) as error:
            self._fail(camera, str(error))
            return None
        return format_stream_id(copy.end.stream_id) if any(copy.end.stream_id) else NO_ENTRY

    def _copy(self, entry: Entry) -> None:
        copy = self._copies.get(entry.camera)
        if copy is None:  # it failed earlier in this batch
            return
        line = entry.fields.get("json", "").encode()
        try:
            copy.append(line)
        except JournalError as error:
            self._fail(
                entry.camera,
                f"entry {entry.id} of its stream does not continue the copy that ends with record "
                f"{copy.end.seq} ({error}). Where the stream was trimmed, or the camera has a new journal: "
                f"copy the files {entry.camera}.* of the journal on its own machine to {self._folder}, or "
                "move the copy away to start another",
            )
        except OSError as error:
            self._fail(entry.camera, f"cannot write to {self._folder}: {error.strerror or error}")
        else:
            self.records += 1
            self._want(line)

    def _sync(self, camera: str) -> bool:
        """Put on disk what was copied; True where the camera is collected."""
        copy = self._copies.get(camera)
        if copy is None:
            return False
        try:
            copy.sync()
        except OSError as error:
            self._fail(camera, f"cannot write to {self._folder}: {error.strerror or error}")
            return False
        if self.troubles.pop(camera, None):
            logger.warning("camera %s is collected again", camera)
        return True

    def _fail(self, camera: str, reason: str) -> None:
        if self.troubles.get(camera) != reason:
            logger.error("camera %s is not collected: %s", camera, reason)
        self.troubles[camera], self._failed_at[camera] = reason, time.monotonic()
        if copy := self._copies.pop(camera, None):
            copy.release()


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
