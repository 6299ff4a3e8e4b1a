"""Searching the journals of a folder: catch up with them, look through the index, read what was found."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Self

from daemon.questions.asker import Asker
from daemon.questions.local_time import LocalTime, microseconds
from daemon.questions.question import Question, Span
from daemon.search.found import FoundRecord, Reader
from daemon.search.index import Index, Look
from daemon.search.intake import key_of
from daemon.search.selection import Selection
from pipeline.evidence import evidence_beside
from pipeline.record import Record


@dataclass(frozen=True, slots=True)
class Matches:
    """The narrations that were found.

    Attributes:
        found: read one by one as they are asked for; oldest first.
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
        progress: called with the number of records read so far while the index is built.

    Attributes:
        selection: records, visits and counts in the index; see there for the errors of all questions.
        reader: counts what changed between looking and reading.
    """

    def __init__(
        self,
        folder: Path,
        local: LocalTime,
        evidence: Path | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> None:
        self.folder, self.local = folder, local
        self.index = Index(folder, progress)
        self._evidence = evidence
        self._attach()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.index.close()

    @property
    def notice(self) -> str:
        """What people should know of where the index is; mostly empty."""
        return self.index.store.notice

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
        """Where the journals do not verify; see `Index.faults`."""
        return self.index.faults()

    def asker(self) -> Asker:
        """Reads plain questions about these journals."""
        selection = self.selection
        objects = frozenset(selection.objects())
        return Asker(selection.cameras(), objects, self.local, selection.names_place, selection.places)

    def answer(self, question: Question, default_limit: int | None = None, skip: int = 0) -> Matches:
        """The narrations that match, oldest first; of a visit that of its beginning.

        Args:
            question: what is asked.
            default_limit: the newest so many, where the question says nothing; None is all.
            skip: so many are passed over before the limit counts: the newest, or with "first" the oldest.
        """
        limit, order = question.measure.limit, question.measure.order
        if limit is None:
            limit = 1 if order in ("first", "last") else default_limit or 0
        newest = order != "first"
        records = self.selection.records(question, limit and skip + limit + 1, newest=newest)
        records = records[: max(0, len(records) - skip)] if newest else records[skip:]
        more = 0 < limit < len(records)
        if more:
            records = records[-limit:] if newest else records[:limit]
        return Matches(self.reader.read(records), len(records), more)

    def follow(self, question: Question, stop: Event, every_s: float) -> Iterator[FoundRecord]:
        """The narrations that come from now on, in the order of their journals, until `stop` is set."""
        while not stop.is_set():
            yield from self.new(question, self.look())
            stop.wait(every_s)

    def new(self, question: Question, look: Look) -> Iterator[FoundRecord]:
        """The narrations that a look found, in the order of their journals."""
        if look.records:
            yield from self.reader.read(self.selection.after(look.after, question))

    def named(self, identity: str, span: Span) -> FoundRecord | None:
        """The newest narration of an id within a span."""
        found = self.reader.read(self.selection.keyed(key_of(identity), span))
        return next((each for each in reversed(list(found)) if each.record.id == identity), None)

    def beside(self, record: Record, question: Question) -> tuple[FoundRecord | None, FoundRecord | None]:
        """The narrations that match next before and after a record, which need not match itself."""
        digest, moment = bytes.fromhex(record.hash)[:8], record.after.moment
        same = self.selection.keyed(key_of(record.id), Span())
        place = next(((each.time, each.id) for each in same if each.digest == digest), None)
        beyond = place or (microseconds(moment), 0)
        before = self.selection.records(question, 1, beyond=beyond)
        after = self.selection.records(question, 1, newest=False, beyond=beyond)
        return next(self.reader.read(before), None), next(self.reader.read(after), None)

    def reread(self) -> bool:
        """Forget the files whose records are not those that were indexed; True where there were such."""
        changed = bool(self.reader.changed)
        for file in self.reader.changed:
            self.index.forget(file)
        self.reader.changed.clear()
        return changed

    def _attach(self) -> None:
        connection = self.index.store.connection
        self.selection = Selection(connection, self.local)
        self.reader = Reader(connection, self.folder, self._evidence or evidence_beside(self.folder))
