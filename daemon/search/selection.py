"""Questions as SQL: which sentences are asked for, how many visits they are of, and how long these were."""

from __future__ import annotations

import re
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from daemon.questions.local_time import DAY_NAMES, DAY_S, LocalTime, microseconds, moment_of
from daemon.questions.places import RecordPlace, place_name
from daemon.questions.question import TIME_GROUPINGS, Filters, Question, SearchError, Span
from daemon.questions.words import (
    ARRIVALS,
    CAME,
    DEPARTURES,
    LEFT,
    colour_of,
    kind_of,
    objects_of,
    open_classes_of,
)

_NAMED = re.compile(
    r"\b(?:at|in|near|to|into|by|behind|outside) the ((?!left|right|middle|back|fore)[a-z]+)\b"
)
_CROSSED = re.compile(r"\bcrossed (?:the )?([a-z][\w' -]*)\.")
_TOKEN = re.compile(r'"([^"]*)"(\*?)|(\S+)')
_WORD = re.compile(r"\w+")
_SECOND = 1_000_000
_LOCATION = "records.id, file, offset, length, digest, time"
_TEXT = "(SELECT text FROM texts WHERE id = s.text)"
_WATCHED_S = DAY_S
"""So long after a camera's last record an open visit is still believed to be there."""
_SEEN_LATELY_S = 60.0
"""A running camera notes every 20 s that it was watched."""
_END = (
    "coalesce(v.end, min(:now, "
    "coalesce((SELECT min(g.begin) FROM gaps g WHERE g.camera = v.camera AND g.begin >= v.last "
    "AND g.reason IN ('camera_down', 'outage')), :now), "
    f"(SELECT max(r.time) FROM records r WHERE r.camera = v.camera) + {_WATCHED_S * _SECOND}))"
)
"""When a visit ended, or until when it is known not to have; the camera may have looked away since."""


class Location(NamedTuple):
    """Where a record's line is in the journals; `time` in microseconds since 1970."""

    id: int
    file: int
    offset: int
    length: int
    digest: bytes
    time: int


class Visit(NamedTuple):
    """A stay of somebody or something before a camera.

    Attributes:
        record: number of the first of its records that match.
        end: None where it has not ended, as far as the camera was watched.
        seconds: how long it was, or is so far.
        there: not ended, and the camera is watched.
    """

    record: int
    camera: str
    track: str
    object: str
    begin: datetime
    end: datetime | None
    seconds: float
    there: bool


class Gap(NamedTuple):
    """A span in which a camera recorded nothing, why, and the number of the record that says so."""

    camera: str
    begin: datetime
    end: datetime
    reason: str
    record: int


class Unsure(NamedTuple):
    """Visits recorded as an open class, such as "vehicle", which may be of the `classes` asked for."""

    open_class: str
    classes: str
    visits: int
    first: datetime
    last: datetime


class Group(NamedTuple):
    """One line of a count: a label for each grouping, visits, and the narrations of them."""

    labels: tuple[str, ...]
    visits: int
    narrations: int


