"""Samples on disk, in the layout in which Spot-the-diff was released.

A folder holds the images ``<id>.png`` (before) and ``<id>_2.png`` (after) and one file per split,
``train.json``, ``val.json`` or ``test.json``: a list of ``{"img_id": ..., "sentences": [...]}``, where a
repeated id is a further annotator (Jhamtani and Berg-Kirkpatrick 2018, section 2). What
`train.papers.generated` writes has further keys, ``camera``, ``kind`` and ``changes``, which other readers
of the layout ignore. An entry may name its images by ``before`` and ``after``, relative to the folder.
"""

import json
import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import cv2
import numpy as np
from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from models.boxes import Box, area
from pipeline.sources import Image

SPLITS = ("train", "val", "test")
_Value = TypeVar("_Value")


class SampleError(Exception):
    """Samples cannot be read or written; the message names the file and says what to do."""


@dataclass(frozen=True, slots=True)
class SampleChange:
    type: str  # appeared, disappeared, moved, more, fewer or replaced
    object: str  # class of the object (person, car, ...)
    count: int  # number of objects reported as one change
    box_before: Box | None  # ``(x, y, width, height)`` in 0..1; None where the object is not there
    box_after: Box | None
    sentence: str = ""  # what the caption says about it; empty until it is worded

    @property
    def area(self) -> float:
        """Area of the larger box, as a share 0..1 of the frame."""
        return max(area(b) for b in (self.box_before, self.box_after) if b is not None)


@dataclass(frozen=True, slots=True)
class Sample:
    id: str  # image id, unique in a split
    before: Path  # paths of the two images
    after: Path
    sentences: tuple[str, ...]  # the first annotator's sentences that have words in them
    changes: tuple[SampleChange, ...] = ()  # most salient first; empty where people annotated
    camera: str = ""  # the camera of a made pair, otherwise empty
    kind: str = ""  # changed, a kind of distractor or a type of change, where it is known
    further: tuple[tuple[str, ...], ...] = ()  # the other annotators' sentences

    @property
    def annotations(self) -> tuple[tuple[str, ...], ...]:
        return (self.sentences, *self.further)


class Entry(BaseModel):
    img_id: str = Field(pattern=r"^[\w.-]+$", coerce_numbers_to_str=True)
    sentences: list[str]
    before: str = ""
    after: str = ""
    camera: str = ""
    kind: str = ""
    changes: tuple[SampleChange, ...] = ()


_ENTRIES = TypeAdapter(list[Entry])


def load_samples(folder: Path, split: str) -> list[Sample]:
    """Read one split of a folder of samples; a repeated id is a further annotator of its sample.

    Blank sentences and sentences that are only a number (the released annotations have 66 and 63) are
    left out, and so is an annotation in which no word is left. Images are not opened.
    """
    path = folder / f"{split}.json"
    results: dict[str, Sample] = {}
    for entry in read_entries(path):
        name = entry.img_id
        sentences = tuple(" ".join(text.split()) for text in entry.sentences if has_words(text))
        if sentences and name in results:
            results[name] = replace(results[name], further=(*results[name].further, sentences))
        elif sentences:
            before = folder / (entry.before or f"{name}.png")
            after = folder / (entry.after or f"{name}_2.png")
            results[name] = Sample(name, before, after, sentences, entry.changes, entry.camera, entry.kind)
    if not results:
        raise SampleError(f"{path}: no sentence with a word in it; the split needs at least one caption")
    return list(results.values())


def read_entries(path: Path) -> list[Entry]:
    return read_json(path, _ENTRIES)


def read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        there = sorted(p.name for p in path.parent.iterdir())[:8] if path.parent.is_dir() else []
        raise SampleError(
            f"{path} does not exist; beside it is {', '.join(there) or 'nothing'}: unpack the release whole"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise SampleError(f"{path} cannot be read ({error}); fetch it again") from error


def read_json(path: Path, kind: TypeAdapter[_Value]) -> _Value:
    try:
        return kind.validate_python(json.loads(read_text(path)))
    except ValidationError as error:
        first = error.errors()[0]
        at = ".".join(map(str, first["loc"])) or "its content"
        raise SampleError(f"{path}: {at}: {first['msg']}; fetch it again") from error
    except ValueError as error:
        raise SampleError(f"{path} is not valid JSON ({error}); fetch it again") from error


def sample_entry(
    name: str, sentences: Iterable[str], camera: str, kind: str, changes: Iterable[object]
) -> dict[str, object]:
    """The JSON entry of an annotation, see `Sample`; changes as plain values."""
    own = {"img_id": name, "sentences": list(sentences), "camera": camera, "kind": kind}
    return {**own, "changes": list(changes)}


def has_words(text: str) -> bool:
    return re.search(r"[^\W\d_]", text) is not None


def image_in(path: Path) -> Image | None:
    """The image of a file, RGB uint8 ``(height, width, 3)``; None where it is missing or no image."""
    image = cv2.imread(str(path), cv2.IMREAD_COLOR)
    return None if image is None else np.asarray(cv2.cvtColor(image, cv2.COLOR_BGR2RGB), np.uint8)


def write_image(path: Path, image: Image, flags: Sequence[int] = (cv2.IMWRITE_PNG_COMPRESSION, 1)) -> None:
    """Write an RGB image ``(height, width, 3)``, lightly compressed unless OpenCV's flags say more."""
    bgr = np.ascontiguousarray(image[..., ::-1])
    if not cv2.imwrite(str(path), bgr, flags):
        raise SampleError(f"{path} cannot be written; is the disk full or the folder read-only?")


def write_entries(path: Path, entries: Iterable[object]) -> None:
    path.write_text("[\n" + ",\n".join(map(json.dumps, entries)) + "\n]\n", encoding="utf-8")


@contextmanager
def new_folder(out: Path) -> Iterator[Path]:
    """A folder to fill that becomes `out` only when the block ends without an error.

    A half-written folder must not be mistaken for a set of samples, so the work happens in
    ``<out>.part``, which an interrupted run leaves behind and the next run replaces.
    """
    if out.exists():
        raise SampleError(f"{out} exists already; delete it or choose another folder")
    part = out.with_name(out.name + ".part")
    try:
        if part.exists():
            shutil.rmtree(part)
        part.mkdir(parents=True)
    except OSError as error:
        raise SampleError(f"{part} cannot be made ({error.strerror}); choose another folder") from error
    try:
        yield part
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise
    part.replace(out)
