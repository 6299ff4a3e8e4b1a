"""Asking the journals of a folder: catch up with them, look through the index, read what was found."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event
from typing import Self

from daemon.questions.asker import Asker
from daemon.questions.local_time import LocalTime
from daemon.questions.question import Filters, Question
from daemon.search.faults import faults
from daemon.search.found import FoundRecord, Reader
from daemon.search.index import Index, Look
from daemon.search.intake import key_of
from daemon.search.selection import Gap, Group, Selection, Visit
from pipeline.evidence import evidence_beside
from pipeline.record import Record

_NEAR = timedelta(days=1)
_FIRST, _LAST = datetime(1, 1, 2, tzinfo=UTC), datetime(9999, 12, 30, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Matches:
    """What was found.

    Attributes:
        found: the narrations, read one by one as they are asked for; oldest first.
        shown: how many they are.
        more: the limit left some out.
    """

    found: Iterator[FoundRecord]
    shown: int
    more: bool


class Search:
    """The journals of a folder, and questions to them; for one thread.

    Args:
        folder: of the journals.
        local: the time zone of hours and days.
        evidence: folder of the pictures; None is ``evidence`` in or beside that of the journals.
        told: called with the number of records read so far while the index is built.

    Attributes:
        reader: counts what changed between looking and reading.
    """

    def __init__(
        self,
        folder: Path,
        local: LocalTime,
        evidence: Path | None = None,
        told: Callable[[int], None] | None = None,
    ) -> None:
        self.folder, self.local = folder, local
        self.index = Index(folder, told)
        self._evidence = evidence
        self._attach()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.index.close()

    @property
    def said(self) -> str:
        """What people should know of where the index is; mostly empty."""
        return self.index.store.said

    def look(self) -> Look:
        """Catch up with the journals.

        Raises:
            NoJournalsError: the folder cannot be read.
        """
        look = self.index.look()
        if self.selection.connection is not self.index.store.connection:
            self._attach()
        return look

    def faults(self) -> list[str]:
        """Where the journals do not verify; see `daemon.search.faults`."""
        return faults(self.index.store, self.folder)

    def asker(self) -> Asker:
        """Reads plain questions about these journals."""
        selection = self.selection
        return Asker(
            selection.cameras(),
            frozenset(selection.objects()),
            self.local,
            selection.names_place,
            selection.places,
        )

    def answer(self, question: Question, default_limit: int | None = None, skip: int = 0) -> Matches:
        """The narrations that are asked for, oldest first; of a visit that of its beginning.

        Args:
            question: what is asked.
            default_limit: the newest so many, where the question says nothing; None is all.
            skip: so many are passed over before the limit counts: the newest, or with "first" the oldest.

        Raises:
            SearchError: a camera, object, kind or colour is not known, or no record names a track where
                that is needed.
        """
        limit = question.limit
        if limit is None:
            limit = 1 if question.order in ("first", "last") else default_limit or 0
        newest = question.order != "first"
        with self.index.store.snapshot():
            records = self.selection.records(question, limit and skip + limit + 1, newest=newest)
        records = records[: max(0, len(records) - skip)] if newest else records[skip:]
        more = 0 < limit < len(records)
        if more:
            records = records[-limit:] if newest else records[:limit]
        return Matches(self.reader.read(records), len(records), more)

    def count(self, question: Question) -> list[Group]:
        """How many visits there are; raises as `answer`."""
        with self.index.store.snapshot():
            return self.selection.count(question)

    def visits(self, question: Question) -> list[Visit]:
        """The visits that are asked for; raises as `answer`."""
        with self.index.store.snapshot():
            return self.selection.visits(question)

    def gaps(self, question: Question) -> list[Gap]:
        """Where nothing was recorded of what is asked for."""
        return self.selection.gaps(question)

    def follow(self, question: Question, stop: Event, every_s: float) -> Iterator[FoundRecord]:
        """The narrations that come from now on, in the order of their journals, until `stop` is set.

        The question's filters count, and no limit.
        """
        while not stop.is_set():
            look = self.look()
            if look.fresh:
                yield from self.new(question, look.fresh)
            stop.wait(every_s)

    def new(self, question: Question, fresh: Mapping[int, int]) -> Iterator[FoundRecord]:
        """The narrations that a look found, in the order of their journals."""
        with self.index.store.snapshot():
            found = self.selection.fresh(question.filters, fresh)
        yield from self.reader.read(found)

    def named(self, identity: str, filters: Filters) -> FoundRecord | None:
        """The newest narration of an id among those that are asked for; raises as `answer`."""
        with self.index.store.snapshot():
            places = self.selection.keyed(key_of(identity), filters)
        found = [each for each in self.reader.read(places) if each.record.id == identity]
        return found[-1] if found else None

    def beside(self, record: Record, filters: Filters) -> tuple[FoundRecord | None, FoundRecord | None]:
        """The narrations before and after a record, of those that are asked for; raises as `answer`.

        Those of one moment are in the order in which they are shown; the record need not be one of them.
        """
        moment = record.after.moment
        digest = bytes.fromhex(record.hash)[:8]
        end = min(moment, _LAST) + timedelta(microseconds=1)
        same = replace(
            filters, since=max(moment, filters.since or moment), until=min(end, filters.until or end)
        )
        now = self.selection.records(Question(same))
        place = next((n for n, each in enumerate(now) if each.digest == digest), None)
        before, after = (now[:place], now[place + 1 :]) if place is not None else ([], now)
        if not before:
            older = replace(filters, until=min(moment, filters.until or moment))
            before = self.selection.records(Question(older), 1)
        if not after:
            newer = replace(filters, since=max(end, filters.since or end))
            after = self.selection.records(Question(newer), 1, newest=False)
        return (
            next(self.reader.read(before[-1:]), None),
            next(self.reader.read(after[:1]), None),
        )

    def spread(self, filters: Filters) -> list[tuple[int, str]]:
        """Time (microseconds since 1970) and camera of each record, in their order; raises as `answer`."""
        return self.selection.spread(filters)

    def reread(self) -> bool:
        """Forget the files that do not hold any more what was read of them; True where there were such."""
        changed = bool(self.reader.changed)
        for file in self.reader.changed:
            self.index.forget(file)
        self.reader.changed.clear()
        return changed

    def _attach(self) -> None:
        connection = self.index.store.connection
        self.selection = Selection(connection, self.local)
        self.reader = Reader(connection, self.folder, self._evidence or evidence_beside(self.folder))
