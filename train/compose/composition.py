"""The data engine: from clips of fixed cameras to frame pairs with captions that are true.

Real pairs are labelled by the agreement of teacher detectors; objects are erased by the temporal median and
pasted from other scenes; nuisances change nothing. Every pair then runs through the very mask pipeline that
narrates (`pipeline.changes.image_changes`), and only changes that it shows are told.
"""

from __future__ import annotations

import json
import multiprocessing
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, cast

import cv2
import numpy as np

from pipeline.machines import answer, connected, task
from train.compose.assembly import finished
from train.compose.drafts import SplitFootage
from train.compose.grammar import VARIETIES
from train.compose.objects import Crop, apart, object_bank
from train.footage.cameras import Clip, FootageError, find_clips
from train.footage.frames import FRAMES
from train.footage.labels import LabelOptions, LabelReport, label_frames
from train.footage.recipe import ComposeOptions, Recipe
from train.footage.scenes import Scene, avoided_times, load_scene
from train.footage.teacher import Teacher
from train.footage.teachers import TeacherFile
from train.progress import Progress
from train.samples import Sample, SampleError, new_folder, write_image, write_split

__all__ = ["ComposeOptions", "ComposeReport", "compose"]

_ITEM = TypeVar("_ITEM")
_RESULT = TypeVar("_RESULT")
_TOGETHER = 4  # items that another process gets at a time


@dataclass(frozen=True, slots=True)
class ComposeReport:
    """What was composed.

    Attributes:
        out: the folder.
        pairs: pairs per split.
        kinds, types, objects, counts: how often each occurs, over both splits.
        sentences: mean number of sentences per pair.
        crops: objects in the training bank per label.
        instances: sure objects on either side, per label.
        train_cameras, val_cameras: where the pairs are from.
        notes: clips that were left out, and why.
        seconds: time taken.
    """

    out: Path
    pairs: dict[str, int]
    kinds: dict[str, int]
    types: dict[str, int]
    objects: dict[str, int]
    counts: dict[str, int]
    sentences: float
    crops: dict[str, int]
    instances: dict[str, int]
    train_cameras: tuple[str, ...]
    val_cameras: tuple[str, ...]
    notes: tuple[str, ...]
    seconds: float


def compose(options: ComposeOptions, progress: Progress | None = None) -> ComposeReport:
    """Compose training and validation pairs from footage.

    Raises:
        FootageError: there are no clips, too few cameras, or a named camera is not among them.
        SampleError: the folder exists, cannot be written, or the footage gives no pair.
        TeacherError: the teacher cannot be used.
        ValueError: an option has no meaning.
    """
    tell = progress or (lambda _what, _done, _whole: None)
    _check(options)
    started = time.monotonic()
    clips = find_clips(options.clips, options.exclude)
    _check_cameras(options, sorted({c.camera for c in clips}))
    labelled = label_frames(label_options(options), tell) if options.frames else LabelReport({})
    clips = [c for c in clips if c.path not in labelled.unreadable]
    times = avoided_times(options.avoid) if options.avoid is not None else {}
    with _beside_frames(options.out) as folder, _workforce(options) as ray:
        scenes, notes = _scenes(options, clips, times, tell, ray)
        val_cameras = _held_out(options, sorted({s.camera for s in scenes}))
        split_footage = _footage(scenes, val_cameras, options.recipe)
        written: dict[str, list[Sample]] = {}
        for split, pairs in (("train", options.pairs), ("val", options.val_pairs)):
            make = partial(_write_one, options, split_footage[split], folder, split)
            made = _mapped(make, range(pairs), options.workers, f"{split} pairs", tell, ray=ray)
            written[split] = list(made)
            write_split(folder, split, written[split])
        notes = labelled.notes + notes
        report = _report(options, written, split_footage, notes, time.monotonic() - started)
        _record(folder, options, clips, report)
    return report


def _check(options: ComposeOptions) -> None:
    if options.variety not in VARIETIES:
        raise ValueError(f"variety {options.variety!r} is not one of {', '.join(VARIETIES)}")
    if min(options.pairs, options.val_pairs, options.workers) < 1:
        raise ValueError("pairs, val_pairs and workers must be at least 1")
    frames = (options.out / FRAMES).exists() or (options.out / "labels").exists()
    if options.out.exists() and (not frames or (options.out / "train.json").exists()):
        raise SampleError(f"{options.out} exists already; delete it or choose another folder")


