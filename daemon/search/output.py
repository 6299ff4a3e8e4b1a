"""The formats of an answer: lines for people, JSON, CSV."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from daemon.questions.local_time import LocalTime
from daemon.questions.question import Question
from daemon.search.search import Search, SearchResult
from daemon.search.selection import Gap, Group, Visit
from daemon.search.spells import Spell, asks_absence, spells
from models.language.catalogue import N_, _, join, ngettext, tell
from pipeline.report.words import duration_words, moment_words

_REASONS = {"camera_down": N_("camera down")}
_REASONS |= {name: name for name in (N_("overload"), N_("outage"), N_("mask"), N_("gap"), N_("hourly limit"))}
_GAPS = 3
"""The newest gaps, which are named one by one."""


def local_words(moment: datetime, local: LocalTime) -> str:
    """A time as people here read it; of footage without a date how far into it."""
    return moment_words(moment, local.zone, N_("%a %Y-%m-%d %H:%M:%S"))


def table(results: Iterable[SearchResult], search: Search) -> Iterator[str]:
    """Lines for people: local time, camera, confidence, text, who else, and what should be known of it."""
    local = search.local
    for each in results:
        members = each.members
        sure = f"{max((s['confidence'] for s in members['sentences']), default=0.0):4.0%}"
        others = (f" ({words}: {other.members['text']})" for words, other in search.others_of(each))
        text = " ".join(members["text"].split()) + "".join(others)
        marks = "".join(f"  ! {mark}" for mark in each.marks)
        yield f"{local_words(each.moment, local):<23}  {members['camera']:<12}  {sure}  {text}{marks}"


def json_lines(rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """One JSON object a line."""
    return (json.dumps(row, ensure_ascii=False) for row in rows)


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


def visit_members(visits: Iterable[Visit], local: LocalTime) -> Iterator[dict[str, Any]]:
    """The visits' members; `until` is None for one whose end was not seen."""
    for visit in visits:
        yield {
            "camera": visit.camera,
            "track": visit.track,
            "object": visit.object,
            "since": local.of(visit.begin).isoformat(),
            "until": local.of(visit.end).isoformat() if visit.end else None,
            "duration_s": round(visit.seconds, 3),
        }


def stay_words(visit: Visit) -> str:
    """Of a visit without an end."""
    return _("still there") if visit.there else _("an end not seen")


def visit_table(visits: Iterable[Visit], local: LocalTime) -> Iterator[str]:
    """Lines for people: from when to when, camera, object, and how long."""
    for visit in visits:
        end = _end_words(visit.begin, visit.end, local) if visit.end else stay_words(visit)
        span = f"{local_words(visit.begin, local)} to {end}"
        yield f"{span:<50}  {visit.camera:<12}  {visit.object:<10}  {duration_words(visit.seconds)}"


def spell_members(spells: Iterable[Spell], local: LocalTime) -> Iterator[dict[str, Any]]:
    """When so many were there at once, as members."""
    for each in spells:
        since, until = (local.of(moment).isoformat() for moment in (each.begin, each.end))
        span = {"since": since, "until": until, "duration_s": each.seconds}
        yield {"cameras": each.cameras, "there": each.number} | span


def spell_table(spells: Iterable[Spell], local: LocalTime) -> Iterator[str]:
    """Lines for people: from when to when, cameras, how many were there, and how long."""
    for each in spells:
        span = f"{local_words(each.begin, local)} to {_end_words(each.begin, each.end, local)}"
        there = tell("{number} there", number=each.number) if each.number is not None else _("not recorded")
        yield f"{span:<50}  {', '.join(each.cameras):<12}  {there:<10}  {duration_words(each.seconds)}"


def count_members(groups: Iterable[Group], by: Sequence[str]) -> Iterator[dict[str, Any]]:
    """The groups' labels and counts."""
    for group in groups:
        counts = {"visits": group.visits, "narrations": group.narrations}
        yield dict(zip(by, group.labels, strict=True)) | counts


