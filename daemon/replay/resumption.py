"""What lets an interrupted replay go on: which cameras are finished, and what came of each.

The file ``unfinished.json`` is in the folder of a replay from its first camera's end to its own. A camera
that was not finished is narrated anew from its beginning, so that the record is the same to the byte as one
that nobody interrupted.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from daemon.config.plan import CameraPlan
from daemon.replay.inputs import ReplayInput
from daemon.threads.camera_thread import Span
from models.captioner import Captioner
from pipeline.disk import replace_file

_NAME = "unfinished.json"


class ResumptionError(Exception):
    """The replay in a folder cannot go on; the message says what to do."""


class Outcome(BaseModel):
    """What came of one camera's footage, beside its records.

    Attributes:
        first, last: times of its first and last frame; None where there was none.
        read_s: seconds of footage read.
        problems: one line each.
        untold: how many sentences were found and not told, by reason.
    """

    model_config = ConfigDict(frozen=True)

    first: datetime | None
    last: datetime | None
    read_s: float
    problems: tuple[str, ...]
    untold: dict[str, int]


class _ReplayState(BaseModel):
    of: str
    finished: dict[str, Outcome] = {}


class Resumption:
    """The cameras of a replay that are finished.

    Args:
        folder: of the replay's output.
        of: see `identity`.
        resume: whether an earlier replay there goes on; else its state is forgotten.

    Attributes:
        finished: by camera.

    Raises:
        ResumptionError: `resume`, and what is there is complete, damaged, or of another replay.
    """

    def __init__(self, folder: Path, of: str, *, resume: bool) -> None:
        self._path = folder / _NAME
        self._state = _ReplayState(of=of)
        if resume and folder.exists() and any(folder.iterdir()):
            self._state = self._read(folder)
            if self._state.of != of:
                raise ResumptionError(
                    f"{folder} holds a replay of other footage, settings or weights: resume with the same "
                    "arguments, or narrate anew with --force"
                )
        else:
            self._path.unlink(missing_ok=True)

    @property
    def finished(self) -> Mapping[str, Outcome]:
        """By camera."""
        return self._state.finished

    def note(self, camera: str, outcome: Outcome) -> None:
        """A camera is finished, and all its records are journalled.

        Raises:
            OSError: the folder cannot be written.
        """
        self._state.finished[camera] = outcome
        self.save()

    def save(self) -> None:
        """Say that the replay has begun and is not complete; see `note`."""
        replace_file(self._path, self._state.model_dump_json(indent=1).encode(), durable=False)

    def forget(self, camera: str) -> None:
        """A camera's narrations are not whole any more."""
        del self._state.finished[camera]

    def clear(self) -> None:
        """The replay is complete."""
        self._path.unlink(missing_ok=True)

    def _read(self, folder: Path) -> _ReplayState:
        try:
            return _ReplayState.model_validate_json(self._path.read_bytes())
        except FileNotFoundError:
            raise ResumptionError(
                f"{folder} holds nothing that was interrupted: give another --out, or --force to narrate anew"
            ) from None
        except (OSError, ValidationError) as error:
            raise ResumptionError(f"{self._path} cannot be read: narrate anew with --force") from error


def identity(footage: Iterable[ReplayInput], captioner: Captioner, plan: CameraPlan, span: Span) -> str:
    """Hash (hex) of everything that decides what a replay tells: two that share it write the same record."""
    parts = [
        captioner.sha256,
        plan.settings_sha256(captioner, limits=True),
        repr((plan.evidence, plan.source.start, span)),
    ]
    for each in footage:
        for path in each.paths:
            if remote := each.remote.get(path):
                parts.append(repr((each.camera, remote.name, remote.stamp)))
                continue
            found = path.stat() if path.exists() else None
            written = (found.st_size, found.st_mtime_ns) if found else None
            parts.append(repr((each.camera, str(path.resolve()), written)))
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()
