"""A span in a dozen sentences, the most important first, each with the records that it rests on."""

import textwrap
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from typing import Any, NamedTuple
from urllib.parse import urlencode

from daemon.digest.counts import (
    HISTORY,
    HOUR,
    LEAST_LIKE_DAYS,
    HourlyCounts,
    Series,
    Unusual,
    find_unusual,
    kind_of,
    like_days,
    objects_of_kind,
    usual_words,
)
from daemon.questions.facts import ARRIVALS
from daemon.questions.question import LocalTime, Question, SearchError, Span, microseconds, moment_of
from daemon.questions.restatement import span_words
from daemon.search.search import Search, SearchResult
from daemon.search.selection import Gap, Visit, sql_list
from models.families import FIXTURES, KINDS
from models.language.catalogue import N_, _, join, tell
from models.language.templates import article_of, noun_phrase
from pipeline.report.words import GAPS, counted, duration_words, format_date, has_date

SHOWN = 12  # sentences that pages and texts have; JSON has all
NAMED = 2  # records of a sentence that texts name

_NAMED_RECORDS = 10
_PICTURES = 2
_SPELLED_OUT = 3
_LONG_STAY = 3.0
"""So many times the length that 98 of 100 do not exceed, where four weeks had `_LEAST_STAYS`."""
_LEAST_STAYS, _SHORTEST_LONG_S = 20, 600.0
_LONG_GAP_S = 600.0
_NIGHT = (22, 5)
_SCENE = {"obstructed": 3.0, "view_changed": 2.0, "rule": 4.0}
_LONGEST_DAY = timedelta(hours=25)
_LONGEST = timedelta(days=366)  # each hour of a span is compared with those of four weeks
_AND = N_("{one} and {other}")

# Importance, from the most: what the span was, rules and blinded cameras, the unusual, long gaps, things, ...
_WHOLE, _EVENT, _ODD, _BLIND, _THING, _THERE, _CAMERA, _QUIET = 100, 90, 70, 65, 60, 50, 40, 30


class _Arrival(NamedTuple):
    record: int
    moment: datetime
    series: Series
    object: str
    number: int  # more than one in a record without tracks
    visit: int | None


@dataclass(frozen=True, slots=True)
class DigestSentence:
    text: str
    about: str  # span, rule, obstructed, view_changed, unusual, stay, gap, thing, there, camera or quiet
    weight: float  # importance
    begin: datetime  # of what it is about
    numbers: Sequence[int] = ()  # of the records in the index that it rests on
    # options of `narrated query` that find all of them; empty where the records are all
    query: dict[str, Any] = field(default_factory=dict)
    records: tuple[str, ...] = ()  # ids of the first of them

    @property
    def unnamed(self) -> int:
        """Number of records beyond the `NAMED` first."""
        return max(0, len({*self.numbers}) - NAMED)

    @property
    def named(self) -> str:
        """The first records that it rests on, and how many more; empty where it rests on none."""
        records = ", ".join(self.records[:NAMED])
        more = N_("{records} and {number} more") if self.unnamed else "{records}"
        return tell(more, records=records, number=f"{self.unnamed:,}") if records else ""

    @property
    def address(self) -> str:
        """The query of the review page that shows all of them."""
        return urlencode(self.query, doseq=True)


@dataclass(frozen=True, slots=True)
class Digest:
    since: datetime
    until: datetime
    title: str  # the span in words
    sentences: tuple[DigestSentence, ...]  # the most important first
    pictured: tuple[SearchResult, ...]  # records with pictures, of the first sentences that have some
    heads: dict[str, tuple[int, str]]  # by camera, number and hash of its last record before the end
    hours: Mapping[tuple[str, int], int]  # visits by camera and hour of the day

    @property
    def noted(self) -> list[str]:
        """Lines with the last record of each camera, for `narrated verify --head`; none without a record."""
        heads = [f"  {camera}, {number}: {hash_}" for camera, (number, hash_) in self.heads.items()]
        return [_("Last records:"), *heads] if heads else []


