"""A target, the filter of its records and sentences, and a record as it is sent."""

import re
from dataclasses import dataclass
from datetime import datetime, time, tzinfo
from fnmatch import fnmatchcase
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from daemon.config.settings import FilterSettings, PictureChoice, TargetSettings
from daemon.digest.digest import Digest
from pipeline.evidence import EvidenceStore
from pipeline.record import Record, RecordSentence

TIMEOUT_S = 10.0  # longest wait for a target


class AwayError(Exception):
    """The target cannot be reached, or takes nothing now; try again later. The message holds no secret."""


class RefusedError(Exception):
    """The target rejects this message; it may take others. The message holds no secret."""


class Filter:
    """Selects the sentences that meet every condition.

    A zone is recognized by its words in the sentence. An event of the scene has no object and no zone: a
    condition on either rejects it. `zone` is the time zone of the hours; None is the machine's.
    """

    def __init__(self, settings: FilterSettings, zone: tzinfo | None = None) -> None:
        self._settings, self._zone = settings, zone
        self._places = [
            re.compile(rf"(?<!\w){re.escape(name)}(?!\w)", re.IGNORECASE) for name in settings.zone
        ]
        self._hours = [time.fromisoformat(hour) for hour in (settings.hours or "").split("-") if hour]

    def select(self, record: Record) -> tuple[RecordSentence, ...] | None:
        """The sentences to send; None where the record is not sent.

        A record without sentences (a gap) passes, empty, where no condition is on sentences; one of a
        deletion only where `kind` asks for it. Records that a limit holds are not sent.
        """
        asked = self._settings
        if record.held or not self.has_camera(record.camera) or not self._in_hours(record.after.moment):
            return None
        if not record.sentences:
            wanted = record.event in asked.kind if asked.kind else record.event != "deletion"
            return () if wanted and not (asked.zone or asked.object or asked.confidence) else None
        return tuple(s for s in record.sentences if self._passes(record, s)) or None

    def has_camera(self, name: str) -> bool:
        patterns = self._settings.camera
        return not patterns or any(fnmatchcase(name, pattern) for pattern in patterns)

    def _passes(self, record: Record, sentence: RecordSentence) -> bool:
        asked = self._settings
        return (
            (not asked.kind or bool({kind_of(record, sentence), sentence.action} & {*asked.kind}))
            and (not asked.object or sentence.object in asked.object)
            and (not asked.zone or any(place.search(sentence.text) for place in self._places))
            and sentence.confidence >= asked.confidence
        )

    def _in_hours(self, moment: datetime) -> bool:
        if not self._hours:
            return True
        begin, end = self._hours
        now = moment.astimezone(self._zone).time()
        return begin <= now < end if begin < end else now >= begin or now < end


@dataclass(frozen=True)
class Message:
    """A record for one target: the sentences that passed its filter, and the picture's file."""

    record: Record
    sentences: tuple[RecordSentence, ...]
    picture: Path | None = None

    @property
    def text(self) -> str:
        return " ".join(s.text for s in self.sentences) or self.record.text or self.record.event


def kind_of(record: Record, sentence: RecordSentence) -> str:
    """The type of the sentence, or the event of the scene."""
    if record.event != "change":
        return record.event
    return "unknown" if sentence.type == "none" else sentence.type


def find_picture(record: Record, store: EvidenceStore, choice: PictureChoice) -> Path | None:
    """The file of the chosen picture, of another one of the same pair, or None."""
    if record.evidence is None or choice == "none":
        return None
    references = [getattr(record.evidence, name) for name in (choice, "overlay", "after", "before")]
    return next((path for each in references if each and (path := store.find(each))), None)


class Target(Protocol):
    """Sends the messages of some cameras; for one thread. Opening it raises `AwayError`."""

    def __init__(self, settings: Any, name: str, cameras: list[str]) -> None: ...

    @classmethod
    def check(cls, settings: Any) -> str:
        """Why nothing can ever be sent as configured, without secrets; empty where it may."""

    def send(self, message: Message) -> None:
        """Deliver; raises `AwayError` or `RefusedError` where the target has not accepted the message.

        One that completes an earlier record (`continues`) is shown with that, where the target can.
        """

    def send_digest(self, digest: Digest) -> None:
        """Deliver a digest, likewise."""

    def close(self) -> None: ...


def target_class(settings: TargetSettings) -> type[Target]:
    """The class in the module of its kind; raises `ModuleNotFoundError` without its library."""
    module = import_module(f"daemon.forward.{settings.kind}")
    target: type[Target] = getattr(module, f"{settings.kind.title()}Target")
    return target