class Selection:
    """Looks through an index.

    Every method raises `SearchError` where a camera, object, kind or colour is not known, or no record names
    a track and visits are asked for.

    Args (and attributes):
        connection: of the index.
        local: in whose time zone days and hours are meant.
        last_seen: gives when cameras were last watched, as far as that is known.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        local: LocalTime,
        last_seen: Callable[[], Mapping[str, datetime]] = dict,
    ) -> None:
        self.connection, self.local, self.last_seen = connection, local, last_seen

    def records(
        self,
        question: Question,
        limit: int = 0,
        *,
        newest: bool = True,
        beyond: tuple[int, int] | None = None,
    ) -> list[Location]:
        """The records that match, by time; those of one moment as they were read.

        Args:
            question: its measure does not count, but for whether it is of visits.
            limit: only the newest so many; 0 is all.
            newest: False takes the oldest.
            beyond: time and number of a record: only those before it, or after it for the oldest.
        """
        if question.of_visits:
            locations = self.numbered(visit.record for visit in self.visits(question))
            return (locations[-limit:] if newest else locations[:limit]) if limit else locations
        where, values = self._where(question)
        if beyond:
            where += f" AND (s.time, s.record) {'<' if newest else '>'} (:time, :record)"
            values |= {"time": beyond[0], "record": beyond[1]}
        order = "DESC" if newest and limit else ""
        sql = (
            f"SELECT {_LOCATION} FROM records JOIN (SELECT DISTINCT s.record, s.time AS at "
            f"FROM sentences s WHERE {where} ORDER BY s.time {order}, s.record {order} "
            f"LIMIT {limit or -1}) s ON s.record = records.id ORDER BY s.at, s.record"
        )
        return [Location(*row) for row in self.connection.execute(sql, values)]

    def numbered(self, numbers: Iterable[int]) -> list[Location]:
        """The records of some numbers, by time."""
        sql = (
            f"SELECT {_LOCATION} FROM records WHERE id IN ({', '.join(map(str, numbers))}) ORDER BY time, id"
        )
        return [Location(*row) for row in self.connection.execute(sql)]

    def keyed(self, key: bytes) -> list[Location]:
        """The records with a key, see `daemon.search.intake.key_of`, by time."""
        sql = f"SELECT {_LOCATION} FROM records WHERE key = ? ORDER BY time, id"
        return [Location(*row) for row in self.connection.execute(sql, (key,))]

    def of_track(self, camera: str, track: str) -> list[Location]:
        """The records of a track, by time."""
        sql = (
            "SELECT DISTINCT record FROM sentences WHERE visit = "
            "(SELECT id FROM visits WHERE camera = ? AND track = ?)"
        )
        return self.numbered(number for (number,) in self.connection.execute(sql, (camera, track)))

    def after(self, record: int, question: Question) -> list[Location]:
        """The records read after that of a number, as they were read; of cameras that are new, too."""
        where, values = self._where(question, strict=False)
        sql = (
            f"SELECT {_LOCATION} FROM records WHERE id > :after AND EXISTS "
            f"(SELECT 1 FROM sentences s WHERE s.record = records.id AND {where}) ORDER BY id"
        )
        return [Location(*row) for row in self.connection.execute(sql, values | {"after": record})]

    def visits(self, question: Question) -> list[Visit]:
        """The visits that match, by their begin; the longest first where these are asked for."""
        if self.connection.execute("SELECT 1 FROM visits LIMIT 1").fetchone() is None:
            raise SearchError(
                "these records name no tracks: it is not known who is still there or how long a visit was; "
                "ask when somebody came or left"
            )
        where, values = self._where(question)
        end = self.end_of_visit(question)
        sql = (
            f"SELECT s.record, v.camera, v.track, v.object, v.begin, v.end, {end} FROM visits v "
            "JOIN (SELECT visit, min(record) AS record FROM sentences s "
            f"WHERE {where} AND visit IS NOT NULL GROUP BY visit) s ON s.visit = v.id ORDER BY v.begin, v.id"
        )
        visits = [
            Visit(
                record,
                camera,
                track,
                name,
                moment_of(begin),
                end and moment_of(end),
                (until - begin) / _SECOND,
                end is None and until == values["now"],
            )
            for record, camera, track, name, begin, end, until in self.connection.execute(sql, values)
        ]
        order, limit = question.measure.order, question.measure.limit or 1
        if order == "longest":
            return sorted(visits, key=lambda visit: -visit.seconds)[:limit]
        if order == "first":
            return visits[:limit]
        return visits[-limit:] if order == "last" else visits

    def stays(self, filters: Filters, span: Span) -> dict[str, list[tuple[int, int]]]:
        """When visits that match were there, or at a place: begin and end in microseconds, by camera.

        At a place a visit is from a sentence that names it until the visit's next one, in which it may be
        somewhere else; what has stood there for more than a day before the span is not known.
        """
        since, until = span.since, span.until
        if filters.zones and since:
            since -= timedelta(seconds=DAY_S)
        question = Question(filters, Span(since, until), presence=not filters.zones)
        where, values = self._where(question)
        end, chosen = self.end_of_visit(question), "v.begin < :until AND coalesce(v.end, :until) > :since"
        if replace(filters, cameras=(), held=True) != Filters() or not (since and until):
            chosen = f"v.id IN (SELECT s.visit FROM sentences s WHERE {where})"
        elif filters.cameras:
            chosen += f" AND v.camera IN {sql_list(filters.cameras)}"
        sql = f"SELECT v.camera, v.begin, {end} FROM visits v WHERE {chosen}"
        if filters.zones:
            sql = (
                "SELECT v.camera, s.time, coalesce((SELECT min(n.time) FROM sentences n "
                f"WHERE n.visit = s.visit AND n.time > s.time), {end}) FROM sentences s "
                f"JOIN visits v ON v.id = s.visit WHERE {where} AND s.kind NOT IN {sql_list(DEPARTURES)}"
            )
        stays = defaultdict[str, list[tuple[int, int]]](list)
        for camera, begin, until_us in self.connection.execute(sql, values):
            stays[camera].append((begin, until_us))
        return stays

    def count(self, question: Question) -> list[Group]:
        """Number of visits; a record without tracks counts its arrivals.

        Returns:
            By the question's groupings, times in their order, others the most frequent first; never empty
            where it has none.
        """
        where, values = self._where(question)
        filters, measure, counted = question.filters, question.measure, "s.counted"
        if not filters.kinds:  # each visit once: by its arrival where that has a place in time
            arrivals = f"s.kind IN {sql_list(ARRIVALS)}"
            counted += f" AND {arrivals}" if measure.by_time else f" AND (s.visit IS NOT NULL OR {arrivals})"
        visit = f"CASE WHEN {counted} THEN coalesce(s.visit, -1000 * s.record - s.n) END"
        others = f"CASE WHEN {counted} AND s.visit IS NULL THEN s.count - 1 ELSE 0 END"
        codes = [self._code(grouping, question.span) for grouping in measure.by]
        sql = (
            f"SELECT {', '.join([*codes, f'count(DISTINCT {visit}) + total({others})'])}, "
            f"count(DISTINCT s.record) FROM sentences s WHERE {where}"
            + (f" GROUP BY {', '.join(map(str, range(1, len(codes) + 1)))}" if codes else "")
        )
        groups = [
            (codes, Group(tuple(map(_label, measure.by, codes)), int(visits), narrations))
            for *codes, visits, narrations in self.connection.execute(sql, values)
            if visits or not (measure.by and filters.objects)
        ]
        if measure.by and measure.by[0] in TIME_GROUPINGS and not measure.most:
            groups.sort(
                key=lambda each: [(code if isinstance(code, int) else 0, str(code)) for code in each[0]]
            )
        else:
            groups.sort(key=lambda each: (-each[1].visits, each[1].labels))
        most = groups[0][1].visits if groups else 0
        return [group for _, group in groups if not measure.most or group.visits == most]

    def gaps(self, question: Question) -> list[Gap]:
        """The spans that were not recorded of what is asked for, by time; what masks hide last."""
        span, cameras = question.span, question.filters.cameras
        now = question.asked_at or datetime.now(UTC)
        since = now - timedelta(seconds=_WATCHED_S) if question.filters.open else span.since
        sql = (
            "SELECT camera, begin, min(end, :now) AS end, reason, record FROM gaps "
            "WHERE begin < :until AND end > :since AND begin < end ORDER BY reason = 'mask', begin"
        )
        values = {
            "now": microseconds(now),
            "until": microseconds(span.until or now),
            "since": microseconds(since) if since else -1,
        }
        gaps = dict[object, Gap]()  # masks by their ends: each is recorded again every day
        for n, (camera, begin, end, reason, record) in enumerate(self.connection.execute(sql, values)):
            gap = Gap(camera, moment_of(begin), moment_of(end), reason, record)
            outside = span.between and not self._touches(gap, *span.between)
            if outside or (cameras and camera not in cameras):
                continue
            earlier = gaps.pop((camera, gap.begin), gap) if reason == "mask" else gap
            gaps[(camera, gap.end) if reason == "mask" else n] = gap._replace(begin=earlier.begin)
        return list(gaps.values())

    def unwatched(self, question: Question) -> dict[str, datetime]:
        """The cameras of which it is not known what is there now, and when they were last watched."""
        now, seen = question.asked_at or datetime.now(UTC), self.last_seen()
        sql = "SELECT max(time) FROM records WHERE camera = ?"
        unwatched = {}
        for camera in self.cameras():
            (newest,) = self.connection.execute(sql, (camera,)).fetchone()
            last = max(moment_of(newest), seen.get(camera, moment_of(newest)))
            trusted_s = _SEEN_LATELY_S if camera in seen else _WATCHED_S
            asked = not question.filters.cameras or camera in question.filters.cameras
            if asked and (now - last).total_seconds() > trusted_s:
                unwatched[camera] = last
        return unwatched

    def unsure(self, question: Question) -> list[Unsure]:
        """The visits whose class was not sure, which may be of what is asked for."""
        found = []
        for name, classes in open_classes_of(question.filters.objects).items():
            where, values = self._where(question, objects=_of_object((name,), ""))
            sql = (
                "SELECT count(DISTINCT coalesce(s.visit, -1000 * s.record - s.n)), min(s.time), max(s.time) "
                f"FROM sentences s WHERE {where}"
            )
            visits, first, last = self.connection.execute(sql, values).fetchone()
            if visits:
                found.append(Unsure(name, classes, visits, moment_of(first), moment_of(last)))
        return found

    def cameras(self) -> list[str]:
        """The cameras of the journals, also those that were removed long ago."""
        return self._distinct("records", "camera")

    def objects(self) -> set[str]:
        """The objects that the journals name."""
        return {*self._distinct("sentences", "object")} - {""}

    def _distinct(self, table: str, column: str) -> list[str]:
        """The values of an indexed column: from one to the next, in place of reading a million rows."""
        sql = (
            f"WITH RECURSIVE names(name) AS (SELECT min({column}) FROM {table} UNION ALL "
            f"SELECT (SELECT min({column}) FROM {table} WHERE {column} > name) FROM names "
            "WHERE name IS NOT NULL) SELECT name FROM names WHERE name IS NOT NULL"
        )
        return [name for (name,) in self.connection.execute(sql)]

    def names_place(self, place: str) -> bool:
        """True where a sentence names a place."""
        sql = "SELECT text FROM texts WHERE id IN (SELECT rowid FROM words WHERE words MATCH ? LIMIT 1000)"
        named = RecordPlace(place)
        rows = self.connection.execute(sql, (any_place((place,)),))
        return any(named.holds(text, "", ()) for (text,) in rows)

    def places(self) -> list[str]:
        """The places that recent sentences name, the most frequent first; some fifty at most."""
        sql = "SELECT text FROM texts ORDER BY id DESC LIMIT 2000"
        names = Counter(name for (text,) in self.connection.execute(sql) for name in _NAMED.findall(text))
        return [name for name, _ in names.most_common(50)]

    def crossings(self) -> list[str]:
        """The lines that recent sentences name as crossed, with the direction."""
        sql = "SELECT text FROM texts WHERE id IN (SELECT rowid FROM words WHERE words MATCH 'crossed')"
        rows = self.connection.execute(f"{sql} ORDER BY id DESC LIMIT 1000")
        return list(dict.fromkeys(found for (text,) in rows for found in _CROSSED.findall(text)))

    def _where(
        self, question: Question, *, strict: bool = True, objects: str = ""
    ) -> tuple[str, dict[str, object]]:
        """The condition on a sentence ``s``, and the values in it.

        Args:
            question: what is asked.
            strict: refuse unknown cameras.
            objects: a condition in place of the question's objects.
        """
        filters, measure = question.filters, question.measure
        values: dict[str, object] = {"now": microseconds(question.asked_at or datetime.now(UTC))}
        where = [*self._about(filters, values, objects), self._in_span(question, values)]
        known = self.cameras()
        for name in filters.cameras if strict else ():
            if name not in known:
                there = ", ".join(known) or "none yet"
                raise SearchError(f"no camera of the journals is called {name!r}; there are: {there}")
        if filters.cameras:
            where.append(f"s.camera IN {sql_list(filters.cameras)}")
        if not filters.held:
            where.append("NOT (SELECT held FROM records WHERE id = s.record)")
        one = measure.order in ("first", "last")
        if one or (question.asked_at and (filters.objects or {*filters.kinds} - {"gap"})):
            where.append("s.counted")
        if question.presence and one:
            where.append(f"s.kind IN {sql_list(ARRIVALS)}")
        if filters.open:
            unwatched = self.unwatched(question)
            self._check_watched(unwatched, filters.cameras or known)
            there = f"v.end IS NULL AND v.begin <= :now AND {_END} >= :now"
            there += f" AND v.camera NOT IN {sql_list([*unwatched])}"
            where.append(f"s.visit IN (SELECT v.id FROM visits v WHERE {there})")
        for sign, bound in ((">", filters.longer_s), ("<", filters.shorter_s)):
            if bound is not None:
                length = (
                    f"(SELECT {self.end_of_visit(question)} - v.begin FROM visits v WHERE v.id = s.visit)"
                )
                where.append(f"{length} {sign} {bound * _SECOND:.0f}")
        return " AND ".join(where), values

    def end_of_visit(self, question: Question) -> str:
        """SQL for when a visit ``v`` ended, or until when it is known not to have.

        That is not after its camera was last watched.
        """
        cases = "".join(
            f" WHEN '{camera}' THEN min({_END}, coalesce(v.end, {microseconds(last)}))"
            for camera, last in self.unwatched(question).items()
        )
        return f"CASE v.camera{cases} ELSE {_END} END" if cases else _END

    def _check_watched(self, unwatched: Mapping[str, datetime], cameras: Sequence[str]) -> None:
        """Refuse to say who is there now where no camera that is asked about is watched."""
        if cameras and {*cameras} <= {*unwatched}:
            last = self.local.of(max(unwatched.values()))
            raise SearchError(
                f"what is there now is not known since {last:%a %Y-%m-%d %H:%M:%S}, when a camera was last "
                f"watched; ask what was there then, or see why narrated does not run"
            )

    def _about(self, filters: Filters, values: dict[str, object], of: str) -> list[str]:
        """Conditions on what a sentence says."""
        where, kinds = list[str](), [kind_of(word) for word in filters.kinds]
        if of:
            where.append(of)
        elif filters.objects:
            known = self.objects()
            objects = [_of_object(*objects_of(word, known)) for word in filters.objects]
            where.append(f"({' OR '.join(objects)})")
        if kinds:
            where.append(_of_kinds(kinds, placed=bool(filters.zones)))
        if filters.colours:
            where.append(f"s.colour IN {sql_list([colour_of(word) for word in filters.colours])}")
        if filters.confidence is not None:
            where.append("s.confidence >= :confidence")
            values["confidence"] = filters.confidence
        if words := " AND ".join(filter(None, [_all_words(filters.text), any_place(filters.zones)])):
            where.append("s.text IN (SELECT rowid FROM words WHERE words MATCH :words)")
            values["words"] = words
        if filters.zones:
            places = [RecordPlace(zone) for zone in filters.zones]
            self.connection.create_function(
                "at_place", 2, lambda text, kind: any(place.holds(text, kind, kinds) for place in places)
            )
            where.append(f"at_place({_TEXT}, s.kind)")
        return where

    def _in_span(self, question: Question, values: dict[str, object]) -> str:
        """Sentences of the span, and for presence the arrivals of those who were there already."""
        span, within = question.span, ["1"]
        for sign, name, moment in ((">=", "since", span.since), ("<", "until", span.until)):
            if moment:
                within.append(f"s.time {sign} :{name}")
                values[name] = microseconds(moment)
        if span.between:
            begin, end = (60 * minute for minute in span.between)
            of_day = f"({self._local_s(span)}) % {DAY_S}"
            both = "AND" if begin < end else "OR"
            within.append(f"({of_day} >= {begin} {both} {of_day} < {end})")
        inside = " AND ".join(within)
        if not (span.since and question.presence) or span.between:
            return f"({inside})"
        there = (
            "SELECT v.id FROM visits v WHERE v.begin < :since AND ((v.end > :since) OR "
            f"(v.end IS NULL AND {_END} > :since))"
        )
        return f"(({inside}) OR (s.kind IN {sql_list(ARRIVALS)} AND s.visit IN ({there})))"

    def _touches(self, gap: Gap, begin: int, end: int) -> bool:
        """True where a gap touches these minutes of a day."""
        minutes = min(int((gap.end - gap.begin).total_seconds() / 60) + 1, DAY_S // 60)
        shown = (self.local.of(gap.begin + timedelta(minutes=n)) for n in range(minutes))
        clocks = [each.hour * 60 + each.minute for each in shown]
        return any(begin <= c < end if begin < end else c >= begin or c < end for c in clocks)

    def _local_s(self, span: Span) -> str:
        """SQL for what local clocks showed at a sentence, in seconds since their 1970."""
        low, high = self.connection.execute("SELECT min(time), max(time) FROM sentences").fetchone()
        low = max(low or 0, microseconds(span.since) if span.since else low or 0)
        high = min(high or 0, microseconds(span.until) if span.until else high or 0)
        offsets = self.local.offsets(low // _SECOND, max(low, high) // _SECOND + 1)
        cases = "".join(
            f"WHEN s.time >= {begin * _SECOND} THEN {offset} " for begin, offset in reversed(offsets[1:])
        )
        offset = f"CASE {cases}ELSE {offsets[0][1]} END" if cases else str(offsets[0][1])
        return f"s.time / {_SECOND} + {offset}"

    def _code(self, grouping: str, span: Span) -> str:
        """SQL for the number, or name, of a sentence's group."""
        if grouping not in TIME_GROUPINGS:
            return f"s.{grouping}"
        seconds = f"({self._local_s(span)})"
        return {
            "minute": f"{seconds} / 60",
            "hour": f"{seconds} / 3600",
            "day": f"{seconds} / {DAY_S}",
            "week": f"({seconds} / {DAY_S} + 3) / 7",  # 1970 began on a Thursday
            "month": f"strftime('%Y-%m', {seconds}, 'unixepoch')",
            "weekday": f"({seconds} / {DAY_S} + 3) % 7",
            "hour-of-day": f"{seconds} % {DAY_S} / 3600",
        }[grouping]