def write_digest(search: Search, span: Span, now: datetime, counts: HourlyCounts | None = None) -> Digest:
    """The digest of a span, up to `now` at most; the same records give the same.

    Without a begin it is from midnight on. `counts` may be of a longer span. A span of hours of every day, or
    that is to come, or longer than a year, raises `SearchError`.
    """
    if span.between or span.pieces:
        raise SearchError("a digest is of one span: write yesterday, last night or since 8 am")
    until = min(span.until or now, now)
    since = span.since or search.local.midnight(search.local.of(until - timedelta(microseconds=1)).date())
    if since >= until:
        raise SearchError("that is to come: only what was recorded can be summed up")
    if until - since > _LONGEST:
        raise SearchError("a digest is of one year at most: write since last month, or a day")
    counts = counts or HourlyCounts(search, since, until)
    return _Composer(search, counts, since, until).digest()


def week(search: Search, now: datetime) -> list[Digest]:
    """The last seven days, today first; at midnight the day that ends is today still."""
    today = search.local.of(now - timedelta(microseconds=1)).date()
    days = [search.local.bounds(today - timedelta(days=n)) for n in range(7)]
    counts = HourlyCounts(search, days[-1][0], now)
    return [write_digest(search, Span(*day), now, counts) for day in days]


def text_lines(digest: Digest) -> Iterator[str]:
    """Lines for people: the span, a sentence a line with the records that it rests on, the last records."""
    yield digest.title
    for sentence in digest.sentences[:SHOWN]:
        yield textwrap.fill(sentence.text, 100, initial_indent="* ", subsequent_indent="  ")
        if sentence.named:
            yield f"    {sentence.named}"
    if len(digest.sentences) > SHOWN:
        yield tell("{number} more, of less importance: --json has them", number=len(digest.sentences) - SHOWN)
    yield from digest.noted


def members(digest: Digest, local: LocalTime) -> dict[str, Any]:
    return {
        "schema": "narrated-digest/1",
        "since": local.of(digest.since).isoformat(),
        "until": local.of(digest.until).isoformat(),
        "title": digest.title,
        "sentences": [
            {name: getattr(each, name) for name in ("text", "about", "query")}
            | {"records": list(each.records), "rests_on": len({*each.numbers})}
            for each in digest.sentences
        ],
        "pictures": [
            {"record": each.record.id, "files": {side: str(path) for side, path in each.pictures.items()}}
            for each in digest.pictured
        ],
        "heads": {camera: {"seq": number, "hash": hash_} for camera, (number, hash_) in digest.heads.items()},
    }


def page(digest: Digest, local: LocalTime) -> str:
    from pipeline.report.page import Card, environment  # noqa: PLC0415 - templates are slow to load
    from pipeline.report.picture import inline_pictures  # noqa: PLC0415

    cards = [
        Card(each.record, local.zone, inline_pictures(each.pictures), f"#r-{each.record.id}")
        for each in digest.pictured
    ]
    template = environment().get_template("digest.html.j2")
    return template.render(digest=digest, cards=cards, shown=SHOWN, error="")


