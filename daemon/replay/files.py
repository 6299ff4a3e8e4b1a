"""The files of a replay: its footage, by camera, and the folder of its results.

There are growing journals, at the end narrations.jsonl, subtitles and report.html. Until it is complete,
``unfinished.json`` says which cameras are finished; a resumed replay narrates the others from their
beginning, so that the record is the same to the byte.
"""

import hashlib
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from daemon.config.plan import CameraPlan
from models.captioner import Captioner
from pipeline.camera_state import CAMERA_MEMORY, CameraMemory
from pipeline.disk import locking, replace_file
from pipeline.evidence import EvidenceStore
from pipeline.journal import JournalError, read_camera
from pipeline.narration.narration import FrameStamp
from pipeline.record import Record
from pipeline.record_format import check_camera
from pipeline.report.page import Head, write_report
from pipeline.sources import LONGEST_NAME, SourceError, find_files, redact, slug
from pipeline.sources.stills import is_still
from pipeline.sources.times import name_without_stamp

UNFINISHED = "unfinished.json"
_MARKS = ("narrations.jsonl", UNFINISHED)  # one of them is in every folder that a replay wrote
_OWN = ("narrations.jsonl", "report.html", "journal/*")
_REMOVED = ("journal", "evidence", "*.vtt")


@dataclass(frozen=True, slots=True)
class ReplayInput:
    """Files of one camera, read one after the other: videos, or stills, or one folder of stills."""

    camera: str
    paths: tuple[Path, ...]


def find_footage(places: Sequence[str], camera: str | None = None) -> list[ReplayInput]:
    """Expand files, folders (the videos in it, or its stills if there are none) and globs, in their order.

    All of it is of the one `camera`. Without a name every file is a camera, but for names with a time stamp
    (grouped by the rest of the name) and stills (by their folder). A path that does not exist fails when it
    is opened; a folder or a pattern that holds nothing raises `SourceError`, a bad name `RecordError`.
    """
    paths = list(dict.fromkeys(path for place in places for path in _expand(place)))
    if camera is not None:
        return [ReplayInput(check_camera(camera), tuple(paths))]
    groups: dict[tuple[str, Path], list[Path]] = {}
    for path in paths:
        groups.setdefault(_group(path), []).append(path)
    names = _distinct([(name, place) for name, place in groups])
    return [ReplayInput(name, tuple(group)) for name, group in zip(names, groups.values(), strict=True)]


def _expand(place: str) -> list[Path]:
    if not place:  # of a variable that is not set; as a path it is the folder that we are in
        raise SourceError("an empty path is given: name files, folders or globs")
    if "://" in place:
        advice = "copy or mount what lies elsewhere; a camera belongs in the configuration of `narrated run`"
        raise SourceError(f"{redact(place)}: replay takes files, folders and globs: {advice}")
    return find_files(Path(place).expanduser())


def _group(path: Path) -> tuple[str, Path]:
    """Name of the file's camera, and a path that differs between cameras of the same name."""
    if is_still(path):
        return path.resolve().parent.name, path.parent
    if rest := name_without_stamp(path):
        return rest, path.parent
    return path.stem, path


def _distinct(named: Sequence[tuple[str, Path]]) -> list[str]:
    plain = [slug(name) for name, _ in named]
    longer = [
        name if plain.count(name) == 1 else slug(f"{path.resolve().parent.name}_{name}")
        for name, (_, path) in zip(plain, named, strict=True)
    ]
    names: list[str] = []
    for name in longer:
        number, distinct = 2, name
        while distinct in names:
            distinct, number = f"{name[: LONGEST_NAME - 4]}_{number}", number + 1
        names.append(distinct)
    return names


class ReplayError(Exception):
    """A folder, a cluster or the demo's clip cannot be used; the message says what to do."""


class Outcome(BaseModel):
    model_config = ConfigDict(frozen=True)

    first: datetime | None  # times of its first and last frame; None where there was none
    last: datetime | None
    read_s: float  # seconds of footage read
    problems: tuple[str, ...]  # one line each
    repeated: int  # number of sentences that only repeated what was reported


class _State(BaseModel):
    of: str
    finished: dict[str, Outcome] = {}


