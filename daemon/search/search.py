"""Searching the journals of a folder: the index is brought up to date and asked, the results read."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from daemon.questions.question import LocalTime, NoJournalsError, Question
from daemon.search.index import Index, is_damage
from daemon.search.selection import Selection
from models.language.catalogue import N_, _
from models.language.templates import OTHERS
from pipeline.evidence import EvidenceStore, evidence_folder
from pipeline.record_format import hash_holds

if TYPE_CHECKING:
    from daemon.questions.asker import Asker
    from pipeline.record import Record

_STAGES = 20  # records of a visit that are shown, the newest
_ALTERED = N_("does not verify: the line was changed")


class _IndexDamagedError(NoJournalsError):
    """It was deleted, and the next update builds it."""


@dataclass(frozen=True)
class SearchResult:
    number: int  # in the index
    line: bytes  # the journal's bytes, without the line's end
    members: Mapping[str, Any]  # what they say, as JSON values
    marks: tuple[str, ...] = ()  # doubts about it, mostly none
    pictures: Mapping[str, Path] = field(default_factory=dict)  # files that are there, by side

    @cached_property
    def record(self) -> Record:
        """As the journal has it; readers of a few members need not wait for its model to load."""
        from pipeline.record import read_record  # noqa: PLC0415

        return read_record(self.line)

    @property
    def moment(self) -> datetime:
        """When its after frame was captured."""
        return datetime.fromisoformat(self.members["after"]["time"])


@dataclass(frozen=True, slots=True)
class Answer:
    results: Iterator[SearchResult]  # read one by one as they are asked for; oldest first
    count: int  # how many they are
    more: bool  # the limit left some out


class Search:
    """The journals of a folder, and questions to them; for one thread.

    `places` are zones and lines of the configuration, beside those that the journals name; `missing` counts
    records that were deleted or changed since they were indexed. See `Selection` for the errors of questions.
    """

    def __init__(self, folder: Path, local: LocalTime, places: Iterable[str] = ()) -> None:
        self.folder, self.local, self.missing = folder, local, 0
        self.places = dict.fromkeys(places)
        self._open()
        pictures = evidence_folder(folder) or folder.parent / "evidence"  # where they will come to
        self._evidence = EvidenceStore(pictures)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.index.close()

    def _open(self) -> None:
        self.index = Index(self.folder)
        self.selection = Selection(self.index.connection, self.local, self.folder.parent)

    def update(self) -> dict[str, str]:
        """Catch up with the journals; an index that proves to be damaged is rebuilt."""
        with suppress(_IndexDamagedError), self.mending():
            return self.index.update()
        return self.index.update()

    @contextmanager
    def mending(self) -> Iterator[None]:
        """Discard an index that proves to be damaged in the block; a `NoJournalsError` says to ask again."""
        try:
            yield
        except sqlite3.DatabaseError as error:
            if not is_damage(error):
                raise
            self.index.delete()
            self._open()
            raise _IndexDamagedError(f"the index {self.index.path} was damaged: ask again") from None

    def asker(self) -> Asker:
        from daemon.questions.asker import Asker  # noqa: PLC0415 - 8 ms of patterns, for filters as well

        asked, configured = self.selection, self.places
        return Asker(
            asked.cameras(),
            frozenset(asked.objects()),
            self.local,
            lambda place: place in configured or asked.names_place(place),
            lambda: [*(configured | dict.fromkeys(asked.places()))],
        )

    def answer(self, question: Question, default_limit: int | None = None, skip: int = 0) -> Answer:
        """The records that match, oldest first; of a visit that of its beginning.

        A question without a limit has the newest `default_limit` (None: all). So many are passed over before
        that counts: the newest, or with "first" the oldest.
        """
        limit, order = question.measure.limit, question.measure.order
        if limit is None:
            limit = {"first": 1, "last": 1, "first and last": 0}.get(order, default_limit or 0)
        newest = order != "first"
        records = self.selection.records(question, limit and limit + 1, skip, newest=newest)
        if order == "first and last":
            records = [*records[:1], *records[1:][-1:]]
        more = 0 < limit < len(records)
        if more:
            records = records[-limit:] if newest else records[:limit]
        return Answer(self.read(records), len(records), more)

    def by_id(self, identity: str) -> SearchResult | None:
        """The newest record with an id."""
        sql = "SELECT id FROM records WHERE identity = ? ORDER BY time DESC LIMIT 1"
        return next(self.read(self.selection.column(sql, (identity,))), None)

    def ids(self, numbers: Iterable[int]) -> list[str]:
        """The ids of records, by time."""
        sql = "SELECT identity FROM records WHERE id IN (SELECT value FROM json_each(?)) ORDER BY time, id"
        return self.selection.column(sql, (json.dumps([*numbers]),))

    def visits_of(self, results: Sequence[SearchResult]) -> list[list[SearchResult]]:
        """Each result with the other records of its visit, by time, where it is of one; each visit once.

        Of those that limits held back only results are among them.
        """
        asked = {each.record.id for each in results}
        visits: dict[tuple[str, str], list[SearchResult]] = {}
        for each in results:
            camera, track = each.record.camera, each.record.track
            if (key := (camera, track or each.record.id)) not in visits:
                numbers = self.selection.of_track(camera, track)[-_STAGES:] if track else []
                stages = [stage for stage in self.read(numbers) if stage.record.track == track]
                shown = [stage for stage in stages if not stage.record.held or stage.record.id in asked]
                visits[key] = shown or [each]
        return list(visits.values())

    def others_of(self, result: SearchResult) -> list[tuple[str, SearchResult]]:
        """How other tracks have to do with a record, in words, and the latest record of each."""
        found = []
        for sentence in result.members["sentences"]:
            other, camera = sentence.get("other"), result.members["camera"]
            numbers = self.selection.of_track(camera, other) if other else []
            words = _(OTHERS.get(sentence.get("action", ""), N_("with")))
            found += [(words, other) for other in self.read(numbers[-1:])]
        return found

    def read(self, numbers: Iterable[int]) -> Iterator[SearchResult]:
        """The records of numbers, in their order; `missing` counts those whose line is gone or another."""
        sql = (
            "SELECT r.id, f.name, chain, first, r.offset, length, digest FROM json_each(?) "
            "JOIN records r ON r.id = value JOIN files f ON f.id = file ORDER BY key"
        )
        each_once = [*dict.fromkeys(numbers)]
        locations = self.index.connection.execute(sql, (json.dumps(each_once),)).fetchall()
        self.missing += len(each_once) - len(locations)  # another process has noticed that they are gone
        for location in locations:
            if result := self._read(location):
                yield result
            else:
                self.missing += 1

    def _read(self, location: tuple[Any, ...]) -> SearchResult | None:
        number, name, chain, first, offset, length, digest = location
        for renamed in dict.fromkeys((name, f"{chain}.{first:012d}.jsonl", f"{chain}.jsonl")):
            with (
                suppress(OSError, ValueError, KeyError, TypeError),
                (self.folder / renamed).open("rb") as file,
            ):
                file.seek(offset)
                line = file.read(length).rstrip(b"\n")
                members = json.loads(line)
                if bytes.fromhex(members["hash"])[:8] == digest:
                    named = members.get("evidence", {})
                    paths = {side: self._evidence.find(reference) for side, reference in named.items()}
                    pictures = {side: path for side, path in paths.items() if path}
                    result = SearchResult(number, line, members, (), pictures)
                    if hash_holds(line):  # else it may be no record any more
                        return result
                    return replace(result, marks=(_(_ALTERED),)) if result.record else None
        return None
