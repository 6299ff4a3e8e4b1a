"""Questions as SQL: which sentences are asked for, how many visits they are of, and how long these were."""

import json
import re
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from daemon.questions.facts import (
    ARRIVALS,
    DEPARTURES,
    OPEN_CLASSES,
    WITHOUT,
    Matcher,
    RecordPlace,
    place_name,
)
from daemon.questions.question import (
    DAY_S,
    LOCAL_ORIGIN,
    MINUTES,
    SPAN,
    TIME_GROUPINGS,
    Filters,
    LocalTime,
    Question,
    SearchError,
    Span,
    microseconds,
    moment_of,
    not_here,
)
from daemon.questions.restatement import span_words
from daemon.questions.words import CAME
from models.families import FIXTURES
from pipeline.report.words import has_date

_NO_RULE = "NOT EXISTS (SELECT 1 FROM sentences WHERE kind = 'rule' AND text = texts.id)"
"""The words of a rule are what somebody asked for, not what was seen."""
_NAMED = re.compile(
    r"\b(?:at|in|near|to|into|by|behind|outside|crossed) the "
    r"((?<=crossed the )[\w' -]+(?=\.)|(?!left|right|middle|back|fore|same)[a-z]+)\b"
)
_TOKEN = re.compile(r'"([^"]*)"(\*?)|(\||[^\s|]+)')
_WORD = re.compile(r"\w+")
_SECOND, _MINUTE, _DAY = 1_000_000, 60_000_000, DAY_S * 1_000_000
_TIMES = {
    "minute": (_MINUTE, "%Y-%m-%d %H:%M"),
    "hour": (60 * _MINUTE, "%Y-%m-%d %H:00"),
    "day": (_DAY, "%Y-%m-%d"),
    "week": (7 * _DAY, "%G-W%V"),
    "weekday": (_DAY, "%A"),
    "hour-of-day": (60 * _MINUTE, "%H:00"),
}
"""Length and label of what is counted by; local times count from a Monday."""
_CYCLES = {"weekday": " % 7", "hour-of-day": " % 24"}
_TEXT = "(SELECT text FROM texts WHERE id = s.text)"
_BELIEVED = timedelta(days=1)  # so long after a camera's last record an open visit may still be there
_MEMORY = "cameras"  # of `pipeline.camera_state`, which loads decoders
_OF_CAMERA = {"gap", "rule"}  # kinds of records that are no visits of their own
_SEEN_LATELY = timedelta(minutes=1)  # a running camera notes every 20 s that it was watched
_EVER = 2**62  # microseconds: behind any time


class Visit(NamedTuple):
    id: int  # in the index
    record: int  # number of the first of its records that match; `colour` is of that
    camera: str
    track: str
    object: str
    colour: str
    begin: datetime
    end: datetime | None  # None where it has not ended, as far as the camera was watched
    until: datetime  # its end, or until when it is known not to have ended
    there: bool  # not ended, and the camera is watched

    @property
    def seconds(self) -> float:
        return (self.until - self.begin).total_seconds()


class Interval(NamedTuple):
    """A time in which at most `number` were there at once before all of these cameras."""

    cameras: tuple[str, ...]
    begin: datetime
    end: datetime
    number: int | None  # None where nothing was recorded

    @property
    def seconds(self) -> float:
        return (self.end - self.begin).total_seconds()


class Gap(NamedTuple):
    """A span in which a camera recorded nothing, why, and the number of the record that says so."""

    camera: str
    begin: datetime
    end: datetime
    reason: str
    record: int


class Watched(NamedTuple):
    first: datetime  # first and newest: times of its records
    newest: datetime
    last: datetime  # the newest, or a later sign of its daemon
    trusted: timedelta  # so long after that sign it is believed to be watched still

    def until(self, now: datetime) -> datetime:
        """When it was last watched, as is believed now."""
        return now if now - self.last <= self.trusted else self.last


class Group(NamedTuple):
    """One line of a count: a label for each grouping, visits, and the narrations of them.

    `visits` is None where no camera was watched; `records` are numbers of narrations.
    """

    labels: tuple[str, ...]
    visits: int | None
    narrations: int
    records: tuple[int, ...] = ()