@contextmanager
def _beside_frames(out: Path) -> Iterator[Path]:
    """A folder to fill; when the block has ended its files are in `out`, perhaps beside labelled frames."""
    if not out.exists():
        with new_folder(out) as folder:
            yield folder
        return
    pairs = out / "pairs"
    if pairs.exists():
        shutil.rmtree(pairs)  # of a run that was interrupted while its files moved
    with new_folder(pairs) as folder:
        yield folder
    for path in sorted(pairs.iterdir(), key=lambda path: (path.name == "train.json", path.name)):
        path.replace(out / path.name)  # train.json last: it says that the others are there
    pairs.rmdir()


def label_options(options: ComposeOptions) -> LabelOptions:
    """How the labelled frames of the same footage are made."""
    return LabelOptions(
        options.clips,
        options.out,
        options.teachers,
        labels=options.labels,
        exclude=options.exclude,
        avoid=options.avoid,
        avoid_s=options.avoid_s,
    )


def _check_cameras(options: ComposeOptions, cameras: Sequence[str]) -> None:
    unknown = sorted(set(options.val_cameras) - set(cameras))
    if unknown:
        raise FootageError(
            f"no clips of {', '.join(unknown)} under {options.clips}; there are {', '.join(cameras)}"
        )


def _held_out(options: ComposeOptions, cameras: Sequence[str]) -> tuple[str, ...]:
    """The validation cameras among those of which there are frames."""
    empty = sorted(set(options.val_cameras) - set(cameras))
    if empty:
        raise FootageError(
            f"no four frames are left of {', '.join(empty)}; there are frames of {', '.join(cameras)}: "
            "validate on one of these, or avoid less"
        )
    held_out = tuple(sorted(options.val_cameras)) or tuple(cameras[::6])
    if len(cameras) - len(held_out) < 1:
        raise FootageError(
            f"{options.clips} has only {', '.join(cameras)}; validation needs a camera that is not trained "
            "on: add clips of another camera"
        )
    return held_out


