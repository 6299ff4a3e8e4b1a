"""A digest at set hours: which one is due for a target, and that it is sent once."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, time, timedelta
from pathlib import Path

from daemon.config.settings import Configuration
from daemon.digest.digest import Digest, write_digest
from daemon.questions.local_time import LocalTime
from daemon.questions.question import SearchError, Span
from daemon.search.search import Search
from pipeline.disk import replace_file

logger = logging.getLogger(__name__)


class DueDigests:
    """The digests of one target; each is of the time since the one before it.

    Args:
        hours: ``HH:MM`` of every day, by the configuration's time zone.
        configuration: says where the journals are.
        path: file that remembers the last one, over restarts.
    """

    def __init__(self, hours: Sequence[str], configuration: Configuration, path: Path) -> None:
        self._clocks = sorted(time.fromisoformat(hour) for hour in hours)
        self._local, self._path = LocalTime.named(configuration.timezone), path
        self._journals = configuration.state / "journal"
        try:
            self._last = datetime.fromisoformat(path.read_text().strip())
        except (OSError, ValueError):
            self.settle(max(self._hours_before(present())))  # the first one is of the next hour

    def due(self) -> datetime | None:
        """The hour of the digest that is to be sent now; of several that were missed, the newest."""
        newest = max(self._hours_before(present()))
        return newest if newest > self._last else None

    def write(self, hour: datetime) -> Digest | None:
        """The digest up to an hour; None where the journals cannot be searched."""
        begin = max(each for each in self._hours_before(hour) if each < hour)
        try:
            with Search(self._journals, self._local) as search:
                search.index.update()
                return write_digest(search, Span(begin, hour), hour)
        except SearchError as error:
            logger.warning("no digest of %s: %s", f"{self._local.of(hour):%Y-%m-%d %H:%M}", error)
            return None

    def settle(self, hour: datetime) -> None:
        """It was sent, or cannot be: not again, also after a restart."""
        self._last = hour
        try:
            replace_file(self._path, f"{hour.isoformat()}\n".encode(), durable=True)
        except OSError as error:
            logger.warning("cannot save %s: %s", self._path, error.strerror or error)

    def _hours_before(self, moment: datetime) -> Iterator[datetime]:
        """The hours of the last days, up to a moment."""
        today = self._local.of(moment).date()
        for day in (today - timedelta(days=n) for n in range(3)):
            hours = (self._local.aware(datetime.combine(day, clock)) for clock in self._clocks)
            yield from (hour for hour in hours if hour <= moment)


def present() -> datetime:
    """Now; tests replace it."""
    return datetime.now(UTC)