class Selection:
    """Looks through an index.

    Every method raises `SearchError` where a camera, object, kind or colour is not known, or no record names
    a track and visits are asked for. In the `state` folder are the daemon's memory and users' marks.
    """

    def __init__(self, connection: sqlite3.Connection, local: LocalTime, state: Path) -> None:
        self.connection, self.local, self._state = connection, local, state

    def records(self, question: Question, limit: int = 0, skip: int = 0, *, newest: bool = True) -> list[int]:
        """The numbers of the records that match, by time; the newest (or oldest) `limit` but for `skip`.

        A limit of 0 is all of them. Of the question's measure only counts whether it is of visits.
        """
        if question.of_visits:
            where = f"s.record IN {sql_list(visit.record for visit in self.visits(question))}"
        else:
            where = self._where(question)
        order = "DESC" if newest else ""
        found = self.column(
            f"SELECT DISTINCT s.record, s.time FROM sentences s WHERE {where} "
            f"ORDER BY s.time {order}, s.record {order} LIMIT {limit or -1} OFFSET {skip}"
        )
        return found[::-1] if newest else found

    def records_of(self, each: Visit | Interval) -> list[int]:
        """The records of a visit, or those at the ends of an interval, by time."""
        if isinstance(each, Visit):
            return self.of_track(each.camera, each.track)
        ends = sql_list(map(microseconds, (each.begin, each.end)))
        at_ends = f"sentences WHERE camera IN {sql_list(each.cameras)} AND time IN {ends}"
        return self.column(f"SELECT DISTINCT record, time FROM {at_ends} ORDER BY time, record")

    def of_track(self, camera: str, track: str) -> list[int]:
        return self.column(
            "SELECT DISTINCT s.record, s.time FROM visits v JOIN sentences s ON s.visit = v.id "
            "WHERE v.camera = ? AND v.track = ? ORDER BY s.time, s.record",
            (camera, track),
        )

    def newest(self, camera: str, limit: int, *, pictured: bool = False) -> list[int]:
        """The newest records of a camera, or of those with pictures, newest first."""
        wanted = "camera = ?" + " AND pictured" * pictured
        sql = f"SELECT id FROM records WHERE {wanted} ORDER BY time DESC LIMIT ?"
        return self.column(sql, (camera, limit))

    def column(self, sql: str, values: Sequence[object] = ()) -> list[Any]:
        return [value for value, *_ in self.connection.execute(sql, values)]

    def visits(self, question: Question) -> list[Visit]:
        """The visits that match, by their begin; the longest first where these are asked for."""
        if question.of_visits and self.connection.execute("SELECT 1 FROM visits LIMIT 1").fetchone() is None:
            raise SearchError(
                "these records name no tracks: it is not known who is still there or how long a visit was; "
                "ask when somebody came or left"
            )
        now = now_of(question)
        sql = (
            "SELECT v.id, s.record, v.camera, v.track, v.object, s.colour, v.begin, "
            f"iif(v.lost, NULL, v.end), v.until FROM {self._stays(now)} v "
            "JOIN (SELECT visit, colour, min(record) AS record FROM sentences s WHERE "
            f"{self._where(question)} AND visit IS NOT NULL GROUP BY visit) s ON s.visit = v.id "
            "ORDER BY v.begin, v.id"
        )
        visits = list[Visit]()
        for *about, begin, end, until in self.connection.execute(sql):
            ends = moment_of(begin), end and moment_of(end), moment_of(until)
            visits.append(Visit._make((*about, *ends, end is None and until == microseconds(now))))
        order, limit = question.measure.order, question.measure.limit or 1
        if question.measure.by_length:
            ended = [visit for visit in visits if order == "longest" or visit.end]
            return sorted(ended, key=lambda each: each.seconds, reverse=order == "longest")[:limit]
        return visits[:limit] if order == "first" else visits[-limit:] if order == "last" else visits

    def stays(self, filters: Filters, span: Span, unseen_us: int = 0) -> dict[str, list[tuple[int, int]]]:
        """When visits that match were there, or at a place: begin and end in microseconds, by camera.

        At a place a visit is from a sentence that names it until the visit's next one, in which it may be
        somewhere else. One whose end was not seen lasts so long after it was last known to be there.
        """
        where, (since, until) = self._where(Question(filters, Span(None, span.until))), ends_of(span)
        now = datetime.now(UTC)
        stays = self._stays(min(span.until or now, now))
        cameras = f" AND v.camera IN {sql_list(filters.cameras)}" if filters.cameras else ""
        last = f"v.until + iif(v.end IS NULL, {unseen_us}, 0) AS last"
        sql = (
            f"SELECT v.id, v.camera, v.begin, {last} FROM {stays} v "
            f"WHERE v.begin < {until} AND (v.end > {since} OR v.end IS NULL){cameras}"
        )
        if filters.zones:
            came = Matcher(Filters(zones=filters.zones, kinds=(CAME,)))  # of what moved, where to
            self.connection.create_function("at_place", 2, came.at_place)
            following = "SELECT min(n.time) FROM sentences n WHERE n.visit = s.visit AND n.time > s.time"
            sql = (
                f"SELECT v.id, v.camera, s.time, coalesce(({following}), v.last) FROM ({sql}) v "
                f"JOIN sentences s ON s.visit = v.id WHERE {where} AND s.kind NOT IN {sql_list(DEPARTURES)}"
            )
        elif Filters(cameras=filters.cameras) != filters:
            sql += f" AND v.id IN (SELECT s.visit FROM sentences s WHERE {where})"
        found = defaultdict[str, list[tuple[int, int]]](list)
        for _, camera, begin, end in self.connection.execute(sql):
            if end > since:
                found[camera].append((begin, end))
        return found

    def untracked(self, question: Question) -> list[tuple[str, int]]:
        """Camera and time of the sentences that match, where no track says for how long that was there."""
        filters = replace(question.filters, longer_s=None, shorter_s=None)
        where = f"{self._where(Question(filters, question.span))} AND s.visit IS NULL AND s.counted"
        sql = f"SELECT s.camera, s.time FROM sentences s WHERE {where} ORDER BY s.time"
        return self.connection.execute(sql).fetchall()

    def cameras_of(self, filters: Filters) -> tuple[str, ...]:
        """The cameras that are asked about, or whose sentences name the places."""
        if filters.cameras or not filters.zones:
            return filters.cameras or tuple(self.cameras())
        where = self._where(Question(Filters(zones=filters.zones)))
        return tuple(self.column(f"SELECT DISTINCT s.camera FROM sentences s WHERE {where} ORDER BY 1"))

    def count(self, question: Question, named: int = 0) -> list[Group]:
        """Number of visits by the question's groupings; a record without tracks counts its arrivals.

        Times are in their order, others the most frequent first; without a grouping there is one group. Of
        the narrations of each so many are named, or the first and the last.
        """
        filters, measure, where = question.filters, question.measure, self._where(question)
        counted = "s.counted"
        if not (filters.kinds or filters.text):  # each visit once, by its arrival if by time
            arrivals = f"s.kind IN {sql_list(ARRIVALS)}"
            counted += f" AND {arrivals}" if measure.by_time else f" AND (s.visit IS NOT NULL OR {arrivals})"
        if {*filters.kinds} & _OF_CAMERA:
            counted = "1"
        visit = f"CASE WHEN {counted} THEN coalesce(s.visit, -1000 * s.record - s.n) END"
        others = f"CASE WHEN {counted} AND s.visit IS NULL THEN s.count - 1 ELSE 0 END"
        labels = [self._label(grouping, question.span) for grouping in measure.by]
        if "object" in measure.by:  # what came as a car and left as a vehicle is a car
            is_open = f"s.object IN {sql_list(OPEN_CLASSES)}"
            surely = f"SELECT s.visit FROM sentences s WHERE {where} AND {counted} AND NOT {is_open}"
            where += f" AND NOT ({is_open} AND s.visit IS NOT NULL AND s.visit IN ({surely}))"
        groups = ", ".join(map(str, range(1, len(labels) + 1)))
        records = "group_concat(DISTINCT s.record)" if named else "min(s.record) || ',' || max(s.record)"
        counts = f"count(DISTINCT {visit}) + total({others})", "count(DISTINCT s.record)", records
        sql = f"SELECT {', '.join([*labels, *counts])} FROM sentences s WHERE {where}" + (
            f" GROUP BY {groups} ORDER BY {groups}" if labels else ""
        )
        rows = [row for row in self.connection.execute(sql) if row[-3] or not (labels and filters.objects)]
        if not (measure.by and measure.by[0] in (*TIME_GROUPINGS, SPAN)) or measure.most:
            rows.sort(key=lambda row: (-row[-3], row[:-3]))
            rows = [row for row in rows if not measure.most or row[-3] == rows[0][-3]]
        pieces = [span_words(Span(*piece), self.local) for piece in question.span.pieces]
        return [
            Group(
                tuple(map(partial(_label_words, pieces), measure.by, row)),
                int(visits),
                narrations,
                tuple(sorted(map(int, filter(None, (numbers or "").split(",")))))[: named or 2],
            )
            for *row, visits, narrations, numbers in rows
        ]

    def _local_time(self) -> str:
        """SQL for what local clocks show, in microseconds since Monday 1 January 1900."""
        (first,) = self.connection.execute("SELECT min(time) FROM sentences").fetchone()
        *changes, (_, ahead) = self.local.ahead(first or 0, microseconds(datetime.now(UTC)))
        cases = "".join(f" WHEN s.time >= {since} THEN {ahead}" for since, ahead in changes)
        return f"(s.time + {LOCAL_ORIGIN} + {f'CASE{cases} ELSE {ahead} END' if cases else ahead})"

    def periods(
        self, by: str, span: Span, begin: datetime, end: datetime
    ) -> Iterator[tuple[str, datetime, datetime]]:
        """Label, begin and end of each hour, day, ... between two moments; of months by their days."""
        if by == SPAN:
            yield from ((span_words(Span(*piece), self.local), *piece) for piece in span.pieces)
            return
        length, shape = _TIMES.get(by, (_DAY, "%Y-%m"))
        shown = microseconds(self.local.of(begin).replace(tzinfo=UTC)) + LOCAL_ORIGIN
        wall = moment_of(shown // length * length - LOCAL_ORIGIN).replace(tzinfo=None)
        until = self.local.aware(wall)
        while until < end:
            label, since, wall = f"{wall:{shape}}", until, wall + timedelta(microseconds=length)
            until = self.local.aware(wall)
            if since < until:  # else clocks go forward over it
                yield label, since, until

    def _label(self, grouping: str, span: Span) -> str:
        """SQL for the label of a sentence's group; of a time a number, see `_label_words`."""
        if grouping == SPAN:
            begins = (microseconds(begin) for begin, _ in span.pieces)
            return " + ".join(f"(s.time >= {begin})" for begin in begins) + " - 1"
        local = self._local_time() if grouping in TIME_GROUPINGS else ""
        if grouping in _TIMES:
            return f"{local} / {_TIMES[grouping][0]}" + _CYCLES.get(grouping, "")
        if grouping == "month":
            return f"strftime('%Y-%m', ({local} - {LOCAL_ORIGIN}) / {_SECOND}, 'unixepoch')"
        return f"s.{grouping}"

    def gaps(self, question: Question) -> list[Gap]:
        """The spans that were not recorded of what is asked for, by time; what masks hide last."""
        span, cameras, now = question.span, question.filters.cameras, now_of(question)
        since, until = ends_of(replace(span, since=now - _BELIEVED) if question.filters.open else span)
        sql = (
            f"SELECT camera, begin, min(end, {microseconds(now)}) AS end, reason, record FROM gaps "
            f"WHERE begin < {until} AND end > {since} AND begin < end ORDER BY reason = 'mask', begin"
        )
        known = {name: microseconds(each.until(now)) for name, each in self.watched().items()}
        gaps = dict[object, Gap]()  # masks by their ends: each is recorded again every day
        for n, (camera, begin, end, reason, record) in enumerate(self.connection.execute(sql)):
            until = min(end, known[camera]) if reason == "mask" else end
            gap = Gap(camera, moment_of(begin), moment_of(until), reason, record)
            if not any(self.local.parts_of(span, gap.begin, gap.end)) or (cameras and camera not in cameras):
                continue
            earlier = gaps.pop((camera, gap.begin), gap) if reason == "mask" else gap
            gaps[(camera, gap.end) if reason == "mask" else n] = gap._replace(begin=earlier.begin)
        return list(gaps.values())

    def watched(self) -> dict[str, Watched]:
        seen, watched = self.last_seen(), dict[str, Watched]()
        for camera, *ends in self.connection.execute("SELECT camera, first, newest FROM cameras"):
            first, newest = map(moment_of, ends)
            trusted = _SEEN_LATELY if camera in seen else _BELIEVED
            watched[camera] = Watched(first, newest, max(newest, seen.get(camera, newest)), trusted)
        return watched

    def last_seen(self) -> dict[str, datetime]:
        """When cameras were last watched, by the memory that their daemon keeps beside the journals."""
        seen = dict[str, datetime]()
        for path in (self._state / _MEMORY).glob("*.json"):
            with suppress(OSError, ValueError, KeyError, TypeError):
                (kept,) = json.loads(path.read_bytes()).values()
                seen[path.stem] = datetime.fromisoformat(kept["time"])
        return seen

    def unwatched(self, question: Question) -> dict[str, datetime]:
        """The cameras of which it is not known what is there now, and when they were last watched."""
        now, asked = now_of(question), question.filters.cameras
        known = {name: each for name, each in self.watched().items() if not asked or name in asked}
        return {name: each.last for name, each in known.items() if each.until(now) < now}

    def _stays(self, now: datetime) -> str:
        """SQL for visits and until when each lasted: an open one as long as its camera was watched."""
        known = [
            f"WHEN {literal(camera)} THEN {microseconds(min(each.until(now), each.newest + _BELIEVED))}"
            for camera, each in self.watched().items()
        ]
        down = (
            "SELECT min(g.begin) FROM gaps g WHERE g.camera = v.camera AND g.begin >= v.last "
            "AND g.reason IN ('camera_down', 'outage')"
        )
        until = f"min(CASE v.camera {' '.join(known)} END, coalesce(({down}), {_EVER}))" if known else "0"
        return f"(SELECT v.*, coalesce(v.end, {until}) AS until FROM visits v)"

    def unsure(self, question: Question) -> list[tuple[str, str, int, datetime, datetime]]:
        """Visits whose class was not sure, which may be of what is asked for, not those that surely are.

        For each open class, such as "vehicle": what it may be, the number of visits, the first and the last.
        """
        found = []
        sure = f"SELECT s.visit FROM sentences s WHERE {self._where(question)} AND s.visit IS NOT NULL"
        for name, classes in Matcher(question.filters).open_classes.items():
            where = self._where(replace(question, filters=replace(question.filters, objects=(name,))))
            sql = (
                "SELECT count(DISTINCT coalesce(s.visit, -1000 * s.record - s.n)), min(s.time), max(s.time) "
                f"FROM sentences s WHERE {where} AND s.object = '{name}' "
                f"AND (s.visit IS NULL OR s.visit NOT IN ({sure}))"
            )
            visits, first, last = self.connection.execute(sql).fetchone()
            if visits:
                found.append((name, classes, visits, moment_of(first), moment_of(last)))
        return found

    def cameras(self) -> list[str]:
        """The cameras of the journals, also those that were removed long ago."""
        return self.column("SELECT camera FROM cameras")

    def objects(self) -> set[str]:
        return set(self.column("SELECT object FROM objects"))

    def names_place(self, place: str) -> bool:
        sql = (
            "SELECT text FROM texts WHERE id IN (SELECT rowid FROM words WHERE words MATCH ? LIMIT 1000) "
            f"AND {_NO_RULE}"
        )
        named = RecordPlace(place)
        return any(named.holds(text, "", ()) for text in self.column(sql, (any_place((place,)),)))

    def places(self) -> list[str]:
        """The places that recent sentences name, the most frequent first; some fifty at most."""
        sql = f"SELECT text FROM texts WHERE {_NO_RULE} ORDER BY id DESC LIMIT 2000"
        names = Counter(name for text in self.column(sql) for name in _NAMED.findall(text))
        return [name for name, _ in names.most_common(50)]

    def _where(self, question: Question) -> str:
        """The condition on a sentence ``s``."""
        about, known = [*self._about(question.filters), self._in_span(question)], self.cameras()
        for name in question.filters.cameras:
            if name not in known:
                raise not_here(name, "camera", known)
        cameras = question.filters.cameras or known
        return " AND ".join([*about, *self._of_records(question), *self._of_visits(question, cameras)])

    def _of_records(self, question: Question) -> Iterator[str]:
        filters, measure = question.filters, question.measure
        if filters.cameras:
            yield f"s.camera IN {sql_list(filters.cameras)}"
        if "lost" not in filters.kinds:
            yield "s.action IS NOT 'lost'"
        if not filters.held:
            yield "NOT (SELECT held FROM records WHERE id = s.record)"
        one = measure.order in ("first", "last", "first and last")
        asked = one or (question.asked_at and (filters.objects or filters.kinds))
        if asked and not {*filters.kinds} & _OF_CAMERA:
            yield "s.counted"
        if question.presence and one:
            yield f"s.kind IN {sql_list(ARRIVALS)}"
        if filters.marked:
            names = sql_list(self._marked(filters.marked))
            yield f"s.record IN (SELECT id FROM records WHERE identity IN {names})"

    def _of_visits(self, question: Question, cameras: Sequence[str]) -> Iterator[str]:
        filters, now = question.filters, now_of(question)
        if filters.ended:
            until = ends_of(question.span)[1]
            yield f"s.visit IN (SELECT id FROM visits WHERE end < {until} AND NOT lost)"
        for each in filters.lacking:
            seen = sql_list(WITHOUT[each])
            of_visit = "SELECT visit FROM sentences WHERE visit IS NOT NULL"
            yield f"s.visit NOT IN ({of_visit} AND (kind IN {seen} OR action IN {seen}))"
        if filters.open:
            self._check_watched(question, cameras)
            at = microseconds(now)
            there = f"end IS NULL AND begin <= {at} AND until >= {at}"
            yield f"s.visit IN (SELECT id FROM {self._stays(now)} WHERE {there})"
        for sign, bound in ((">", filters.longer_s), ("<", filters.shorter_s)):
            if bound is not None:
                length = f"(SELECT until - begin FROM {self._stays(now)} WHERE id = s.visit)"
                yield f"{length} {sign} {bound * _SECOND:.0f}"

    def _marked(self, how: str) -> list[str]:
        """The records that users marked so, by what the page keeps beside the journals."""
        from pipeline.feedback import FILE, FeedbackError, FeedbackStore  # noqa: PLC0415 - rarely asked for

        remarks, opinion = {}, "wrong" if how == "mistaken" else how
        with suppress(FeedbackError), closing(FeedbackStore(self._state / FILE, read_only=True)) as store:
            remarks = store.remarks()
        opinions = {record: {each.opinion for each in of.feedback.values()} for record, of in remarks.items()}
        return [record for record, each in opinions.items() if how == "at all" or opinion in each]

    def _check_watched(self, question: Question, cameras: Sequence[str]) -> None:
        """Refuse to say who is there now where no camera that is asked about is watched."""
        unwatched = self.unwatched(question)
        if cameras and {*cameras} <= {*unwatched}:
            last, ask = self.local.of(max(unwatched.values())), "ask what was there"
            if not has_date(last):
                raise SearchError(f"what is there now is not known: the footage has no date; {ask}")
            raise SearchError(
                f"what is there now is not known since {last:%a %Y-%m-%d %H:%M:%S}, when a camera was last "
                f"watched; {ask} then, or see why narrated does not run"
            )

    def _about(self, filters: Filters) -> Iterator[str]:
        asked = Matcher(filters, self.objects() if filters.objects else ())
        if filters.objects:
            anyhow = sql_list(name for name, spoken in asked.spoken.items() if "" in spoken)
            said = [
                f" OR (s.object = '{name}' AND {_TEXT} LIKE '%{word}%')"
                for name, spoken in asked.spoken.items()
                for word in filter(None, spoken)
            ]
            yield f"(s.object IN {anyhow}{''.join(said)})"
        if filters.kinds:
            yield f"(s.kind IN {sql_list(asked.kinds)} OR s.action IN {sql_list(asked.actions)})"
        if filters.colours:
            yield f"s.colour IN {sql_list(asked.colours)}"
        if filters.other:
            about = " AND ".join(self._about(filters.other))
            others = f"SELECT v.camera, track FROM sentences s JOIN visits v ON v.id = visit WHERE {about}"
            yield f"(s.camera, s.other) IN ({others})"
        if filters.confidence is not None:
            yield f"s.confidence >= {max(0.0, min(2.0, filters.confidence))}"  # an address may say nan
        if words := " AND ".join(filter(None, [_all_words(filters.text), any_place(filters.zones)])):
            yield f"s.text IN {texts_with(words)}"
        if filters.zones:
            self.connection.create_function("at_place", 2, asked.at_place)
            yield f"at_place({_TEXT}, s.kind)"

    def _in_span(self, question: Question) -> str:
        """Sentences of the span, and for presence the arrivals of those who were there already."""
        span, (since, until), within = question.span, ends_of(question.span), ["1"]
        if span.since:
            within.append(f"s.time >= {since}")
        if span.until:
            within.append(f"s.time < {until}")
        if span.between:
            begin, end = span.between
            clock, both = f"{self._local_time()} / {_MINUTE} % {MINUTES}", "AND" if begin < end else "OR"
            within.append(f"({clock} >= {begin} {both} {clock} < {end})")
        if pieces := [tuple(map(microseconds, each)) for each in span.pieces]:
            within.append(f"({' OR '.join(f's.time >= {a} AND s.time < {b}' for a, b in pieces)})")
        inside = " AND ".join(within)
        if "gap" in question.filters.kinds and not span.between:  # what lasted into the span, too
            during = f"begin < {until} AND max(end, begin + 1) > {since} AND reason != 'mask'"
            gaps = f"s.record IN (SELECT record FROM gaps WHERE {during})"
            inside = f"({inside} AND s.kind != 'gap' OR s.kind = 'gap' AND {gaps})"
        if not (span.since and question.presence):
            return f"({inside})"
        parts = self.local.parts_of(span, span.since, span.until or datetime.now(UTC))
        begins = [microseconds(begin) for begin, _ in parts]
        lasted = "(end > {0} OR (end IS NULL AND until > {0}))".format
        there = (
            # Few visits end after the first part begins: the index gives these, and each is looked at.
            f"WITH begins AS MATERIALIZED (SELECT value FROM json_each('{begins}')) "
            f"SELECT id FROM {self._stays(now_of(question))} WHERE {lasted(min(begins, default=0))} AND "
            f"EXISTS (SELECT 1 FROM begins WHERE begin < value AND {lasted('value')})"
        )
        opened = " OR s.action = 'opened'" * bool({*question.filters.objects} & FIXTURES)
        return f"(({inside}) OR ((s.kind IN {sql_list(ARRIVALS)}{opened}) AND s.visit IN ({there})))"


def now_of(question: Question) -> datetime:
    """The time that "now" means in it."""
    return question.asked_at or datetime.now(UTC)


def ends_of(span: Span) -> tuple[int, int]:
    """In microseconds; where it is open, before or behind everything."""
    since = microseconds(span.since) if span.since else -_EVER
    return since, microseconds(span.until) if span.until else _EVER


def _label_words(pieces: Sequence[str], grouping: str, label: str | int | None) -> str:
    if grouping == SPAN:
        return pieces[int(label or 0)]
    if grouping in _TIMES:
        length, shape = _TIMES[grouping]
        return f"{moment_of(int(label or 0) * length - LOCAL_ORIGIN):{shape}}"
    return f"{label or '-'}"


def literal(value: str | int) -> str:
    """A value as SQL writes it."""
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value)


def sql_list(values: Iterable[str | int]) -> str:
    return f"({', '.join(map(literal, values))})"


def texts_with(words: str) -> str:
    """SQL for the texts that meet a condition of FTS5."""
    return f"(SELECT rowid FROM words WHERE words MATCH {literal(words)})"


def _all_words(text: str) -> str:
    """A condition of FTS5; nothing in the words is its syntax but quotes and a star."""
    conditions = []
    for quoted, _, word in _TOKEN.findall(text):
        if tokens := _WORD.findall(quoted or word):
            conditions.append(f'"{" ".join(tokens)}"{"*" * word.endswith("*")}')
        elif word == "|" and conditions:
            conditions.append("OR")
    if text.strip() and (not conditions or conditions[-1] == "OR"):
        raise SearchError(f"the text {text!r} contains no word")
    return f"({' '.join(conditions)})" if conditions else ""


def any_place(zones: Sequence[str]) -> str:
    """Likewise for one of these places."""
    words = [" ".join(_WORD.findall(place_name(zone))) for zone in zones]
    if not all(words):
        raise SearchError("a zone is named by the words of a place, such as entrance")
    return "(" + " OR ".join(f'"{each}"' for each in words) + ")" if words else ""