def _scenes(
    options: ComposeOptions,
    clips: Sequence[Clip],
    times: dict[str, tuple[float, ...]],
    tell: Progress,
    ray: Any,
) -> tuple[list[Scene], tuple[str, ...]]:
    """The scenes, and what was left out."""
    several = Counter(c.camera for c in clips)
    most = {camera: max(6, options.recipe.frames_per_camera // n) for camera, n in several.items()}
    load = partial(_load, options, most, times)
    scenes, notes = [], []
    loaded = _mapped(load, clips, options.workers, "clips", tell, ray=ray)
    for clip, scene in zip(clips, loaded, strict=True):
        if scene is not None:
            scenes.append(scene)
        elif clip.path.name in times:
            near = f"more than {options.avoid_s:g} s from the times to avoid"
            notes.append(f"{clip.path.name} is left out: it has fewer than four frames {near}")
        else:
            notes.append(f"{clip.path.name} is left out: it has fewer than four readable frames")
    return scenes, tuple(notes)


_TEACHERS: dict[tuple[TeacherFile, ...], Teacher] = {}
"""One per process: loading the networks takes longer than a frame."""


def _load(
    options: ComposeOptions, most: dict[str, int], times: dict[str, tuple[float, ...]], clip: Clip
) -> Scene | None:
    files = options.teachers
    teacher = _TEACHERS.get(files) or _TEACHERS.setdefault(files, Teacher(files))
    return load_scene(
        clip,
        teacher,
        max_frames=min(192, most[clip.camera]),
        avoid=times.get(clip.path.name, ()),
        avoid_s=options.avoid_s,
    )


def _footage(scenes: Sequence[Scene], val_cameras: Sequence[str], recipe: Recipe) -> dict[str, SplitFootage]:
    """The footage of both splits; validation borrows crops of the training cameras that training lacks."""
    cameras: dict[str, dict[str, list[Scene]]] = {"train": {}, "val": {}}
    for scene in scenes:
        split = "val" if scene.camera in val_cameras else "train"
        cameras[split].setdefault(scene.camera, []).append(scene)
    banks: dict[str, dict[str, tuple[Crop, ...]]] = {}
    for split, own in cameras.items():
        if not own:
            raise FootageError("no readable clip is left for one of the splits; add footage or avoid less")
        scenes_of = [s for several in own.values() for s in several]
        banks[split] = object_bank(scenes_of, min_score=recipe.crop_score, most=recipe.crops)
    banks["train"], lent = apart(banks["train"], recipe.val_crops)
    labels = sorted({*banks["val"], *lent})
    banks["val"] = {n: banks["val"].get(n, ()) + lent.get(n, ()) for n in labels}
    return {
        split: SplitFootage({n: tuple(s) for n, s in own.items()}, banks[split], recipe)
        for split, own in cameras.items()
    }


_WORK: list[Callable[[object], object]] = []
"""What a worker process does; sent once, since it holds the footage."""


def _start(work: Callable[[object], object]) -> None:
    cv2.setNumThreads(1)  # more would only fight with the other workers for the cores
    _WORK.append(work)


def _run(item: object) -> object:
    return _WORK[-1](item)


@contextmanager
def _workforce(options: ComposeOptions) -> Iterator[Any]:
    """A Ray cluster, if one was asked for."""
    if options.ray is None:
        yield None
    else:
        with connected(options.ray) as ray:
            yield ray


def _mapped(
    work: Callable[[_ITEM], _RESULT],
    items: Sequence[_ITEM],
    workers: int,
    what: str,
    tell: Progress,
    *,
    ray: Any,
) -> Iterator[_RESULT]:
    """Results in order, from this process, from others, or from a cluster.

    The others are spawned: forked ones hang where OpenCV's or the detector's threads were already running.
    """
    workers = min(workers, len(items))
    with ExitStack() as resources:
        results: Iterable[object]
        if ray is not None:
            results = _from_cluster(ray, work, items)
        elif workers == 1:
            results = map(work, items)
        else:
            spawned = multiprocessing.get_context("spawn")
            pool = resources.enter_context(spawned.Pool(workers, initializer=_start, initargs=(work,)))
            results = pool.imap(_run, items)
        tell(what, 0, len(items))
        for done, each in enumerate(results, start=1):
            tell(what, done, len(items))
            yield cast("_RESULT", each)


def _from_cluster(ray: Any, work: Callable[[_ITEM], _RESULT], items: Sequence[_ITEM]) -> Iterator[_RESULT]:
    held, several = ray.put(work), task(ray, _several)  # it is large: sent once
    parts = [several(held, items[n : n + _TOGETHER]) for n in range(0, len(items), _TOGETHER)]
    return (each for part in parts for each in answer(ray, part))


def _several(work: Callable[[_ITEM], _RESULT], items: Sequence[_ITEM]) -> list[_RESULT]:
    cv2.setNumThreads(1)
    return [work(item) for item in items]


def _write_one(
    options: ComposeOptions, footage: SplitFootage, folder: Path, split: str, number: int
) -> Sample:
    rng = np.random.default_rng([options.seed, ("train", "val").index(split), number])
    made = finished(options, footage, rng)
    name = f"{split[0]}{number:06d}"
    draft = made.draft
    sample = Sample(
        name,
        folder / f"{name}.png",
        folder / f"{name}_2.png",
        made.sentences,
        made.changes,
        draft.camera,
        draft.kind,
        objects=draft.objects,
        sources=tuple(sorted({draft.camera, *draft.sources})),
    )
    write_image(sample.before, draft.before)
    write_image(sample.after, draft.after)
    return sample


def _report(
    options: ComposeOptions,
    written: dict[str, list[Sample]],
    footage: dict[str, SplitFootage],
    notes: tuple[str, ...],
    seconds: float,
) -> ComposeReport:
    samples = [s for split in written.values() for s in split]
    changes = [c for s in samples for c in s.changes]
    sure = [o.label for s in samples for o in s.objects if o.sure]
    return ComposeReport(
        out=options.out,
        pairs={split: len(own) for split, own in written.items()},
        kinds=dict(Counter(s.kind for s in samples).most_common()),
        types=dict(Counter(c.type for c in changes).most_common()),
        objects=dict(Counter(c.object for c in changes).most_common()),
        counts={str(n): k for n, k in sorted(Counter(c.count for c in changes).items())},
        sentences=sum(len(s.sentences) for s in samples) / len(samples),
        crops={label: len(crops) for label, crops in footage["train"].bank.items()},
        instances=dict(Counter(sure).most_common()),
        train_cameras=footage["train"].names,
        val_cameras=footage["val"].names,
        notes=notes,
        seconds=round(seconds, 1),
    )


def _record(folder: Path, options: ComposeOptions, clips: Sequence[Clip], report: ComposeReport) -> None:
    """Write ``compose.json``: what the samples were made of, and how."""
    record = {
        "options": asdict(
            replace(options, clips=Path(options.clips.name), out=Path(options.out.name), ray=None)
        ),
        "clips": {str(c.path.relative_to(options.clips)): c.sha256 for c in clips},
        "teachers": [file.plain() for file in options.teachers],
        "report": asdict(report),
    }
    text = json.dumps(record, indent=1, default=lambda value: Path(value).name)
    (folder / "compose.json").write_text(text + "\n", encoding="utf-8")
