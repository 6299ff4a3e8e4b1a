"""Narrations as subtitles that open beside the video in any player."""

import html
from collections.abc import Sequence
from datetime import datetime

from pipeline.record import Record

_SHOWN_S = 5.0
_SHORTEST_S = 1.5


def subtitles(records: Sequence[Record], start: datetime) -> str:
    """WebVTT: each sentence from its own time on, or else from its record's after frame.

    Cues are relative to `start`. Sentences of one moment share one, which lasts until the next one or for
    five seconds, and 1.5 s at least, beside the next one if need be.
    """
    cues: dict[float, list[str]] = {}
    for record in records:
        texts = [(s.text, s.time) for s in record.sentences] or [(record.text, None)] * bool(record.text)
        for text, time in texts:
            line = html.escape(" ".join(text.split()), quote=False)  # an arrow would begin another cue
            offset = (datetime.fromisoformat(time or record.after.time) - start).total_seconds()
            cues.setdefault(max(0.0, round(offset, 3)), []).append(line)
    offsets = sorted(cues)
    blocks = ["WEBVTT\n"]
    for number, offset in enumerate(offsets, 1):
        following = offsets[number] if number < len(offsets) else offset + _SHOWN_S
        end = max(offset + _SHORTEST_S, min(offset + _SHOWN_S, following))
        lines = "\n".join(cues[offset])
        blocks.append(f"{number}\n{_timestamp(offset)} --> {_timestamp(end)}\n{lines}\n")
    return "\n".join(blocks)


def _timestamp(seconds: float) -> str:
    minutes, milliseconds = divmod(round(seconds * 1000), 60_000)
    return f"{minutes // 60:02d}:{minutes % 60:02d}:{milliseconds // 1000:02d}.{milliseconds % 1000:03d}"
