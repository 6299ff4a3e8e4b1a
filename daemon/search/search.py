"""Asking the journals of a folder: catch up with them, look through the index, read what was found."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

from daemon.search.counts import Group, counted
from daemon.search.faults import faults
from daemon.search.filters import Question
from daemon.search.found import FoundRecord, Reader
from daemon.search.index import Index, Look
from daemon.search.local_time import LocalTime
from daemon.search.selection import Selection
from pipeline.evidence import evidence_beside

if TYPE_CHECKING:
    from daemon.search.questions import Asker


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

    @classmethod
    @contextmanager
    def opened(
        cls,
        folder: Path,
        local: LocalTime,
        evidence: Path | None = None,
        told: Callable[[int], None] | None = None,
    ) -> Iterator[Search]:
        """As the class, closed in the end."""
        search = cls(folder, local, evidence, told)
        try:
            yield search
        finally:
            search.index.close()

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
        from daemon.search.questions import Asker  # noqa: PLC0415 - loads the parser

        selection = self.selection
        return Asker(selection.cameras(), frozenset(selection.objects()), self.local, selection.tells_of)

    def answer(self, question: Question, default_limit: int | None = None) -> Matches:
        """The narrations that are asked for, oldest first.

        Args:
            question: what is asked.
            default_limit: the newest so many, where the question says nothing; None is all.

        Raises:
            SearchError: a camera, object, kind or colour is not known.
        """
        limit = question.limit
        if limit is None:
            limit = 1 if question.order != "all" else default_limit or 0
        newest, filters = question.order != "first", question.filters
        with self.index.store.snapshot():
            if limit:
                loaded = self.selection.load_enough(filters, limit + 1, newest=newest)
            else:
                loaded = self.selection.load(filters)
            rows = self.selection.matching(loaded, filters)
            records = self.selection.records(loaded, rows, limit and limit + 1, newest=newest)
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
            return counted(self.index.store.connection, self.selection, loaded, rows, question.by)

    def follow(self, question: Question, stop: Event, every_s: float) -> Iterator[FoundRecord]:
        """The narrations that come from now on, in the order of their journals, until `stop` is set.

        Args:
            question: its filters count, and no limit.
            stop: ends the waiting at once.
            every_s: how often the journals are looked at.
        """
        while not stop.is_set():
            look = self.look()
            if look.fresh:
                yield from self._new(question, look.fresh)
            stop.wait(every_s)

    def reread(self) -> bool:
        """Forget the files that do not hold any more what was read of them; True where there were such."""
        changed = bool(self.reader.changed)
        for file in self.reader.changed:
            self.index.forget(file)
        self.reader.changed.clear()
        return changed

    def _new(self, question: Question, fresh: Mapping[int, int]) -> Iterator[FoundRecord]:
        with self.index.store.snapshot():
            loaded = self.selection.load(question.filters, fresh)
            rows = self.selection.matching(loaded, question.filters, strict=False)
            located = self.reader.locate(loaded, self.selection.records(loaded, rows), fresh)
        yield from self.reader.read(located)

    def _attach(self) -> None:
        connection = self.index.store.connection
        self.selection = Selection(connection, self.local)
        self.reader = Reader(connection, self.folder, self._evidence or evidence_beside(self.folder))
