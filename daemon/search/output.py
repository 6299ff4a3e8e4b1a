"""The formats of an answer: lines for people, JSON, CSV."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, NamedTuple

from daemon.questions.question import LocalTime, Question, moment_of
from daemon.search.occupancy import asks_absence, find_crowds, find_intervals
from daemon.search.search import Search, SearchResult
from daemon.search.selection import Gap, Group, Visit
from models.families import FIXTURES
from models.language.catalogue import N_, _, join, tell
from pipeline.report.words import counted, duration_words, has_date, moment_words

_REASONS = {"camera_down": N_("camera down"), "unbegun": N_("before its first record")}
_REASONS |= {name: name for name in (N_("overload"), N_("outage"), N_("mask"), N_("gap"), N_("hourly limit"))}
_GAPS = 3  # the newest ones, which are named one by one


def local_words(moment: datetime, local: LocalTime) -> str:
    """A time as people here read it; of footage without a date how far into it."""
    return moment_words(moment, local.zone, N_("%a %Y-%m-%d %H:%M:%S"))


def table(results: Iterable[SearchResult], search: Search) -> Iterator[str]:
    local = search.local
    for each in results:
        members = each.members
        sure = f"{max((s['confidence'] for s in members['sentences']), default=0.0):4.0%}"
        others = (f" ({words}: {other.members['text']})" for words, other in search.others_of(each))
        text = " ".join(members["text"].split()) + "".join(others)
        marks = "".join(f"  ! {mark}" for mark in each.marks)
        yield f"{local_words(each.moment, local):<23}  {members['camera']:<12}  {sure}  {text}{marks}"


def record_members(results: Iterable[SearchResult], local: LocalTime) -> Iterator[dict[str, Any]]:
    """The records' members, local times, marks and pictures.

    `evidence` names only pictures that are there, `pictures` their files.
    """
    for each in results:
        members = dict(each.members)
        evidence = {side: d for side, d in members.pop("evidence", {}).items() if side in each.pictures}
        members |= {"evidence": evidence} if evidence else {}
        yield members | {
            "local_time": local.of(each.moment).isoformat(),
            "marks": list(each.marks),
            "pictures": {side: str(path) for side, path in each.pictures.items()},
        }


class SpanRow(NamedTuple):
    begin: str
    end: str
    cameras: str
    what: str
    length: str
    members: dict[str, Any]  # for JSON; `until` is None where the end was not seen


def span_rows(search: Search, question: Question, *, named: bool = False) -> list[SpanRow]:
    """The visits, or the times when so many were there, that answer a question; their records are `named`."""
    local, rows, selection = search.local, list[SpanRow](), search.selection
    find = partial(find_intervals, selection) if question.of_intervals else selection.visits
    for each in find(question):
        if isinstance(each, Visit):
            cameras, what = each.camera, _(each.object)
            members: dict[str, Any] = {"camera": cameras, "track": each.track, "object": each.object}
            end = _("still there") if each.there else _("an end not seen")
        else:
            cameras, members = ", ".join(each.cameras), {"cameras": each.cameras, "there": each.number}
            what = _("not recorded") if each.number is None else tell("{number} there", number=each.number)
        if each.end:
            end = _end_words(each.begin, each.end, local)
        since, until = (moment and local.of(moment).isoformat() for moment in (each.begin, each.end))
        members |= {"since": since, "until": until, "duration_s": round(each.seconds, 3)}
        if named:
            members["records"] = search.ids(selection.records_of(each))
        length = duration_words(each.seconds)
        rows.append(SpanRow(local_words(each.begin, local), end, cameras, what, length, members))
    return rows


def span_table(rows: Iterable[SpanRow]) -> Iterator[str]:
    for each in rows:
        span = f"{each.begin} to {each.end}"
        yield f"{span:<50}  {each.cameras:<12}  {each.what:<10}  {each.length}"


def count_members(search: Search, groups: Iterable[Group], by: Sequence[str]) -> Iterator[dict[str, Any]]:
    for group in groups:
        counts = {"visits": group.visits, "narrations": group.narrations}
        records = {"records": search.ids(group.records)}
        yield dict(zip(by, group.labels, strict=True)) | counts | records


def records_line(search: Search, numbers: Iterable[int]) -> Iterator[str]:
    if ids := search.ids(numbers):
        message = N_("from the records {first} to {last}") if ids[1:] else N_("from the record {first}")
        yield tell(message, first=ids[0], last=ids[-1])


def count_table(groups: Sequence[Group], by: Sequence[str]) -> Iterator[str]:
    heads = (*(name.replace("-", " ") for name in by), "visits", "narrations")
    unseen = _("not watched")
    counts = [(unseen if g.visits is None else f"{g.visits:,}", f"{g.narrations:,}") for g in groups]
    rows = [heads, *((*g.labels, *each) for g, each in zip(groups, counts, strict=True))]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [
            cell.ljust(width) if n < len(by) else cell.rjust(width)
            for n, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield "  ".join(cells).rstrip()


def counted_how_well(question: Question) -> str:
    """What stands beside counts of visits, by `benchmarks/quality.py --only tracks`; empty beside others."""
    filters = question.filters
    of_visits = {*filters.kinds} <= {"came", "left"} and not {*filters.objects} & FIXTURES
    if not (question.measure.count and of_visits) or filters.open:
        return ""
    return tell("counted with a median error of at most {error}, in crowds far more", error="12%")


def caveats(search: Search, question: Question) -> list[str]:
    """Sentences beside an answer: not recorded, not watched now, not sure, the average; mostly none."""
    local, selection, absence = search.local, search.selection, asks_absence(question)
    asked = question.filters.cameras
    if absence:
        asked = selection.cameras_of(question.filters)
        question = replace(question, filters=replace(question.filters, cameras=asked))
    now, span = question.asked_at or datetime.now(UTC), question.span
    begun = {name: each.first for name, each in selection.watched().items() if name in (asked or (name,))}
    unbegun = begun and span.until and span.until <= min(begun.values())
    gaps = [] if "gap" in question.filters.kinds else selection.gaps(question)
    dark = [gap for gap in gaps if absence and gap.reason != "mask"]
    nobody = N_("not everything was recorded, and nobody is known to be absent then: {spans}")
    said = _gap_sentences(dark, local, nobody)
    gaps = [gap for gap in gaps if gap not in dark]
    gaps[:0] = [
        Gap(camera, span.since, min(first, span.until or now), "unbegun", 0)
        for camera, first in begun.items()
        if span.since and not unbegun and (asked or first < (span.until or now))
        if any(local.parts_of(span, span.since, min(first, span.until or now)))
    ]
    more = N_("not everything was recorded, so there may be more: {spans}")
    least = N_("not everything was recorded, so there were at least so many: {spans}")
    said += _gap_sentences(gaps, local, least if question.measure.count else more)
    if unbegun:
        camera, first = min(begun.items(), key=lambda each: each[1])
        message = N_("nobody watched then: the first record is of {begin}, on camera {camera}")
        said.append(tell(message, begin=local_words(first, local), camera=camera))
    if untracked := selection.untracked(question) if question.measure.there else []:
        seen = _span_words(moment_of(untracked[0][1]), moment_of(untracked[-1][1]), local)
        message = N_("{sentences} without a track, so there may be more: {seen}")
        said.append(tell(message, sentences=counted(len(untracked), "sentence"), seen=seen))
    crowd = N_("of a crowd some are not counted, so there were at least so many: {spans}")
    said += _gap_sentences([*find_crowds(selection, question)], local, crowd)
    until_now = (absence or "gap" in question.filters.kinds) and (span.until or now) >= now
    if question.filters.open or until_now:
        since = N_("what is there now is not known of camera {camera} since {last}, when it was last watched")
        undated = N_("what is there now is not known of camera {camera}: its footage has no date")
        for camera, last in selection.unwatched(question).items():
            message = since if has_date(last) else undated
            said.append(tell(message, camera=camera, last=local_words(last, local)))
    found = find_intervals(selection, question) if question.of_intervals else []
    if len(found) > 1:
        total = duration_words(sum(each.seconds for each in found))
        said.append(tell("{length} in all, in {number} spans", length=total, number=f"{len(found):,}"))
    visits = selection.visits(question) if question.measure.durations and not question.of_intervals else []
    if len(visits) > 1:
        mean = duration_words(sum(visit.seconds for visit in visits) / len(visits))
        said.append(tell("on average {length}, over {number} visits", length=mean, number=f"{len(visits):,}"))
    for open_class, classes, number, first, last in selection.unsure(question):
        message = N_("{visits} recorded as {open}, whose kind was not sure, may be of a {classes}: {seen}")
        may_be = join(map(_, classes.split(" or ")), N_("{one} or {other}"))
        words = {"visits": counted(number, "more visit"), "open": _(open_class), "classes": may_be}
        said.append(tell(message, seen=_span_words(first, last, local), **words))
    return said


def _gap_sentences(gaps: Sequence[Gap], local: LocalTime, message: str) -> list[str]:
    if not gaps:
        return []
    spans = ", ".join(
        f"{gap.camera} {_span_words(gap.begin, gap.end, local)} ({_(_REASONS.get(gap.reason, gap.reason))})"
        for gap in gaps[-_GAPS:]
    )
    if len(gaps) > _GAPS:
        spans = tell("{spans} and {number} before", spans=spans, number=f"{len(gaps) - _GAPS:,}")
    return [tell(message, spans=spans)]


def _span_words(begin: datetime, end: datetime, local: LocalTime) -> str:
    words = tell("{begin} to {end}", begin=local_words(begin, local), end=_end_words(begin, end, local))
    return words if end > begin else local_words(begin, local)


def _end_words(begin: datetime, end: datetime, local: LocalTime) -> str:
    same_day = local.of(begin).date() == local.of(end).date()
    return f"{local.of(end):%H:%M:%S}" if same_day else local_words(end, local)
