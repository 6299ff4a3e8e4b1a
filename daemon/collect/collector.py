"""From the streams of many daemons to copies of their journals."""

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Event
from time import monotonic

from pipeline.journal import JournalError, JournalLockedError, SegmentLimits
from pipeline.journal.segment_writer import SegmentWriter
from pipeline.journal.segments import Start, read_record
from pipeline.journal.verification import check_line, follow
from pipeline.publisher.connection import RedisServer, ServerAwayError
from pipeline.publisher.publisher import NO_ENTRY
from pipeline.publisher.subscription import Entry, StreamReader
from pipeline.record_format import RecordError, check_camera, format_stream_id
from pipeline.report.words import many

RETRY_S = 60.0  # after which a camera that cannot be copied is tried again

logger = logging.getLogger(__name__)


class JournalCopy:
    """The same lines as the original, each checked before it is appended; for one thread.

    A copy may begin late: then its anchor names the record before its first, as retention does. Raises as
    `SegmentWriter`; `end` is the last record copied.
    """

    def __init__(self, folder: Path, camera: str, limits: SegmentLimits) -> None:
        self._camera = camera
        self._writer = SegmentWriter(folder, camera, limits, fsync=False)
        self.end = self._writer.end

    def append(self, line: bytes) -> None:
        """Append the next record's line, given without its end; it is on disk after `sync`.

        Raises JournalError where it is damaged or does not continue the chain; nothing of it is written then.
        """
        raw = line + b"\n"
        try:
            members, record = check_line(raw, self._camera), read_record(line)
            is_late = record.seq > 1 and not self._writer.size and not self._writer.full
            start = Start(record.seq - 1, record.prev) if is_late else None
            end = follow(start.end if start else self.end, members)
        except RecordError as error:
            raise JournalError(str(error)) from None
        if start:
            self._writer.move_start(start)
        self._writer.write(raw, record)
        self.end = end

    def sync(self) -> None:
        self._writer.sync()

    def close(self) -> None:
        self._writer.close()


class Collector:
    """Copies the journals of `cameras` (None: all) from their streams, byte for byte; for one thread.

    The end of a copy is the position in its stream, so that a collector that was killed continues without
    loss. A camera whose chain does not continue is tried again later, with the reason in `troubles` by name;
    the others are not delayed. `records` counts what was copied; `want` takes lines whose pictures are
    wanted.
    """

    def __init__(
        self,
        folder: Path,
        limits: SegmentLimits,
        server: RedisServer,
        want: Callable[[bytes], None],
        *,
        cameras: Sequence[str] | None = None,
        retry_s: float = RETRY_S,
    ) -> None:
        self.records = 0
        self.troubles: dict[str, str] = {}
        self._folder, self._limits, self._server, self._want = folder, limits, server, want
        self._cameras, self._retry_s = cameras, retry_s
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
                copy.close()

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
        if monotonic() - self._failed_at.get(camera, float("-inf")) < self._retry_s:
            return None
        try:
            copy = self._copies[camera] = JournalCopy(self._folder, check_camera(camera), self._limits)
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
        self.troubles[camera], self._failed_at[camera] = reason, monotonic()
        if copy := self._copies.pop(camera, None):
            copy.close()