class _Composer:
    def __init__(self, search: Search, counts: HourlyCounts, since: datetime, until: datetime) -> None:
        self.search, self.local, self.since, self.until = search, search.local, since, until
        self.counts, self.hours = counts, counts.hours(since, until)
        self.bounds = {"since": microseconds(since), "until": microseconds(until)}
        self.found = list[DigestSentence]()
        self.last_day = self.local.of(until - timedelta(microseconds=1)).date()
        self.unwatched = search.selection.unwatched(Question(asked_at=until))
        self.watched = {
            camera: each.first
            for camera, each in search.selection.watched().items()
            if each.first < until and self.unwatched.get(camera, until) > since
        }

    def digest(self) -> Digest:
        self.arrivals, self._visits = self._read_arrivals(), self._read_visits()
        self._whole()
        begins = [(hour, self.local.aware(hour), self.local.aware(hour + HOUR)) for hour in self.hours]
        whole = [hour for hour, begin, end in begins if self.since <= begin and end <= self.until]
        for unusual in find_unusual(self.counts, whole):
            self._unusual(unusual)
        for each in (self._events, self._stays, self._there, self._gaps, self._cameras):
            each()
        ordered = sorted(self.found, key=lambda each: (-each.weight, each.begin, each.text))
        results = [list(self.search.read(each.numbers[:_NAMED_RECORDS])) for each in ordered]
        pictured = (next((r for r in each if r.pictures), None) for each in results[1:])
        shown = {each.record.id: each for each in pictured if each}
        hours = _count(self.arrivals, lambda each: (each.series.camera, self.local.of(each.moment).hour))
        return Digest(
            self.since,
            self.until,
            span_words(Span(self.since, self.until), self.local),
            tuple(
                replace(sentence, records=tuple(each.record.id for each in read))
                for sentence, read in zip(ordered, results, strict=True)
            ),
            tuple(shown.values())[:_PICTURES],
            self._heads(),
            hours,
        )

    # What was recorded

    def _select(self, sql: str) -> list[Any]:
        return self.search.selection.connection.execute(sql, self.bounds).fetchall()

    def _read_arrivals(self) -> list[_Arrival]:
        sql = (
            "SELECT min(record), time, camera, object, iif(visit IS NULL, count, 1), visit FROM sentences "
            "WHERE time >= :since AND time < :until AND counted AND object != 'scene' "
            f"AND kind IN {sql_list(ARRIVALS)} "
            "GROUP BY coalesce(visit, -1000 * record - n) ORDER BY time, record"
        )
        return [
            _Arrival(record, moment_of(time), Series(camera, kind_of(name)), name, number, visit)
            for record, time, camera, name, number, visit in self._select(sql)
        ]

    def _read_visits(self) -> dict[int, Visit]:
        """The visits that were there in the span by number; what goes on behind it has not ended."""
        span = Question(span=Span(self.since, self.until), presence=True, asked_at=self.until)
        visits = self.search.selection.visits(span)
        return {
            visit.id: visit._replace(end=None, until=self.until, there=True)
            if visit.end and visit.end >= self.until
            else visit
            for visit in visits
            if visit.object not in FIXTURES
        }

    def _heads(self) -> dict[str, tuple[int, str]]:
        newest = self._select("SELECT max(id) FROM records WHERE time < :until GROUP BY camera")
        records = (result.record for result in self.search.read(number for (number,) in newest))
        return {each.camera: (each.seq, each.hash) for each in sorted(records, key=lambda r: r.camera)}

    # Sentences

    def _say(
        self, text: str, about: str, weight: float, begin: datetime, numbers: Iterable[int], **query: Any
    ) -> None:
        given = {name: value for name, value in query.items() if value}
        if given:
            given = {"since": self.since, "until": self.until} | given
            given |= {name: self.local.of(given[name]).isoformat() for name in ("since", "until")}
        said = DigestSentence(text[0].upper() + text[1:], about, weight, begin, tuple(numbers), given)
        self.found.append(said)

    def _whole(self) -> None:
        every, cameras = self.arrivals, counted(len(self.search.selection.cameras()), "camera")
        came, others = {each.visit for each in every}, ""
        if kinds := _kinds_words(Counter(v.object for v in self._visits.values() if v.id not in came)):
            others = tell("; {kinds} had come before or came unseen", kinds=kinds)
        if not every:
            watched = counted(len(self.watched), "camera")
            text = tell("nobody and nothing came, on {cameras}{others}.", cameras=watched, others=others)
            text = text if self.watched else _("no camera was watched.")
            self._say(text, "span", _WHOLE, self.since, ())
            return
        objects = _count(every, lambda each: each.object)
        visits, kinds = counted(objects.total(), "visit"), _kinds_words(objects)
        usually = most_came = ""
        if totals := self._usual_totals():
            like, days = like_days(totals, self.hours[0])
            usual, days = (like, days) if len(like) >= LEAST_LIKE_DAYS else (totals, N_("days"))
            number, days = usual_words(usual.values()), f"{len(usual)} {_(days)}"
            usually = tell("; usually {number} ({days})", number=number, days=days)
        if len(self.hours) > 1:
            by_hour = _count(every, lambda each: self.counts.hour_of(each.moment))
            hour, most = min(by_hour.items(), key=lambda each: (-each[1], each[0]))
            words = self._hours_words((hour,))
            some, all_ = N_("; most came {hours} ({number})"), N_("; all came {hours}")
            most_came = tell(some if len(by_hour) > 1 else all_, hours=words, number=f"{most:,}")
        most_came += others
        message = N_("{visits} on {cameras}: {kinds}{usually}{most_came}.")
        text = tell(
            message, visits=visits, cameras=cameras, kinds=kinds, usually=usually, most_came=most_came
        )
        numbers = [each.record for each in every]
        self._say(text, "span", _WHOLE, self.since, numbers, object=sorted(objects))

    def _usual_totals(self) -> dict[date, int]:
        """How many came in the same hours of each day that recorded them; empty where they are too few."""
        if self.until - self.since > _LONGEST_DAY:
            return {}
        totals, cameras = dict[date, int](), {series.camera for series in self.counts.visits}
        for back in range(1, HISTORY.days + 1):
            same = [hour - timedelta(days=back) for hour in self.hours]
            if all(self.counts.recorded(camera, at) for camera in cameras for at in same):
                every = self.counts.visits.values()
                totals[same[0].date()] = sum(visits[at] for visits in every for at in same)
        return totals if len(totals) >= 7 else {}  # noqa: PLR2004 - a week

    def _unusual(self, each: Unusual) -> None:
        camera, kind = each.series
        same = (a for a in self.arrivals if a.series == each.series)
        came = [a for a in same if self.counts.hour_of(a.moment) in each.hours]
        names = {a.object for a in came}
        name = names.pop() if len(names) == 1 else kind
        number = _("nobody") if name == "person" else tell("no {noun}", noun=_(name))
        if each.count:
            number = tell("{number}" if each.more else N_("only {number}"), number=counted(each.count, name))
        came_at = f" ({', '.join(map(self._stay_words, came))})" if 0 < len(came) <= _SPELLED_OUT else ""
        message = N_("{number} {hours} on {camera}{came_at}; usually {usual} ({days}).")
        words = {"hours": self._hours_words(each.hours), "usual": usual_words(each.usual.values())}
        days = f"{len(each.usual)} {_(each.days)}"
        text = tell(message, number=number, camera=camera, came_at=came_at, days=days, **words)
        since, until = (self.local.aware(hour) for hour in (each.hours[0], each.hours[-1] + HOUR))
        query = {"camera": [camera], "object": objects_of_kind(kind), "since": since, "until": until}
        self._say(text, "unusual", _ODD + each.surprise, since, [a.record for a in came], **query)

    def _stay_words(self, arrival: _Arrival) -> str:
        visit = self._visits.get(arrival.visit or 0)
        message, stay = N_("at {clock}"), ""
        if visit:
            message = N_("at {clock}, and still there") if visit.there else N_("at {clock} for {length}")
            stay = duration_words(visit.seconds)
        return tell(message, clock=self._clock(arrival.moment), length=stay)

    def _events(self) -> None:
        """Rules that were met, covered or turned cameras, and what was put down or taken away."""
        sql = (
            "SELECT s.record, s.time, s.camera, s.kind, s.action, s.visit, t.text FROM sentences s "
            "JOIN texts t ON t.id = s.text WHERE s.time >= :since AND s.time < :until "
            "AND (s.kind IN ('obstructed', 'view_changed', 'rule') "
            "OR (s.counted AND s.action IN ('placed', 'removed'))) ORDER BY s.time, s.record"
        )
        grouped: defaultdict[tuple[str, str], list[tuple[int, datetime, str]]] = defaultdict(list)
        for record, time, camera, kind, action, number, text in self._select(sql):
            moment, told = moment_of(time), text.partition("\n")[0].rstrip(".")
            if kind in _SCENE:
                grouped[camera, kind].append((record, moment, told))
                continue
            visit = self._visits.get(number)
            if visit and action == "placed":
                stay = N_("{text}; it was there for {length}")
                message = N_("{text}; it is still there") if visit.there else stay
                told = tell(message, text=told, length=duration_words(visit.seconds))
            self._say(self._at(camera, moment, told), "thing", _THING, moment, [record])
        for (camera, kind), events in grouped.items():
            numbers, moments, (told, *more) = zip(*events, strict=True)
            if more:
                message, last = N_("{text} ({number} more until {clock})"), self._clock(moments[-1])
                told = tell(message, text=told, number=f"{len(more):,}", clock=last)
            text, weight = self._at(camera, moments[0], told), _EVENT + _SCENE[kind]
            self._say(text, kind, weight, moments[0], numbers, camera=[camera], kind=[kind])

    def _at(self, camera: str, moment: datetime, text: str) -> str:
        return tell("On {camera} at {clock}: {text}.", camera=camera, clock=self._clock(moment), text=text)

    def _stays(self) -> None:
        usual = self.counts.stays(self.since)
        for visit in self._visits.values():
            count, usual_s = usual.get(Series(visit.camera, kind_of(visit.object)), (0, 0.0))
            if count < _LEAST_STAYS or visit.begin >= self.until:
                continue
            if visit.seconds >= max(_SHORTEST_LONG_S, _LONG_STAY * usual_s):
                there = _(" and is still there") if visit.there else ""
                message = N_(
                    "{who} on {camera} stayed {length} from {clock} on{there}; usually at most {usual} "
                    "({number} stays in 28 days)."
                )
                lengths = {"length": duration_words(visit.seconds), "usual": duration_words(usual_s)}
                where = {"who": _named(visit), "camera": visit.camera, "clock": self._clock(visit.begin)}
                text = tell(message, there=there, number=f"{count:,}", **where, **lengths)
                weight = _ODD + min(15.0, visit.seconds / max(1.0, usual_s))
                self._say(text, "stay", weight, visit.begin, [visit.record])

    def _there(self) -> None:
        """What still stands there, longest first, and of which cameras that is not known."""
        by_camera: defaultdict[str, list[Visit]] = defaultdict(list)
        for visit in self._visits.values():
            if visit.there and visit.camera not in self.unwatched:
                by_camera[visit.camera].append(visit)
        for camera, visits in by_camera.items():
            visits.sort(key=lambda each: (each.begin, each.record))
            since = N_("{who} since {clock}")
            words = [tell(since, who=_named(each), clock=self._clock(each.begin)) for each in visits]
            if len(visits) > _SPELLED_OUT:
                kinds = _kinds_words(Counter(each.object for each in visits))
                words = [tell("{kinds}, the first of them {who}", kinds=kinds, who=words[0])]
            message, now = N_("still there at {clock} on {camera}: {visits}."), self._clock(self.until)
            text = tell(message, clock=now, camera=camera, visits=", ".join(words))
            weight = _THERE + min(9.0, visits[0].seconds / 3600)
            self._say(text, "there", weight, visits[0].begin, [v.record for v in visits])
        for camera, last in ((name, at) for name, at in self.unwatched.items() if has_date(at)):
            message = N_("nothing is known of {camera} since {clock}, when it was last watched.")
            self._say(tell(message, camera=camera, clock=self._clock(last)), "gap", _BLIND - 1, last, ())
        firsts = {camera: first for camera, first in self.watched.items() if first > self.since}
        if firsts:
            before = N_("{camera} before {clock}")
            words = [tell(before, camera=name, clock=self._clock(at)) for name, at in firsts.items()]
            text = tell("nothing is known of {cameras}: no record is older.", cameras=join(words, _AND))
            long = (max(firsts.values()) - self.since).total_seconds() >= _LONG_GAP_S
            self._say(text, "gap", _BLIND - 1 if long else _QUIET + 1, self.since, ())

    def _gaps(self) -> None:
        grouped: defaultdict[tuple[str, str], list[Gap]] = defaultdict(list)
        span = Question(span=Span(self.since, self.until), asked_at=self.until)
        for each in self.search.selection.gaps(span):
            inside = each._replace(begin=max(each.begin, self.since), end=min(each.end, self.until))
            grouped[each.camera, each.reason].append(inside)
        for (camera, reason), gaps in grouped.items():
            begin, end = gaps[0].begin, max(each.end for each in gaps)
            lost_s = sum((each.end - each.begin).total_seconds() for each in gaps)
            message = N_("nothing was recorded on {camera} for {length} between {begin} and {end}: {reason}.")
            if reason == "mask":
                message = N_("a part of {camera} was not seen from {begin} to {end}: {reason}.")
            words = {"length": duration_words(lost_s), "reason": _(GAPS.get(reason, reason))}
            clocks = {"begin": self._clock(begin), "end": self._clock(end)}
            text = tell(message, camera=camera, **clocks, **words)
            long = lost_s >= _LONG_GAP_S and reason != "mask"
            weight = _BLIND + min(4.0, lost_s / 3600) if long else _QUIET + 1
            numbers = [each.record for each in gaps]
            self._say(text, "gap", weight, begin, numbers, camera=[camera], kind=["gap"])

    def _cameras(self) -> None:
        """Each camera in one sentence, the busiest first, and those where nothing came in another."""
        by_camera: defaultdict[str, list[_Arrival]] = defaultdict(list)
        for each in self.arrivals:
            by_camera[each.series.camera].append(each)
        for camera, arrivals in by_camera.items():
            first, last = self._clock(arrivals[0].moment), self._clock(arrivals[-1].moment)
            span, stay = tell("from {begin} to {end}", begin=first, end=last), ""
            span = tell("at {clock}", clock=first) if first == last else span
            stays = [v for v in (self._visits.get(each.visit or 0) for each in arrivals) if v]
            if len(stays) > 1:
                longest = max(stays, key=lambda each: each.seconds)
                message = N_("; the longest stay was {who} for {length}")
                message = message if longest.end else N_("; the longest stay was {who} for at least {length}")
                stay = tell(message, who=_named(longest), length=duration_words(longest.seconds))
            objects = _count(arrivals, lambda each: each.object)
            total, begin = objects.total(), arrivals[0].moment
            weight, numbers = _CAMERA + total / (total + 1000) * 9, [each.record for each in arrivals]
            message = N_("on {camera}: {kinds}, {span}{stay}.")
            text = tell(message, camera=camera, kinds=_kinds_words(objects), span=span, stay=stay)
            self._say(text, "camera", weight, begin, numbers, camera=[camera], object=sorted(objects))
        quiet = [camera for camera in self.watched if camera not in by_camera]
        if quiet and by_camera:
            text = tell("nobody and nothing came on {cameras}.", cameras=join(quiet, _AND))
            self._say(text, "quiet", _QUIET, self.since, ())

    # Words

    def _clock(self, moment: datetime) -> str:
        """Hours and minutes, with the day where it is not that of the end."""
        shown = self.local.of(moment)
        if moment == self.until and shown.hour == shown.minute == 0:
            return "24:00"
        days = (self.last_day - shown.date()).days
        shape = N_("%H:%M") if not days else N_("%a %H:%M") if days < 7 else N_("%d %b %H:%M")  # noqa: PLR2004
        return format_date(shown, shape)

    def _hours_words(self, hours: Sequence[datetime]) -> str:
        """Such as "between 1:00 and 2:00 at night"."""
        night = all(each.hour >= _NIGHT[0] or each.hour < _NIGHT[1] for each in hours)
        message = N_("between {begin} and {end} at night") if night else N_("between {begin} and {end}")
        words = tell(message, begin=f"{hours[0].hour}:00", end=f"{hours[-1].hour + 1}:00")
        if hours[0].date() == self.last_day:
            return words
        return tell("{hours} on {day}", hours=words, day=format_date(hours[0], "%A"))


def _count(arrivals: Iterable[_Arrival], key: Callable[[_Arrival], Any]) -> Counter[Any]:
    numbers = Counter[Any]()
    for each in arrivals:
        numbers[key(each)] += each.number
    return numbers


def _kinds_words(numbers: Counter[str]) -> str:
    """Such as "12 people, 3 cars and 1 dog", the most first."""
    ordered = sorted(numbers.items(), key=lambda each: (-each[1], each[0]))
    return join((counted(number, name) for name, number in ordered), _AND)


def _named(visit: Visit) -> str:
    """Such as "a red car", "a person in dark clothes"."""
    if visit.object in KINDS:
        return noun_phrase(visit.object, colour=visit.colour)
    return f"{article_of(visit.object)} {visit.object}"
