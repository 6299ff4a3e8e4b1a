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

from daemon.questions.local_time import LocalTime
from daemon.questions.question import NoJournalsError, Question
from daemon.search.index import Index, is_damage, key_of
from daemon.search.selection import Location, Selection
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
    line: bytes  # the journal's bytes, without the line's end
    members: Mapping[str, Any]  # what they say, as JSON values
    marks: tuple[str, ...] = ()  # doubts about it, mostly none
    pictures: Mapping[str, Path] = field(default_factory=dict)  # files that are there, by side

    @cached_property
    def record(self) -> Record:
        """As the journal has it; whoever needs some members only does not wait for its model to load."""
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
        """Catch up with the journals; an index that proves to be damaged is built anew."""
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
            limit = 1 if order in ("first", "last") else default_limit or 0
        newest = order != "first"
        records = self.selection.records(question, limit and skip + limit + 1, newest=newest)
        if order == "first and last":
            records = [*records[:1], *records[1:][-1:]]
        records = records[: max(0, len(records) - skip)] if newest else records[skip:]
        more = 0 < limit < len(records)
        if more:
            records = records[-limit:] if newest else records[:limit]
        return Answer(self.read(records), len(records), more)

    def by_id(self, identity: str) -> SearchResult | None:
        """The newest record with an id."""
        results = self.read(self.selection.keyed(key_of(identity)))
        return next((each for each in reversed(list(results)) if each.record.id == identity), None)

    def visits_of(self, results: Sequence[SearchResult]) -> list[list[SearchResult]]:
        """Each result with the other records of its visit, by time, where it is of one; each visit once.

        Of those that limits held back only results are among them.
        """
        asked = {each.record.id for each in results}
        visits: dict[tuple[str, str], list[SearchResult]] = {}
        for each in results:
            record = each.record
            track = record.track
            key = (record.camera, track or record.id)
            if key not in visits:
                locations = self.selection.of_track(record.camera, track)[-_STAGES:] if track else []
                visits[key] = [
                    found
                    for found in self.read(locations)
                    if found.record.track == track and (not found.record.held or found.record.id in asked)
                ] or [each]
        return list(visits.values())

    def others_of(self, result: SearchResult) -> list[tuple[str, SearchResult]]:
        """How other tracks have to do with a record, in words, and the latest record of each."""
        found = []
        for sentence in result.members["sentences"]:
            other, camera = sentence.get("other"), result.members["camera"]
            locations = self.selection.of_track(camera, other) if other else []
            words = _(OTHERS.get(sentence.get("action", ""), N_("with")))
            found += [(words, other) for other in self.read(locations[-1:])]
        return found

    def read(self, locations: Iterable[Location]) -> Iterator[SearchResult]:
        """The records at locations, in their order; `missing` counts those whose line is gone or another."""
        for location in locations:
            if result := self._read(location):
                yield result
            else:
                self.missing += 1

    def _read(self, location: Location) -> SearchResult | None:
        name, chain, first = location.file, location.chain, location.first
        for renamed in dict.fromkeys((name, f"{chain}.{first:012d}.jsonl", f"{chain}.jsonl")):
            with (
                suppress(OSError, ValueError, KeyError, TypeError),
                (self.folder / renamed).open("rb") as file,
            ):
                file.seek(location.offset)
                line = file.read(location.length).rstrip(b"\n")
                members = json.loads(line)
                if bytes.fromhex(members["hash"])[:8] == location.digest:
                    named = members.get("evidence", {})
                    paths = {side: self._evidence.find(reference) for side, reference in named.items()}
                    pictures = {side: path for side, path in paths.items() if path}
                    result = SearchResult(line, members, (), pictures)
                    if hash_holds(line):  # else it may be no record any more
                        return result
                    return replace(result, marks=(_(_ALTERED),)) if result.record else None
        return None
