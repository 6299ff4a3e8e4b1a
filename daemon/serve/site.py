"""What the pages share: the search, people's remarks, logins, the cameras and their states."""

import json
import logging
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from threading import Lock
from time import monotonic
from urllib.parse import quote

from daemon.config.configuration import ConfigurationError, parse_configuration
from daemon.config.secrets import secret_file
from daemon.config.settings import Camera, Configuration, ServeSettings
from daemon.digest.digest import Digest, write_digest
from daemon.questions.local_time import LocalTime
from daemon.questions.question import Filters, Measure, Question, SearchError, Span
from daemon.rules.configured import places_of
from daemon.search.search import Search, SearchResult
from daemon.serve.access import GuessLimit, Passwords, ServeError, Sessions
from daemon.serve.areas import may_write
from models.language.catalogue import N_, _
from pipeline.evidence import evidence_folder
from pipeline.feedback import FILE, FeedbackError, FeedbackStore, Remarks
from pipeline.loop import Faults
from pipeline.record import Record
from pipeline.report.page import Card

_NEWEST = 20
_REFRESH_S = 0.5
_STATES_S, _STATES_LIMIT_S, _LARGEST = 5.0, 2.0, 2**20
_GOOD = {N_("streaming"), N_("reading")}  # states of a camera that is watched
_OTHERS = (N_("connecting"), N_("stalled"), N_("backing off"), N_("ended"), N_("waiting"))

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
    """Everything that the pages are made of; for several threads.

    `folder` has the journals, `own` the feedback; days and hours are in `timezone` (None: this machine's).
    Passwords or feedback that cannot be used raise `ServeError`; a time zone that there is not, or an index
    that cannot be written, `SearchError`.
    """

    def __init__(
        self,
        settings: ServeSettings,
        folder: Path,
        own: Path,
        *,
        configuration: Configuration | None = None,
        timezone: str | None = None,
        config: Path | None = None,
    ) -> None:
        self.passwords = Passwords(secret_file(settings.passwords)) if settings.passwords else None
        self.sessions = Sessions() if self.passwords else None  # both are None where no login is needed
        self.guesses = GuessLimit()
        self.secure = settings.proxy  # browsers come over TLS: the cookie may go over nothing else
        self.folder, self.local = folder, LocalTime.named(timezone)
        self.evidence = evidence_folder(folder) or folder.parent / "evidence"
        self.config = config if config and may_write(config) else None  # None: zones may not be written
        self._cameras = configuration.cameras if configuration else None
        self._file = config
        self._read: tuple[int, int] | None = None  # the version of the file that the cameras are of
        self.left_out: dict[str, str] = {}  # files that are not read, with the reason
        self.answered: Callable[[], None] = lambda: None  # called with each request; the watchdog goes by it
        self._health = configuration.http.listen if configuration else None
        self._states: Mapping[str, str] | None = None
        self._search = Search(folder, self.local)
        self._searching, self._states_at, self._refreshed = Lock(), float("-inf"), 0.0
        self._faults = Faults()
        self._today: tuple[datetime | None, Digest | None] = None, None
        try:
            self.feedback = FeedbackStore(own / FILE)
        except FeedbackError as error:
            raise ServeError(str(error)) from None

    @property
    def cameras(self) -> Mapping[str, Camera] | None:
        """Those that the configuration file has now, or had while it was last right; None without a file."""
        if self._file:
            with suppress(OSError, UnicodeDecodeError, ConfigurationError):  # the daemon's log has the reason
                found = self._file.stat()
                if self._read != (version := (found.st_mtime_ns, found.st_ino)):
                    self._read = version
                    text = self._file.read_text(encoding="utf-8")
                    self._cameras = parse_configuration(text, str(self._file)).cameras
        return self._cameras

    def open(self) -> None:
        self._update()
        warnings = [f"{self.folder / name} is left out: {reason}" for name, reason in self.left_out.items()]
        for warning in [*warnings, *(f"does not verify: {fault}" for fault in self._search.index.faults())]:
            logger.warning("%s", warning)

    def close(self) -> None:
        with self._searching:
            self._search.index.close()
        self.feedback.close()

    def catch_up(self) -> None:
        with self.search():
            pass

    @contextmanager
    def search(self) -> Iterator[Search]:
        """The journals, caught up with, for one request at a time."""
        with self._searching:
            if monotonic() - self._refreshed >= _REFRESH_S:
                self._update()
                self._refreshed = monotonic()
            self._search.places = places_of((self.cameras or {}).values())
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

    @property
    def cookie(self) -> str:
        """Its name; with the prefix, browsers take it over TLS alone."""
        return "__Host-narrated" if self.secure else "narrated"

    def today(self, search: Search) -> Digest | None:
        """Today's digest, made once a minute; None before the first narration."""
        now = datetime.now(UTC).replace(second=0, microsecond=0)
        if self._today[0] != now and search.selection.cameras():
            self._today = now, write_digest(search, Span(), now)
        return self._today[1]

    def newest(self, search: Search) -> list[Card]:
        """The newest narrations that were not held back, newest first."""
        question = Question(Filters(held=False), measure=Measure(limit=_NEWEST))
        return self.visits(search, list(search.answer(question).results)[::-1])

    def states(self) -> Mapping[str, str] | None:
        """States by camera, some seconds old at most; None where the daemon does not answer."""
        if self._health and monotonic() - self._states_at >= _STATES_S:
            self._states_at = monotonic()
            self._states = _read_states(*self._health)
        return self._states

    def tiles(self, search: Search) -> list[Tile]:
        """All cameras by name, those that were removed from the configuration last."""
        configured, states, tiles = self.cameras, self.states(), list[Tile]()
        latest = {name: self._latest(search, name) for name in search.selection.cameras()}
        for name in sorted({*latest, *(configured or ())}):
            card = latest.get(name)
            if configured is not None and name not in configured:
                tiles.append(Tile(name, _("removed from the configuration"), "removed", card))
                continue
            live = (configured[name].live_url if configured else None) or ""
            state = states.get(name, N_("not watched by the running daemon")) if states is not None else ""
            level = "good" if state in _GOOD else "bad" if state else "unknown"
            limited = name in latest and self._is_limited(search, name)
            tiles.append(Tile(name, _(state), level, card, live, limited))
        return sorted(tiles, key=lambda tile: tile.level == "removed")

    def _latest(self, search: Search, camera: str) -> Card | None:
        """The newest record with pictures, else the newest that was not held back; None without any."""
        pictured = search.read(search.selection.newest(camera, _NEWEST, pictured=True))
        question = Question(Filters(cameras=(camera,), held=False), measure=Measure(limit=1))
        found = next((result for result in pictured if result.pictures), None)
        found = found or next(search.answer(question).results, None)
        return self.card(found) if found else None

    def _is_limited(self, search: Search, camera: str) -> bool:
        """True where the hourly limit holds the camera's newest change."""
        newest = (each.record for each in search.read(search.selection.newest(camera, _NEWEST)))
        limits = (each.held for each in newest if each.event == "change" and each.held != "lost")
        return next(limits, None) == "hourly"

    def visits(self, search: Search, results: Sequence[SearchResult]) -> list[Card]:
        """Records with people's remarks, those of one visit as one card."""
        cards = []
        for visit in search.visits_of(results):
            *stages, last = map(self.card, visit)
            others = [
                (words, other.record.text, _address(other.record))
                for each in visit
                for words, other in search.others_of(each)
            ]
            cards.append(replace(last, stages=stages, others=others))
        return cards

    def card(self, result: SearchResult) -> Card:
        record = result.record
        return Card(
            record,
            self.local.zone,
            {side: f"/picture/{path.name[:64]}" for side, path in result.pictures.items()},
            _address(record),
            result.marks,
            self.feedback.remarks([record.id]).get(record.id, Remarks()),
        )


def _address(record: Record) -> str:
    return f"/record/{quote(record.id, safe='')}"


def _read_states(host: str, port: int) -> Mapping[str, str] | None:
    """The states of the daemon's `/healthz`; where a thread hangs, its 503 has them all the same."""
    try:
        with closing(HTTPConnection(host, port, timeout=_STATES_LIMIT_S)) as connection:
            connection.request("GET", "/healthz")
            states = json.loads(connection.getresponse().read(_LARGEST))["cameras"]
        return {str(name): str(state) for name, state in states.items()}
    except (OSError, HTTPException, ValueError, LookupError, TypeError, AttributeError):
        return None
