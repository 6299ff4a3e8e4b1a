"""Digests at set hours: which one is due for a target, and of what span."""

import logging
import sqlite3
from collections.abc import Sequence
from datetime import UTC, datetime, time, timedelta
from functools import partial

from daemon.config.settings import Configuration
from daemon.digest.digest import Digest, write_digest
from daemon.questions.local_time import LocalTime
from daemon.questions.question import SearchError, Span
from daemon.search.search import Search

logger = logging.getLogger(__name__)

present = partial(datetime.now, UTC)  # tests replace it


class DigestHours:
    """The hours of one target, ``HH:MM`` of every day; each digest is of the time since the hour before."""

    def __init__(self, hours: Sequence[str], configuration: Configuration) -> None:
        self._clocks = [time.fromisoformat(hour) for hour in hours]
        self._local = LocalTime.named(configuration.timezone)
        self._journals = configuration.state / "journal"

    def last(self, moment: datetime) -> datetime:
        today = self._local.of(moment).date()
        days = (today - timedelta(days=n) for n in range(3))
        hours = (self._local.aware(datetime.combine(day, clock)) for day in days for clock in self._clocks)
        return max(hour for hour in hours if hour <= moment)

    def write(self, hour: datetime) -> Digest | None:
        """The digest up to an hour; None where the journals cannot be searched."""
        reason: Exception | None = None
        for _ in range(2):  # an index that proves to be damaged is built anew
            try:
                with Search(self._journals, self._local) as search, search.mending():
                    search.update()
                    return write_digest(search, Span(self.last(hour - timedelta.resolution), hour), hour)
            except (SearchError, sqlite3.Error) as error:
                reason = error
        logger.warning("no digest of %s: %s", f"{self._local.of(hour):%Y-%m-%d %H:%M}", reason)
        return None
