"""Narrations as subtitles that open beside the video in any player."""

from __future__ import annotations

import html
from collections.abc import Sequence
from datetime import datetime

from webvtt import Caption, WebVTT

from pipeline.record import Record

_SHOWN_S = 5.0
_SHORTEST_S = 1.5


def subtitles(records: Sequence[Record], start: datetime) -> str:
    """WebVTT: each sentence from its own time on, or else from its record's after frame.

    Args:
        records: of one camera.
        start: time of the clip's first frame; cues are relative to it.

    Returns:
        The file's content. Sentences of one moment share a cue, which lasts until the next one or for five
        seconds, and 1.5 s at least, beside the next one if need be.
    """
    cues: dict[float, list[str]] = {}
    for record in records:
        for text, moment in _timed(record):
            cues.setdefault(max(0.0, round((moment - start).total_seconds(), 3)), []).append(text)
    offsets = sorted(cues)
    captions = []
    for index, offset in enumerate(offsets):
        following = offsets[index + 1] if index + 1 < len(offsets) else offset + _SHOWN_S
        end = max(offset + _SHORTEST_S, min(offset + _SHOWN_S, following))
        text = "\n".join(map(_cue_line, cues[offset]))
        captions.append(Caption(_timestamp(offset), _timestamp(end), text, identifier=str(index + 1)))
    return str(WebVTT(captions=captions).content).rstrip("\n") + "\n"


def _timed(record: Record) -> list[tuple[str, datetime]]:
    """The texts of a record's sentences and their times."""
    if not record.sentences:
        return [(record.text, record.after.moment)] if record.text else []
    return [(s.text, datetime.fromisoformat(s.time or record.after.time)) for s in record.sentences]


def _cue_line(text: str) -> str:
    """One line of a cue: no markup, no line end, and no arrow, which would begin another cue."""
    return html.escape(" ".join(text.split()), quote=False)


def _timestamp(seconds: float) -> str:
    milliseconds = round(seconds * 1000)
    minutes, rest = divmod(milliseconds, 60_000)
    return f"{minutes // 60:02d}:{minutes % 60:02d}:{rest // 1000:02d}.{rest % 1000:03d}"
