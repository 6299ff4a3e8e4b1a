"""Which sentences of the index are asked for, and how many: columns of numbers against filters."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from daemon.questions.errors import SearchError
from daemon.questions.local_time import DAY_S, QUARTER_S, LocalTime, microseconds
from daemon.questions.question import Filters
from daemon.questions.words import CAME, LEFT, colour_of, kind_of, objects_of
from daemon.search.columns import FIRST, SURE, Sentences

Mask = NDArray[np.bool_]
Rows = NDArray[np.int64] | slice
"""Numbers of sentences in their order; a slice is all of them."""

_PLACE = re.compile(
    r"(?:(?:in|on|at|by|near|to|from|of|into|towards?|behind|beside|before|under|outside|inside|around) )?"
    r"(?:the |an? )?(?P<name>.+)",
    re.IGNORECASE,
)
_FEW = 4
"""Blocks that are looked through first."""
_PREPOSITIONS = (
    "above|across|along|alongside|among|around|at|before|behind|below|beneath|beside|between|beyond|by|close|down|"
    "from|in|inside|into|near|next|of|on|opposite|outside|over|past|round|through|to|toward|towards|under|"
    "underneath|up|within"
)
_ADVERBS = {"downstairs", "upstairs", "indoors", "outdoors", "inside", "outside"}
"""Zones that need no word before them."""
_QUARTER_US = QUARTER_S * 1_000_000
_TOKEN = re.compile(r'"([^"]*)"(\*?)|(\S+)')
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True, eq=False)
class Loaded:
    """Sentences of the index in memory.

    Attributes:
        sentences: block by block, each camera's in the order of its journal.
        record: number of the record that each belongs to, from 0 on, int32 ``(n,)``.
        quarter: the quarter of an hour since 1970 of each, int32 ``(n,)``: local hours and days depend on it.
        times: of each record, int64 ``(records,)``.
        starts: the first sentence of each record, int64 ``(records,)``.
        blocks: numbers of the blocks.
        firsts: number of each block's first record.
    """

    sentences: Sentences
    record: NDArray[np.int32]
    quarter: NDArray[np.int32]
    times: NDArray[np.int64]
    starts: NDArray[np.int64]
    blocks: tuple[int, ...]
    firsts: NDArray[np.int64]


class _Block(NamedTuple):
    id: int
    file: int
    until: int
    time_from: int
    time_to: int
    records: int


class Selection:
    """Looks through an index; what was loaded is kept until the index changes.

    Args (and attributes):
        connection: of the index.
        local: in whose time zone days and hours are meant.
    """

    def __init__(self, connection: sqlite3.Connection, local: LocalTime) -> None:
        self.local = local
        self.connection = connection
        self._kept: tuple[tuple[int, int], Loaded] | None = None

    def load(self, filters: Filters, fresh: Mapping[int, int] | None = None) -> Loaded:
        """The sentences among which those that are asked for must be.

        Args:
            filters: those of time spare reading the rest.
            fresh: only these files from these bytes on; None is everything.
        """
        if fresh is None and (kept := self._known()):
            return kept
        every = self._blocks()
        wanted = [
            block
            for block in _timely(every, filters)
            if fresh is None or fresh.get(block.file, block.until) < block.until
        ]
        return self._loaded(wanted, whole=len(wanted) == len(every))

    def load_enough(self, filters: Filters, limit: int, *, newest: bool) -> Loaded:
        """As `load`, but no more than it takes to know the newest, or oldest, so many records."""
        if kept := self._known():
            return kept
        every = self._blocks()
        wanted = _timely(every, filters)
        outer = sorted(wanted, key=(lambda b: -b.time_to) if newest else (lambda b: b.time_from))
        taken = _FEW
        while taken < len(outer):
            chosen, rest = {block.id for block in outer[:taken]}, outer[taken]
            loaded = self._loaded([block for block in wanted if block.id in chosen], whole=False)
            times = loaded.times[self.records(loaded, self.matching(loaded, filters))]
            if np.count_nonzero(times > rest.time_to if newest else times < rest.time_from) >= limit:
                return loaded
            taken *= 4
        return self._loaded(wanted, whole=len(wanted) == len(every))

    def _known(self) -> Loaded | None:
        """All of it, where that was loaded and nothing has changed."""
        return self._kept[1] if self._kept and self._kept[0] == self._state() else None

    def _state(self) -> tuple[int, int]:
        return self.connection.execute("PRAGMA data_version").fetchone()[0], self.connection.total_changes

    def _blocks(self) -> list[_Block]:
        rows = self.connection.execute(
            "SELECT blocks.id, file, until, time_from, time_to, records FROM blocks "
            "JOIN files ON files.id = file ORDER BY chain, first, blocks.id"
        )
        return [_Block(*row) for row in rows]

    def _loaded(self, wanted: Sequence[_Block], *, whole: bool) -> Loaded:
        parts = []
        for block in wanted:
            sql = "SELECT columns, sentences FROM blocks WHERE id = ?"
            parts.append(Sentences.unpack(*self.connection.execute(sql, (block.id,)).fetchone()))
        sentences = Sentences.joined(parts)
        first = sentences.flags & FIRST
        starts = np.flatnonzero(first)
        loaded = Loaded(
            sentences,
            np.cumsum(first, dtype=np.int32) - np.int32(1),
            (sentences.time // _QUARTER_US).astype(np.int32),
            sentences.time[starts],
            starts,
            tuple(block.id for block in wanted),
            np.cumsum([0, *(block.records for block in wanted)])[:-1],
        )
        if whole:
            self._kept = self._state(), loaded
        return loaded

    def matching(self, loaded: Loaded, filters: Filters, *, strict: bool = True) -> Rows:
        """Which sentences have everything that is asked for.

        Args:
            loaded: the sentences.
            filters: what is asked for.
            strict: False takes cameras that no journal knows: they may come.

        Raises:
            SearchError: a camera, object, kind or colour is not known.
        """
        sentences = loaded.sentences
        masks = list[Mask]()
        if filters.cameras:
            masks.append(np.isin(sentences.camera, self._cameras(filters.cameras, strict=strict)))
        phrases = self._phrases(filters)
        if phrases is not None:
            masks.append(phrases[sentences.phrase])
        if filters.confidence is not None:
            masks.append(sentences.confidence >= round(filters.confidence * SURE))
        if filters.since:
            masks.append(sentences.time >= microseconds(filters.since))
        if filters.until:
            masks.append(sentences.time < microseconds(filters.until))
        if filters.between:
            masks.append(self._between(loaded, *filters.between))
        return np.flatnonzero(np.logical_and.reduce(masks)) if masks else slice(None)

    def records(
        self, loaded: Loaded, rows: Rows, limit: int = 0, *, newest: bool = True
    ) -> NDArray[np.int64]:
        """The records of some sentences in the order of their times; equal ones as their journal has them.

        Args:
            loaded: the sentences.
            rows: which of them.
            limit: only the newest so many; 0 is all.
            newest: False takes the oldest.
        """
        if isinstance(rows, slice):
            records, times = np.arange(len(loaded.times)), loaded.times
        else:
            told = loaded.record[rows]
            records = told[np.diff(told, prepend=-1) != 0].astype(np.int64)
            times = loaded.times[records]
        if 0 < limit < len(records):  # not all need sorting
            place = len(times) - limit if newest else limit - 1
            border = np.partition(times, place)[place]
            kept = np.flatnonzero(times >= border if newest else times <= border)
            records, times = records[kept], times[kept]
        records = records[np.argsort(times, kind="stable")]
        return (records[-limit:] if newest else records[:limit]) if limit else records

    def _between(self, loaded: Loaded, begin: int, end: int) -> Mask:
        """Which are of the hours between two minutes of the local day."""

        def within(seconds: NDArray[np.int64]) -> Mask:
            of_day = seconds % DAY_S
            late, early = of_day >= 60 * begin, of_day < 60 * end
            return late & early if begin < end else late | early

        if (60 * begin) % QUARTER_S == (60 * end) % QUARTER_S == 0:
            return self.local.by_quarter(loaded.quarter, within)
        inside = loaded.sentences.time // 1_000_000 % QUARTER_S
        return within(self.local.by_quarter(loaded.quarter, lambda s: s) + inside)

    def cameras(self) -> list[str]:
        """The cameras of the journals, also those that were removed long ago."""
        return [name for (name,) in self.connection.execute("SELECT name FROM cameras ORDER BY name")]

    def objects(self) -> set[str]:
        """The objects that the journals name."""
        return {name for (name,) in self.connection.execute("SELECT DISTINCT object FROM phrases") if name}

    def tells_of(self, place: str) -> bool:
        """Whether any sentence names a place."""
        words = _either((place,))
        sql = "SELECT 1 FROM words WHERE words MATCH ? LIMIT 1"
        return self.connection.execute(sql, (words,)).fetchone() is not None

    def _cameras(self, names: Sequence[str], *, strict: bool) -> list[int]:
        known = dict(self.connection.execute("SELECT name, id FROM cameras").fetchall())
        for name in names:
            if strict and name not in known:
                there = ", ".join(sorted(known)) or "none yet"
                raise SearchError(f"no camera of the journals is called {name!r}; there are: {there}")
        return [known[name] for name in names if name in known]

    def _phrases(self, filters: Filters) -> Mask | None:
        """By number of the phrase whether it is asked for; None where any is."""
        where, values = list[str](), list[object]()
        _within(where, values, "colour", [colour_of(word) for word in filters.colours])
        kinds = [kind_of(word) for word in filters.kinds]
        _within(where, values, "kind", _recorded(kinds, placed=bool(filters.zones)))
        if filters.objects:
            known, either = self.objects(), list[str]()
            for word in filters.objects:
                names, spoken = objects_of(word, known)
                either.append(
                    f"(object IN ({_marks(names)})" + (" AND (object = ? OR text LIKE ?))" if spoken else ")")
                )
                values += [*names, *([spoken, f"%{spoken}%"] if spoken else [])]
            where.append(f"({' OR '.join(either)})")
        if words := " AND ".join(filter(None, [_match(filters.text), _either(filters.zones)])):
            where.append("id IN (SELECT rowid FROM words WHERE words MATCH ?)")
            values.append(words)
        if not where:
            return None
        sql = f"SELECT id, kind, text FROM phrases WHERE {' AND '.join(where)}"  # noqa: S608 - our own words
        rows = self.connection.execute(sql, values)
        if filters.zones:
            places = [_RecordPlace(zone) for zone in filters.zones]
            found = [number for number, kind, text in rows if any(p.holds(text, kind, kinds) for p in places)]
        else:
            found = [row[0] for row in rows]
        most = self.connection.execute("SELECT max(id) FROM phrases").fetchone()[0] or 0
        mask = np.zeros(most + 1, bool)
        mask[found] = True
        return mask


def _timely(blocks: Sequence[_Block], filters: Filters) -> list[_Block]:
    """Those that may hold something of the time that is asked for."""
    since = microseconds(filters.since) if filters.since else None
    until = microseconds(filters.until) if filters.until else None
    return [
        block
        for block in blocks
        if (since is None or block.time_to >= since) and (until is None or block.time_from < until)
    ]


class _RecordPlace:
    """A zone as sentences name it."""

    def __init__(self, words: str) -> None:
        named = _PLACE.fullmatch(words.strip())
        name = re.escape(" ".join((named["name"] if named else words).lower().split()))
        before = (
            "" if name in _ADVERBS else rf"(?:{_PREPOSITIONS}) (?:the |an? )?(?:(?!ha[sv]|is |are )[\w'-]+ )?"
        )
        self._named = re.compile(rf"(?<![\w-]){before}{name}(?![\w-])")
        self._end = re.compile(
            rf"\b(?:now|to|into|towards?|stopped|parked)(?: [a-z]+){{0,2}}? {name}(?![\w-])"
        )

    def holds(self, text: str, kind: str, kinds: Sequence[str]) -> bool:
        """Whether a sentence is about the place; of what moved, whether it came there, or went from there."""
        text = text.lower()
        if self._named.search(text) is None:
            return False
        if kind != "moved" or kind in kinds or not {CAME, LEFT} & set(kinds):
            return True
        ends = self._end.search(text) is not None
        return (ends and CAME in kinds) or (not ends and LEFT in kinds)


def _recorded(kinds: Sequence[str], *, placed: bool) -> list[str]:
    """Kinds as records have them."""
    meant = {CAME: ["appeared"], LEFT: ["disappeared"]}
    found = [each for kind in kinds for each in meant.get(kind, [kind])]
    return [*found, "moved"] if placed and {CAME, LEFT} & set(kinds) else found


def _within(where: list[str], values: list[object], column: str, names: Sequence[str]) -> None:
    if names:
        where.append(f"{column} IN ({_marks(names)})")
        values.extend(names)


def _marks(names: Sequence[str]) -> str:
    return ", ".join("?" * len(names))


def _match(text: str) -> str:
    """Words for FTS5; nothing in them is its syntax but quotes and a star."""
    found = []
    for quoted, _, word in _TOKEN.findall(text):
        star = "*" if word.endswith("*") else ""
        tokens = _WORD.findall(quoted or word)
        if tokens:
            found.append(f'"{" ".join(tokens)}"{star}')
    if text.strip() and not found:
        raise SearchError(f"--text {text!r} contains no word")
    return f"({' '.join(found)})" if found else ""


def _either(zones: Sequence[str]) -> str:
    if not zones:
        return ""
    names = [(_PLACE.fullmatch(zone.strip()) or re.fullmatch("(?P<name>.*)", zone)) for zone in zones]
    words = [" ".join(_WORD.findall(named["name"])) for named in names if named]
    if not all(words):
        raise SearchError("--zone needs the words of a place, such as entrance")
    return "(" + " OR ".join(f'"{each}"' for each in words) + ")"