def count_table(groups: Sequence[Group], by: Sequence[str]) -> Iterator[str]:
    """Lines for people."""
    heads = (*(name.replace("-", " ") for name in by), "visits", "narrations")
    rows = [heads, *((*g.labels, f"{g.visits:,}", f"{g.narrations:,}") for g in groups)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [
            cell.ljust(width) if n < len(by) else cell.rjust(width)
            for n, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield "  ".join(cells).rstrip()


def caveats(search: Search, question: Question) -> list[str]:
    """Sentences beside an answer: not recorded, not watched now, not sure, the average; mostly none."""
    local, selection, absence = search.local, search.selection, asks_absence(question)
    asked = question.filters.cameras
    if absence:
        asked = selection.cameras_of(question.filters)
        question = replace(question, filters=replace(question.filters, cameras=asked))
    gaps = selection.gaps(question)
    dark = [gap for gap in gaps if absence and gap.reason != "mask"]
    nobody = N_("not everything was recorded, and nobody is known to be absent then: {spans}")
    said = _gap_sentences(dark, local, nobody)
    least = N_("not everything was recorded, so counts are at least: {spans}")
    said += _gap_sentences([gap for gap in gaps if gap not in dark], local, least)
    begun = {name: first for name, (first, _) in selection.ends().items() if name in (asked or (name,))}
    if begun and question.span.until and question.span.until <= min(begun.values()):
        camera, first = min(begun.items(), key=lambda each: each[1])
        message = N_("nobody watched then: the first record is of {begin}, on camera {camera}")
        said.append(tell(message, begin=local_words(first, local), camera=camera))
    now = question.asked_at or datetime.now(UTC)
    until_now = (absence or "gap" in question.filters.kinds) and (question.span.until or now) >= now
    if question.filters.open or until_now:
        message = N_(
            "what is there now is not known of camera {camera} since {last}, when it was last watched"
        )
        for camera, last in selection.unwatched(question).items():
            said.append(tell(message, camera=camera, last=local_words(last, local)))
    found = spells(selection, question) if question.of_spells else []
    if len(found) > 1:
        total = duration_words(sum(each.seconds for each in found))
        said.append(tell("{length} in all, in {number} spans", length=total, number=f"{len(found):,}"))
    visits = selection.visits(question) if question.measure.durations and not question.of_spells else []
    if len(visits) > 1:
        mean = duration_words(sum(visit.seconds for visit in visits) / len(visits))
        said.append(tell("on average {length}, over {number} visits", length=mean, number=f"{len(visits):,}"))
    for each in selection.unsure(question):
        seen = dict.fromkeys(local_words(at, local) for at in (each.first, each.last))
        message = ngettext(
            "{number} more visit recorded as {open}, whose kind was not sure, may be of a {classes}: {seen} "
            "({option} finds them)",
            "{number} more visits recorded as {open}, whose kind was not sure, may be of a {classes}: "
            "{seen}, the first and the last ({option} finds them)",
            each.visits,
        )
        said.append(
            message.format(
                number=f"{each.visits:,}",
                open=_(each.open_class),
                classes=join(map(_, each.classes.split(" or ")), N_("{one} or {other}")),
                seen=join(seen, N_("{one} and {other}")),
                option=f'"{each.open_class}"',  # in a question, or with --object
            )
        )
    return said


def _gap_sentences(gaps: Sequence[Gap], local: LocalTime, message: str) -> list[str]:
    if not gaps:
        return []
    spans = ", ".join(
        tell(
            "{camera} {begin} to {end} ({reason})",
            camera=gap.camera,
            begin=local_words(gap.begin, local),
            end=_end_words(gap.begin, gap.end, local),
            reason=_(_REASONS.get(gap.reason, gap.reason)),
        )
        for gap in gaps[-_GAPS:]
    )
    if len(gaps) > _GAPS:
        spans = tell("{spans} and {number} before", spans=spans, number=f"{len(gaps) - _GAPS:,}")
    return [tell(message, spans=spans)]


def _end_words(begin: datetime, end: datetime, local: LocalTime) -> str:
    same_day = local.of(begin).date() == local.of(end).date()
    return f"{local.of(end):%H:%M:%S}" if same_day else local_words(end, local)