def _of_object(names: Sequence[str], spoken: str) -> str:
    condition = f"s.object IN {sql_list(names)}"
    return f"({condition} AND (s.object = '{spoken}' OR {_TEXT} LIKE '%{spoken}%'))" if spoken else condition


def _of_kinds(kinds: Sequence[str], *, placed: bool) -> str:
    """The condition for kinds and actions; what people mean by came and left is by type."""
    meant = {CAME: ARRIVALS[:1], LEFT: DEPARTURES[:1]}
    names = [each for kind in kinds for each in meant.get(kind, (kind,))]
    if placed and {CAME, LEFT} & {*kinds}:
        names.append("moved")
    return f"(s.kind IN {sql_list(names)} OR s.action IN {sql_list([k for k in kinds if k != LEFT])})"


def sql_list(names: Sequence[str]) -> str:
    """Names as a list of SQL."""
    return "(" + ", ".join("'" + name.replace("'", "''") + "'" for name in names) + ")"


def _label(grouping: str, code: int | str | None) -> str:
    if not isinstance(code, int):
        return str(code or "-")
    if grouping == "hour-of-day":
        return f"{code:02d}:00"
    if grouping == "weekday":
        return DAY_NAMES[code].capitalize()
    days = {"minute": code / 1440, "hour": code / 24, "day": code, "week": code * 7 - 3}[grouping]
    shape = {"minute": "%Y-%m-%d %H:%M", "hour": "%Y-%m-%d %H:00", "day": "%Y-%m-%d", "week": "%G-W%V"}[
        grouping
    ]
    return f"{datetime(1970, 1, 1, tzinfo=UTC) + timedelta(days=days):{shape}}"


def _all_words(text: str) -> str:
    """A condition of FTS5; nothing in the words is its syntax but quotes and a star."""
    conditions = []
    for quoted, _, word in _TOKEN.findall(text):
        if tokens := _WORD.findall(quoted or word):
            conditions.append(f'"{" ".join(tokens)}"{"*" * word.endswith("*")}')
    if text.strip() and not conditions:
        raise SearchError(f"--text {text!r} contains no word")
    return f"({' '.join(conditions)})" if conditions else ""


def any_place(zones: Sequence[str]) -> str:
    """Likewise for one of these places."""
    words = [" ".join(_WORD.findall(place_name(zone))) for zone in zones]
    if not all(words):
        raise SearchError("--zone needs the words of a place, such as entrance")
    return "(" + " OR ".join(f'"{each}"' for each in words) + ")" if words else ""