def check_output(folder: Path, *, force: bool) -> None:
    """Raise `ReplayError` where narrations would be replaced without `force`, or what no replay wrote."""
    if folder.exists() and not folder.is_dir():
        raise ReplayError(f"{folder} is not a folder: give another --out")
    others = [path.name for name in _REMOVED for path in folder.glob(name)]
    if others and not any((folder / name).exists() for name in _MARKS):
        raise ReplayError(f"{folder} holds {', '.join(sorted(others))} of no replay: give another --out")
    files = (path for name in _OWN for path in folder.glob(name) if path.is_file())
    if not force and any(path.stat().st_size for path in files):
        raise ReplayError(f"{folder} holds narrations already: give another --out, --force, or --resume")


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Make a folder where it is missing, and keep other replays out of it; raises `ReplayError`."""
    with ExitStack() as lock:
        with _writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
            try:
                lock.enter_context(locking(folder, wait=False))
            except BlockingIOError:
                raise ReplayError(f"another replay writes {folder}: give another --out") from None
        yield


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ReplayError(f"cannot write {folder}: {error.strerror}: make room and --resume") from None


class OutputFolder:
    """The folder of a replay, in which every file is complete, or absent; raises `ReplayError`.

    What an earlier replay wrote there is removed, but for what a resumed one keeps: `finished`, the outcomes
    of the cameras that are finished, and their `records`.
    """

    def __init__(self, folder: Path, of: str, *, resume: bool = False) -> None:
        self.folder, self.journal, self.evidence = folder, folder / "journal", folder / "evidence"
        self.records: dict[str, list[Record]] = {}
        with _writing(folder):
            self._state = self._read_state(of) if resume and any(folder.iterdir()) else _State(of=of)
            self._save()  # before anything is removed: the folder is a replay's
            self.finished = self._state.finished
            self._restore()
            for old in [folder / "narrations.jsonl", folder / "report.html", *folder.glob("*.vtt")]:
                old.unlink(missing_ok=True)
            if not self.records and self.evidence.exists():
                shutil.rmtree(self.evidence)

    def adopt(self, camera: str, outcome: Outcome, files: Mapping[str, bytes]) -> list[Record]:
        """Take a camera that was narrated elsewhere: journal and pictures, by their paths in the folder."""
        with _writing(self.folder):
            for name, content in files.items():
                path = self.folder / name
                path.parent.mkdir(parents=True, exist_ok=True)
                replace_file(path, content, durable=name.startswith("journal/"))
            self.finish_camera(camera, outcome)
        return list(read_camera(self.journal, camera))

    def finish_camera(self, camera: str, outcome: Outcome) -> None:
        self.finished[camera] = outcome
        if outcome.last:
            seen = FrameStamp(outcome.last, 0, "")
            CameraMemory(self.folder / CAMERA_MEMORY / f"{camera}.json").save(seen, None)
        with _writing(self.folder):
            self._save()

    def finish(self, head: Head, spans: Mapping[str, tuple[datetime, datetime]], *, complete: bool) -> None:
        """Write narrations.jsonl, the subtitles and the page; `complete` where nothing is left to resume."""
        with _writing(self.folder):
            write_report(self.folder, self.records, head, self.evidence, spans)
            if complete:
                (self.folder / UNFINISHED).unlink(missing_ok=True)

    def discard(self) -> None:
        """Remove what was written: not one frame could be read."""
        (self.folder / UNFINISHED).unlink(missing_ok=True)
        shutil.rmtree(self.journal, ignore_errors=True)
        with suppress(OSError):
            self.folder.rmdir()

    def _restore(self) -> None:
        """Read the records of finished cameras, and remove the journals of all others."""
        store = EvidenceStore(self.evidence)
        for camera in list(self.finished):
            with suppress(JournalError):
                records = list(read_camera(self.journal, camera))
                named = [name for each in records for _, name in each.evidence or () if name]
                if all(map(store.find, named)):
                    self.records[camera] = records
            if camera not in self.records:  # a power failure took some of it
                del self.finished[camera]
        kept = {self.journal / f"{camera}.jsonl" for camera in self.records}
        for path in self.journal.glob("*"):
            if path not in kept:
                path.unlink()

    def _save(self) -> None:
        content = self._state.model_dump_json(indent=1).encode()
        replace_file(self.folder / UNFINISHED, content, durable=False)

    def _read_state(self, of: str) -> _State:
        try:
            state = _State.model_validate_json((self.folder / UNFINISHED).read_bytes())
        except (OSError, ValidationError):
            state = _State(of="")
        if state.of != of:
            advice = "resume with the same arguments, or start over with --force"
            raise ReplayError(f"{self.folder} holds no interrupted replay of the same: {advice}")
        return state


def identity(footage: Iterable[ReplayInput], captioner: Captioner, plan: CameraPlan, *begun: object) -> str:
    """Hash (hex) of everything that decides the record: two replays that share it write the same one."""
    settings = plan.settings_sha256(captioner, limits=True)
    parts = [captioner.sha256, settings, repr((plan.evidence, plan.source.start, begun))]
    for each in footage:
        for path in each.paths:
            stat = path.stat() if path.exists() else None
            written = (stat.st_size, stat.st_mtime_ns) if stat else None
            parts.append(repr((each.camera, str(path.resolve()), written)))
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()
