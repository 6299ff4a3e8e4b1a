"""Spans of the record that retention does not touch: ``holds.json`` beside the folder of journals."""

from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Annotated

from pydantic import AwareDatetime, BaseModel, ConfigDict, StringConstraints, TypeAdapter

from pipeline.disk import locking, replace_file
from pipeline.journal.segments import JournalError, Segment, find_chains
from pipeline.record import Record, read_record
from pipeline.record_format import RecordError

_MODE = 0o644  # root may hold what another user's daemon must then keep; the folder is private


class Hold(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Annotated[str, StringConstraints(min_length=1, max_length=64)]
    cameras: tuple[str, ...] = ()  # whose records; empty for all
    since: AwareDatetime
    until: AwareDatetime
    reason: Annotated[str, StringConstraints(min_length=1)]
    ends: AwareDatetime | None = None  # when it ends by itself; None holds until it is released
    made: AwareDatetime  # when, and by which user
    by: str = ""

    def covers(self, first: Record, last: Record, now: datetime) -> bool:
        # the clock may have been set back in between
        begin, end = min(first.before.moment, last.before.moment), max(first.after.moment, last.after.moment)
        in_time = self.since <= end and begin <= self.until
        ours = not self.cameras or first.camera in self.cameras
        return ours and in_time and (self.ends is None or now < self.ends)


_HOLDS = TypeAdapter(tuple[Hold, ...])


def load_holds(journals: Path) -> tuple[Hold, ...]:
    """The holds on journals, oldest first; JournalError where unreadable: then nothing may be deleted."""
    path = _holds_path(journals)
    try:
        return _HOLDS.validate_json(path.read_bytes()) if path.exists() else ()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it was not written by `narrated hold`"
        raise JournalError(f"{path} cannot be read ({reason}): nothing is deleted until it can") from None


def add_hold(journals: Path, hold: Hold) -> None:
    """Hold a span; JournalError where a hold has its name, or the file cannot be read."""
    with locking(journals, wait=True):  # each change writes the whole file
        holds = load_holds(journals)
        if any(each.name == hold.name for each in holds):
            raise JournalError(f"a hold is already called {hold.name!r}: choose another name")
        _save(journals, (*holds, hold))


def count_held(journals: Path, hold: Hold, now: datetime) -> int:
    """The number of records that a hold covers; what cannot be read is not counted."""
    count = 0
    for path in (path for chain in find_chains([journals])[0] for path in chain.files):
        with suppress(OSError, RecordError):
            segment = Segment(path, 0)
            if not hold.covers(segment.first_record(), segment.last_record(), now):
                continue
        with suppress(OSError), path.open("rb") as lines:
            for line in lines:
                with suppress(RecordError):
                    record = read_record(line)
                    count += hold.covers(record, record, now)
    return count


def release_hold(journals: Path, name: str) -> None:
    with locking(journals, wait=True):
        holds = load_holds(journals)
        left = tuple(each for each in holds if each.name != name)
        if len(left) == len(holds):
            names = ", ".join(each.name for each in holds)
            raise JournalError(f"no hold is called {name!r}; there {f'are {names}' if names else 'are none'}")
        _save(journals, left)


def _save(journals: Path, holds: tuple[Hold, ...]) -> None:
    replace_file(_holds_path(journals), _HOLDS.dump_json(holds, indent=1) + b"\n", durable=True, mode=_MODE)


def _holds_path(journals: Path) -> Path:
    return journals.parent / "holds.json"
