"""Asking the journals of a folder: catch up with them, look through the index, read what was found."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import NDArray

from daemon.questions.local_time import LocalTime, microseconds
from daemon.questions.question import Filters, Question
from daemon.search.counts import Group, counted
from daemon.search.faults import faults
from daemon.search.found import FoundRecord, Reader
from daemon.search.index import Index, Look
from daemon.search.selection import Selection
from pipeline.evidence import evidence_beside
from pipeline.record import Record

if TYPE_CHECKING:
    from daemon.questions.asker import Asker


_NEAR = timedelta(days=1)
_FIRST, _LAST = datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Matches:
    """What was found.

    Attributes:
        found: the narrations, read one by one as they are asked for; oldest first.
        shown: how many they are.
        more: whether the limit left any out.
    """

    found: Iterator[FoundRecord]
    shown: int
    more: bool


@dataclass(frozen=True, slots=True, eq=False)
class Occurrences:
    """When narrations were.

    Attributes:
        times: of their after frames in their order, microseconds since 1970 (UTC), int64 ``(n,)``.
        cameras: number of the camera of each, ``(n,)``.
        names: of the cameras, by number.
    """

    times: NDArray[np.int64]
    cameras: NDArray[np.uint16]
    names: Mapping[int, str]


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
        """Who reads plain questions about these journals."""
        from daemon.questions.asker import Asker  # noqa: PLC0415 - loads the parser

        selection = self.selection
        return Asker(selection.cameras(), frozenset(selection.objects()), self.local, selection.tells_of)

    def answer(self, question: Question, default_limit: int | None = None, skip: int = 0) -> Matches:
        """The narrations that are asked for, oldest first.

        Args:
            question: what is asked.
            default_limit: the newest so many, where the question says nothing; None is all.
            skip: so many are passed over before the limit counts: the newest, or with "first" the oldest.

        Raises:
            SearchError: a camera, object, kind or colour is not known.
        """
        limit = question.limit
        if limit is None:
            limit = 1 if question.order != "all" else default_limit or 0
        newest, filters = question.order != "first", question.filters
        with self.index.store.snapshot():
            if limit:
                loaded = self.selection.load_enough(filters, skip + limit + 1, newest=newest)
            else:
                loaded = self.selection.load(filters)
            rows = self.selection.matching(loaded, filters)
            records = self.selection.records(loaded, rows, limit and skip + limit + 1, newest=newest)
            records = records[: max(0, len(records) - skip)] if newest else records[skip:]
            more = 0 < limit < len(records)
            if more:
                records = records[-limit:] if newest else records[:limit]
            located = self.reader.locate(loaded, records)
        return Matches(self.reader.read(located), len(records), more)

    def count(self, question: Question) -> list[Group]:
        """How many there are; raises as `answer`."""
        with self.index.store.snapshot():
            loaded = self.selection.load(question.filters)
            rows = self.selection.matching(loaded, question.filters)
            return counted(self.selection, loaded, rows, question.by)

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
            loaded = self.selection.load(question.filters, fresh)
            rows = self.selection.matching(loaded, question.filters, strict=False)
            located = self.reader.locate(loaded, self.selection.records(loaded, rows), fresh)
        yield from self.reader.read(located)

    def named(self, identity: str, filters: Filters) -> FoundRecord | None:
        """The newest narration of an id among those that are asked for; raises as `answer`."""
        with self.index.store.snapshot():
            loaded = self.selection.load(filters)
            records = self.selection.records(loaded, self.selection.matching(loaded, filters))
            located = self.reader.locate(loaded, records)
        holding = json.dumps(identity, ensure_ascii=False).encode()
        found = [each for each in self.reader.read(located, holding) if each.record.id == identity]
        return found[-1] if found else None

    def beside(self, record: Record, filters: Filters) -> tuple[FoundRecord | None, FoundRecord | None]:
        """The narrations before and after a record, of those that are asked for; raises as `answer`.

        Those of one moment are in the order in which they are shown; the record need not be one of them.
        """
        moment = record.after.moment
        begin, end = (
            moment - min(_NEAR, moment - _FIRST),
            moment + min(_NEAR, max(timedelta(0), _LAST - moment)),
        )
        since, until = max(begin, filters.since or begin), min(end, filters.until or end)
        near = replace(filters, since=since, until=until)
        with self.index.store.snapshot():
            loaded = self.selection.load(near)
            records = self.selection.records(loaded, self.selection.matching(loaded, near))
            at = microseconds(moment)
            first, behind = np.searchsorted(loaded.times[records], [at, at + 1])
            same = self.reader.locate(loaded, records[first:behind]).digest == int(record.hash[:16], 16)
            place = int(first + np.argmax(same)) if same.any() else None
            older = records[:first][-1:] if place is None else records[max(0, place - 1) : place]
            newer = records[behind:][:1] if place is None else records[place + 1 : place + 2]
            places = [self.reader.locate(loaded, each) for each in (older, newer)]
        before, after = (next(self.reader.read(each), None) for each in places)
        if before is None:
            before = next(
                self.answer(Question(replace(filters, until=min(since, until)), "last")).found, None
            )
        if after is None:
            after = next(
                self.answer(Question(replace(filters, since=max(since, until)), "first")).found, None
            )
        return before, after

    def spread(self, filters: Filters) -> Occurrences:
        """When the narrations were that are asked for, and of which cameras; raises as `answer`."""
        with self.index.store.snapshot():
            loaded = self.selection.load(filters)
            rows = self.selection.matching(loaded, filters)
            records = self.selection.records(loaded, rows)
            names = dict(self.index.store.connection.execute("SELECT id, name FROM cameras").fetchall())
        cameras = loaded.sentences.camera[loaded.starts[records]]
        return Occurrences(loaded.times[records], cameras, names)

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
