"""Which records a target is sent, and which of their sentences."""

from __future__ import annotations

import re
from datetime import datetime, time, tzinfo
from fnmatch import fnmatchcase

from daemon.config.forward import FilterSettings
from pipeline.record import Record, RecordSentence


class Filter:
    """Selects sentences: one passes where camera and hour fit and it meets every condition.

    A zone is recognized by its words in the sentence, which are the narrator's own. An event of the whole
    scene has no object and stands in no zone, so that a condition on either leaves it out.

    Args:
        settings: the conditions.
        zone: time zone of the hours; None is the machine's.
    """

    def __init__(self, settings: FilterSettings, zone: tzinfo | None = None) -> None:
        self._settings, self._zone = settings, zone
        self._places = [
            re.compile(rf"(?<!\w){re.escape(name)}(?!\w)", re.IGNORECASE) for name in settings.zone
        ]
        self._hours = [time.fromisoformat(hour) for hour in (settings.hours or "").split("-") if hour]

    def select(self, record: Record) -> tuple[RecordSentence, ...] | None:
        """The sentences to be sent; None where the target is sent nothing of the record.

        A record without sentences (a gap) passes, empty, where nothing is asked of sentences; one of a
        deletion only where `kind` asks for it. What a limit holds is not sent.
        """
        asked = self._settings
        if record.held or not self.has_camera(record.camera) or not self._in_hours(record.after.moment):
            return None
        if not record.sentences:
            wanted = record.event in asked.kind if asked.kind else record.event != "deletion"
            return () if wanted and not (asked.zone or asked.object or asked.confidence) else None
        return tuple(s for s in record.sentences if self._passes(record, s)) or None

    def has_camera(self, name: str) -> bool:
        """True where the camera is one of those asked for."""
        asked = self._settings.camera
        return not asked or any(fnmatchcase(name, pattern) for pattern in asked)

    def _passes(self, record: Record, sentence: RecordSentence) -> bool:
        asked = self._settings
        return (
            (not asked.kind or bool({kind_of(record, sentence), sentence.action} & set(asked.kind)))
            and (not asked.object or sentence.object in asked.object)
            and (not asked.zone or any(place.search(sentence.text) for place in self._places))
            and sentence.confidence >= asked.confidence
        )

    def _in_hours(self, moment: datetime) -> bool:
        if not self._hours:
            return True
        begin, end = self._hours
        now = moment.astimezone(self._zone).time()
        if begin == end:
            return True
        return begin <= now < end if begin < end else now >= begin or now < end


def kind_of(record: Record, sentence: RecordSentence) -> str:
    """The type of the sentence, or the event of the whole scene."""
    if record.event != "change":
        return record.event
    return "unknown" if sentence.type == "none" else sentence.type
