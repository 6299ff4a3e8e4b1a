"""The shapes of an answer: lines for people, JSON, CSV, subtitles."""

from __future__ import annotations

import csv
import html
import io
import json
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any

from daemon.config.durations import format_offset
from daemon.questions.errors import SearchError
from daemon.questions.local_time import LocalTime
from daemon.questions.question import Question
from daemon.questions.restatement import duration_words
from daemon.search.found import FoundRecord
from daemon.search.search import Search
from daemon.search.selection import Gap, Group, Visit
from pipeline.report.words import has_date

CSV_COLUMNS = (
    *("time", "local_time", "camera", "seq", "event", "kinds", "objects", "confidence", "text", "marks"),
    *("before", "after", "overlay", "id"),
)


_GAPS = 3
"""The newest spans, which are named one by one."""


def local_words(moment: datetime, local: LocalTime) -> str:
    """A time as people here read it; of footage without a date how far into it."""
    if not has_date(moment):
        return format_offset(moment.timestamp())
    return f"{local.of(moment):%a %Y-%m-%d %H:%M:%S}"


def table(found: Iterable[FoundRecord], local: LocalTime) -> Iterator[str]:
    """Lines for people: local time, camera, how sure, what is told, and what should be known of it."""
    for each in found:
        record = each.record
        sure = f"{max((s.confidence for s in record.sentences), default=0.0):4.0%}"
        text = " ".join(record.text.split())
        marks = "".join(f"  ! {mark}" for mark in each.marks)
        yield f"{local_words(record.after.moment, local):<23}  {record.camera:<12}  {sure}  {text}{marks}"


def json_lines(found: Iterable[FoundRecord], local: LocalTime) -> Iterator[str]:
    """One JSON object a line: the record's members, and what is known of it.

    `evidence` names only pictures that are there, `pictures` their files; `marks` and `local_time` are ours.
    """
    for each in found:
        members = json.loads(each.record.line())
        members.pop("evidence", None)
        evidence = each.record.evidence.model_dump(exclude_none=True) if each.record.evidence else {}
        members |= (
            {"evidence": kept} if (kept := {s: d for s, d in evidence.items() if s in each.pictures}) else {}
        )
        members |= {
            "local_time": local.of(each.record.after.moment).isoformat(),
            "marks": list(each.marks),
            "pictures": {side: str(path) for side, path in each.pictures.items()},
        }
        yield json.dumps(members, ensure_ascii=False)


def comma_separated(found: Iterable[FoundRecord], local: LocalTime) -> Iterator[str]:
    """CSV (RFC 4180) with a head; a text that a spreadsheet takes for a formula gets a quote in front."""
    yield _row(CSV_COLUMNS)
    for each in found:
        record = each.record
        yield _row(
            (
                record.after.time,
                local.of(record.after.moment).isoformat(),
                record.camera,
                record.seq,
                record.event,
                " ".join(dict.fromkeys(s.type for s in record.sentences)),
                " ".join(record.objects),
                max((s.confidence for s in record.sentences), default=0.0),
                _safe(record.text),
                "; ".join(each.marks),
                *(str(each.pictures.get(side, "")) for side in ("before", "after", "overlay")),
                record.id,
            )
        )


def web_subtitles(found: Sequence[FoundRecord], start: datetime | None) -> str:
    """WebVTT beside a recording of one camera.

    Args:
        found: in the order of their times.
        start: when the recording begins; None is the before frame of the first narration.

    Raises:
        SearchError: they are of several cameras.
    """
    from pipeline.report.subtitles import subtitles  # noqa: PLC0415 - loads webvtt

    records = [each.record for each in found]
    cameras = sorted({record.camera for record in records})
    if len(cameras) > 1:
        raise SearchError(f"subtitles are for one camera: add --camera with one of {', '.join(cameras)}")
    if not records:
        return "WEBVTT\n"
    return subtitles(records, start or records[0].before.moment)


