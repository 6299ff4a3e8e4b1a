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
    """WebVTT: each narration from its after frame on, until the next one or for five seconds.

    Args:
        records: of one camera, in the order of their times.
        start: time of the clip's first frame; cues are relative to it.

    Returns:
        The file's content. A narration is shown for 1.5 s at least, beside the next one if need be.
    """
    offsets = [max(0.0, (record.after.moment - start).total_seconds()) for record in records]
    captions = []
    for index, (record, offset) in enumerate(zip(records, offsets, strict=True)):
        following = offsets[index + 1] if index + 1 < len(offsets) else offset + _SHOWN_S
        end = max(offset + _SHORTEST_S, min(offset + _SHOWN_S, following))
        text = "\n".join(_cue_line(sentence.text) for sentence in record.sentences)
        captions.append(Caption(_timestamp(offset), _timestamp(end), text, identifier=str(record.seq)))
    return str(WebVTT(captions=captions).content).rstrip("\n") + "\n"


def _cue_line(text: str) -> str:
    """One line of a cue: no markup, no line end, and no arrow, which would begin another cue."""
    return html.escape(" ".join(text.split()), quote=False)


def _timestamp(seconds: float) -> str:
    milliseconds = round(seconds * 1000)
    minutes, rest = divmod(milliseconds, 60_000)
    return f"{minutes // 60:02d}:{minutes % 60:02d}:{rest // 1000:02d}.{rest % 1000:03d}"
