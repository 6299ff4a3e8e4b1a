"""Which narrations a target is sent, and which of their sentences."""

from __future__ import annotations

import re
from datetime import datetime, time, tzinfo
from fnmatch import fnmatchcase

from daemon.config.forward import FilterSettings
from pipeline.record import Record, RecordSentence


class Filter:
    """Chooses sentences: one passes where camera and hour fit and it has all that is asked for.

    A zone is known by its words in the sentence, which are the narrator's own. An event of the whole scene
    has no object and stands in no zone, so that a filter for either leaves it out.

    Args:
        settings: what is asked for.
        zone: in which the hours are told; None is the machine's.
    """

    def __init__(self, settings: FilterSettings, zone: tzinfo | None = None) -> None:
        self._settings, self._zone = settings, zone
        self._places = [
            re.compile(rf"(?<!\w){re.escape(name)}(?!\w)", re.IGNORECASE) for name in settings.zone
        ]
        self._hours = _span(settings.hours) if settings.hours else None

    def passing(self, record: Record) -> tuple[RecordSentence, ...] | None:
        """The sentences to be sent; None where the target is sent nothing of the record.

        A record without sentences passes, empty, where nothing is asked of sentences: that a camera has
        reached its hourly cap is told in none.
        """
        asked = self._settings
        if not self.has_camera(record.camera):
            return None
        if self._hours and not self._in_hours(record.after.moment):
            return None
        if not record.sentences:
            wanted = not asked.kind or record.event in asked.kind
            return () if wanted and not (asked.zone or asked.object or asked.confidence) else None
        return tuple(s for s in record.sentences if self._wanted(record, s)) or None

    def has_camera(self, name: str) -> bool:
        """Whether the camera is one of those asked for."""
        asked = self._settings.camera
        return not asked or any(fnmatchcase(name, pattern) for pattern in asked)

    def _wanted(self, record: Record, sentence: RecordSentence) -> bool:
        asked = self._settings
        return (
            (not asked.kind or kind_of(record, sentence) in asked.kind)
            and (not asked.object or sentence.object in asked.object)
            and (not asked.zone or any(place.search(sentence.text) for place in self._places))
            and sentence.confidence >= asked.confidence
        )

    def _in_hours(self, moment: datetime) -> bool:
        begin, end = self._hours or (time(), time())
        now = moment.astimezone(self._zone).time()
        if begin == end:
            return True
        return begin <= now < end if begin < end else now >= begin or now < end


def kind_of(record: Record, sentence: RecordSentence) -> str:
    """The kind of change that a sentence tells: its type, or the event of the whole scene."""
    if record.event != "change":
        return record.event
    return "unknown" if sentence.type == "none" else sentence.type


def _span(hours: str) -> tuple[time, time]:
    begin, _, end = hours.partition("-")
    return time.fromisoformat(begin), time.fromisoformat(end)