def plain_subtitles(found: Sequence[FoundRecord], start: datetime | None) -> str:
    """SRT beside a recording of one camera; arguments and errors as of `web_subtitles`."""
    from webvtt import WebVTT  # noqa: PLC0415

    if not found:
        return ""
    written = io.StringIO()
    WebVTT.from_string(web_subtitles(found, start)).write(written, format="srt")
    return html.unescape(written.getvalue()).rstrip("\n") + "\n"


def gap_sentences(search: Search, question: Question) -> list[str]:
    """One sentence about what was not recorded of the span that is asked for; mostly none."""
    gaps = search.gaps(question)
    if not gaps:
        return []
    spans = [
        f"{gap.camera} {local_words(gap.begin, search.local)} to {_end_words(gap, search.local)} "
        f"({gap.reason.replace('_', ' ')})"
        for gap in gaps[-_GAPS:]
    ]
    more = f" and {len(gaps) - _GAPS:,} before" if len(gaps) > _GAPS else ""
    return [f"not everything was recorded, so counts are at least: {', '.join(spans)}{more}"]


def _end_words(gap: Gap, local: LocalTime) -> str:
    if local.of(gap.begin).date() != local.of(gap.end).date():
        return local_words(gap.end, local)
    return f"{local.of(gap.end):%H:%M:%S}"


def visit_table(visits: Iterable[Visit], local: LocalTime) -> Iterator[str]:
    """Lines for people: from when to when, camera, object, and how long."""
    for visit in visits:
        end = f"{local.of(visit.end):%H:%M:%S}" if visit.end else "still there"
        if visit.end and local.of(visit.end).date() != local.of(visit.begin).date():
            end = local_words(visit.end, local)
        span = f"{local_words(visit.begin, local)} to {end}"
        yield f"{span:<50}  {visit.camera:<12}  {visit.object:<10}  {duration_words(visit.seconds)}"


def visit_json(visits: Iterable[Visit], local: LocalTime) -> Iterator[str]:
    """One JSON object a visit; `until` is null of who is still there."""
    for visit in visits:
        members = {
            "camera": visit.camera,
            "track": visit.track,
            "object": visit.object,
            "since": local.of(visit.begin).isoformat(),
            "until": local.of(visit.end).isoformat() if visit.end else None,
            "duration_s": round(visit.seconds, 3),
        }
        yield json.dumps(members, ensure_ascii=False)


def count_table(groups: Sequence[Group], by: Sequence[str]) -> Iterator[str]:
    """Lines for people."""
    heads = (*(name.replace("-", " ") for name in by), "visits", "narrations")
    rows = [(*g.labels, f"{g.visits:,}", f"{g.narrations:,}") for g in groups]
    widths = [max([len(heads[n]), *(len(row[n]) for row in rows)]) for n in range(len(heads))]
    for row in (heads, *rows):
        cells = [
            cell.ljust(w) if n < len(by) else cell.rjust(w)
            for n, (cell, w) in enumerate(zip(row, widths, strict=True))
        ]
        yield "  ".join(cells).rstrip()


def count_json(groups: Sequence[Group], by: Sequence[str]) -> Iterator[str]:
    """One JSON object a group."""
    for group in groups:
        labels: dict[str, Any] = dict(zip(by, group.labels, strict=True))
        counts = {"visits": group.visits, "narrations": group.narrations}
        yield json.dumps(labels | counts, ensure_ascii=False)


def count_comma_separated(groups: Sequence[Group], by: Sequence[str]) -> Iterator[str]:
    """CSV with a head."""
    yield _row((*by, "visits", "narrations"))
    for group in groups:
        yield _row((*group.labels, group.visits, group.narrations))


def _safe(text: str) -> str:
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t", "\r") else text


def _row(values: Iterable[object]) -> str:
    written = io.StringIO()
    csv.writer(written, lineterminator="").writerow(values)
    return written.getvalue()
