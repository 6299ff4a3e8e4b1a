"""The data engine: from clips of fixed cameras to frame pairs with captions that are true.

Real pairs are labelled by a teacher detector; objects are erased by the temporal median and pasted from
other scenes; nuisances change nothing. Every pair then runs through the very mask pipeline that narrates
(`pipeline.changes.image_changes`), and only changes that it shows are told.
"""

from __future__ import annotations

import json
import multiprocessing
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TypeVar, cast

import cv2
import numpy as np

from pipeline.changes import ChangeOptions, image_changes
from train import drafts
from train.drafts import Draft, Footage
from train.grammar import VARIETIES, word
from train.labels import as_comparison, explained, shown
from train.objects import object_bank
from train.pasting import pasted
from train.samples import Sample, SampleChange, SampleError, new_folder, write_image, write_split
from train.scenes import Clip, FootageError, Scene, find_clips, load_scene
from train.teacher import Teacher

Progress = Callable[[str, int, int], None]
"""Told what is being done, how much of it is done, and how much there is."""

TEST_FOOTAGE = ("vtest*", "opencv_vtest*")
"""OpenCV's sample clip stays a test scene: it is never trained on."""

_ATTEMPTS = 360
_PATIENCE = 12
"""Attempts with one camera."""
_MEDIAN_NEEDS_S = 5.0
"""The median of a shorter clip holds ghosts of what moved slowly."""
_MAX_SENTENCES = 6
_ITEM = TypeVar("_ITEM")
_RESULT = TypeVar("_RESULT")


@dataclass(frozen=True, slots=True)
class Mix:
    """Shares of the kinds of pairs; they are scaled to sum to one.

    Attributes:
        real: two frames of a clip, labelled by the teacher.
        median: a frame against the temporal median, labelled by the teacher.
        occasion: frames of two clips of one camera; where a camera has only one clip, as `real`.
        erased: moving objects replaced by what is behind them.
        pasted: objects of other scenes laid into a picture.
        nuisance: nothing but light, noise, shift or recompression.
    """

    real: float = 0.24
    median: float = 0.17
    occasion: float = 0.04
    erased: float = 0.17
    pasted: float = 0.26
    nuisance: float = 0.12


@dataclass(frozen=True, slots=True)
class ComposeOptions:
    """What to compose, from what.

    Attributes:
        clips: folder of clips; a subfolder is one camera (see `train.scenes.find_clips`).
        teacher: YOLOX network in ONNX format.
        out: folder to be made, in the layout of `train.samples`.
        pairs: training pairs.
        val_pairs: validation pairs, of the validation cameras alone.
        val_cameras: cameras that are held out for validation; empty holds out every sixth.
        exclude: patterns of file names that are never used.
        seed: the same seed, footage and options give the same samples.
        mix: shares of the kinds.
        variety: how captions are worded, ``plain`` or ``people`` (see `train.grammar`).
        changes: the mask pipeline's options; those with which the captioner will run.
        min_explained: a pair labelled by the teacher is used if known changes hold this share of its mask.
        frames_per_camera: about how many frames of a camera the teacher labels.
        workers: processes; does not change the samples.
    """

    clips: Path
    teacher: Path
    out: Path
    pairs: int = 6000
    val_pairs: int = 600
    val_cameras: tuple[str, ...] = ()
    exclude: tuple[str, ...] = TEST_FOOTAGE
    seed: int = 1
    mix: Mix = field(default_factory=Mix)
    variety: str = "plain"
    changes: ChangeOptions = field(default_factory=ChangeOptions)
    min_explained: float = 0.6
    frames_per_camera: int = 432
    workers: int = 1


@dataclass(frozen=True, slots=True)
class ComposeReport:
    """What was composed.

    Attributes:
        out: the folder.
        pairs: pairs per split.
        kinds, types, objects, counts: how often each occurs, over both splits.
        sentences: mean number of sentences per pair.
        crops: objects in the training bank per label.
        train_cameras, val_cameras: where the pairs are from.
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
    train_cameras: tuple[str, ...]
    val_cameras: tuple[str, ...]
    seconds: float


def compose(options: ComposeOptions, progress: Progress | None = None) -> ComposeReport:
    """Compose training and validation pairs from footage.

    Args:
        options: what to compose.
        progress: told how far it is.

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
    val_cameras = _held_out(options, sorted({c.camera for c in clips}))
    with new_folder(options.out) as folder:
        scenes = _scenes(options, clips, tell)
        split_footage = {
            "train": _footage([s for s in scenes if s.camera not in val_cameras]),
            "val": _footage([s for s in scenes if s.camera in val_cameras]),
        }
        written: dict[str, list[Sample]] = {}
        for split, pairs in (("train", options.pairs), ("val", options.val_pairs)):
            make = partial(_write_one, options, split_footage[split], folder, split)
            written[split] = list(_mapped(make, range(pairs), options.workers, f"{split} pairs", tell))
            write_split(folder, split, written[split])
        report = _report(options, written, split_footage, time.monotonic() - started)
        _record(folder, options, clips, report)
    return report


def _check(options: ComposeOptions) -> None:
    if options.variety not in VARIETIES:
        raise ValueError(f"variety {options.variety!r} is not one of {', '.join(VARIETIES)}")
    shares = asdict(options.mix).values()
    if min(shares) < 0 or not sum(shares):
        raise ValueError(f"the shares of the mix must not be negative and not all zero: {options.mix}")
    if min(options.pairs, options.val_pairs, options.workers) < 1:
        raise ValueError("pairs, val_pairs and workers must be at least 1")
    if options.out.exists():
        raise SampleError(f"{options.out} exists already; delete it or choose another folder")


def _held_out(options: ComposeOptions, cameras: Sequence[str]) -> tuple[str, ...]:
    unknown = sorted(set(options.val_cameras) - set(cameras))
    if unknown:
        raise FootageError(
            f"no clips of {', '.join(unknown)} under {options.clips}; there are {', '.join(cameras)}"
        )
    held_out = tuple(sorted(options.val_cameras)) or tuple(cameras[::6])
    if len(cameras) - len(held_out) < 1:
        raise FootageError(
            f"{options.clips} has only {', '.join(cameras)}; validation needs a camera that is not trained "
            "on: add clips of another camera"
        )
    return held_out


def _scenes(options: ComposeOptions, clips: Sequence[Clip], tell: Progress) -> list[Scene]:
    several = Counter(c.camera for c in clips)
    most = {camera: max(6, options.frames_per_camera // n) for camera, n in several.items()}
    load = partial(_load, options.teacher, most)
    return [s for s in _mapped(load, clips, options.workers, "clips", tell) if s is not None]


_TEACHERS: dict[Path, Teacher] = {}
"""One per process: loading the network takes longer than a frame."""


def _load(weights: Path, most: dict[str, int], clip: Clip) -> Scene | None:
    teacher = _TEACHERS.get(weights) or _TEACHERS.setdefault(weights, Teacher(weights))
    return load_scene(clip, teacher, max_frames=min(96, most[clip.camera]))


def _footage(scenes: Sequence[Scene]) -> Footage:
    cameras: dict[str, list[Scene]] = {}
    for scene in scenes:
        cameras.setdefault(scene.camera, []).append(scene)
    if not cameras:
        raise FootageError("no readable clip is left for one of the splits; add footage or other val cameras")
    return Footage({name: tuple(own) for name, own in cameras.items()}, object_bank(scenes))


_WORK: list[Callable[[object], object]] = []
"""What a worker process does; sent once, since it holds the footage."""


def _start(work: Callable[[object], object]) -> None:
    cv2.setNumThreads(1)  # more would only fight with the other workers for the cores
    _WORK.append(work)


def _run(item: object) -> object:
    return _WORK[-1](item)


def _mapped(
    work: Callable[[_ITEM], _RESULT], items: Sequence[_ITEM], workers: int, what: str, tell: Progress
) -> Iterator[_RESULT]:
    """Results in order, from this process or from others.

    The others are spawned: forked ones hang where OpenCV's or the detector's threads were already running.
    """
    if workers == 1:
        for done, item in enumerate(items):
            tell(what, done, len(items))
            yield work(item)
    else:
        spawned = multiprocessing.get_context("spawn")
        with spawned.Pool(workers, initializer=_start, initargs=(work,)) as pool:
            for done, result in enumerate(pool.imap(_run, items, chunksize=4)):
                tell(what, done, len(items))
                yield cast("_RESULT", result)
    tell(what, len(items), len(items))


def _write_one(options: ComposeOptions, footage: Footage, folder: Path, split: str, number: int) -> Sample:
    rng = np.random.default_rng([options.seed, ("train", "val").index(split), number])
    draft, changes, sentences = _finished(options, footage, rng)
    name = f"{split[0]}{number:06d}"
    sample = Sample(
        name, folder / f"{name}.png", folder / f"{name}_2.png", sentences, changes, draft.camera, draft.kind
    )
    write_image(sample.before, draft.before)
    write_image(sample.after, draft.after)
    return sample


_Finished = tuple[Draft, tuple[SampleChange, ...], tuple[str, ...]]


def _finished(options: ComposeOptions, footage: Footage, rng: np.random.Generator) -> _Finished:
    """Draw kinds and scenes until a pair comes out that can be told."""
    shares = asdict(options.mix)
    weights = np.array(list(shares.values()))
    kind = str(rng.choice(list(shares), p=weights / weights.sum()))
    camera = footage.draw_camera(rng)
    for attempt in range(_ATTEMPTS):
        if attempt and attempt % _PATIENCE == 0:  # not at once, or busy cameras would give all pairs
            camera = footage.draw_camera(rng)
            if attempt % (6 * _PATIENCE) == 0:
                kind = str(rng.choice(list(shares), p=weights / weights.sum()))
        scene = footage.draw(camera, rng)
        draft = _draft(kind, scene, footage, rng)
        varied = drafts.vary(draft, rng) if draft is not None else None
        told = told_changes(varied, options) if varied is not None else None
        if varied is not None and told is not None:
            changes, sentences = word(told, options.variety, rng)
            return varied, changes, sentences
    raise SampleError(
        f"no pair could be composed of {', '.join(footage.names)} in {_ATTEMPTS} attempts; add footage "
        "in which something moves, or lower the shares of the kinds that it cannot give"
    )


def _draft(kind: str, scene: Scene, footage: Footage, rng: np.random.Generator) -> Draft | None:
    if kind == "nuisance":
        return drafts.nuisance(scene, rng)
    if kind == "median":
        long_enough = scene.times_s[-1] >= _MEDIAN_NEEDS_S
        return drafts.against_median(scene, rng) if long_enough else None
    if kind == "erased":
        return drafts.erased(scene, rng)
    if kind == "pasted":
        return pasted(scene, footage, rng)
    if kind == "occasion":
        several = [n for n in footage.names if len(footage.cameras[n]) > 1]
        if several:
            camera = several[int(rng.integers(len(several)))]
            return drafts.occasions(footage.draw(camera, rng), footage.cameras[camera], rng)
    return drafts.real(scene, rng)


def told_changes(draft: Draft, options: ComposeOptions) -> tuple[SampleChange, ...] | None:
    """The changes of a draft that the mask pipeline shows; None where the pair is better not used.

    A pair is not used where its known changes cannot be seen, where what can be seen is not known (for
    labels of the teacher), and where there is more than a caption can hold.
    """
    clusters = image_changes(draft.before, draft.after, options.changes)[1]
    changes = shown(draft.changes, clusters)
    if draft.changes and len(changes) == 0:
        return None
    if draft.guessed:
        known = [b for c in draft.changes for b in (c.box_before, c.box_after) if b is not None]
        if explained(clusters, known) < options.min_explained or (clusters and not changes):
            return None
        if sum(c.count for c in changes) > 2 * _MAX_SENTENCES:
            return None
    told = []
    for change in sorted(changes, key=lambda c: -c.area)[:_MAX_SENTENCES]:
        others = [box for label, box in draft.standing if label == change.object]
        told.append(as_comparison(change, others))
    return tuple(told)


def _report(
    options: ComposeOptions,
    written: dict[str, list[Sample]],
    footage: dict[str, Footage],
    seconds: float,
) -> ComposeReport:
    samples = [s for split in written.values() for s in split]
    changes = [c for s in samples for c in s.changes]
    return ComposeReport(
        out=options.out,
        pairs={split: len(own) for split, own in written.items()},
        kinds=dict(Counter(s.kind for s in samples).most_common()),
        types=dict(Counter(c.type for c in changes).most_common()),
        objects=dict(Counter(c.object for c in changes).most_common()),
        counts={str(n): k for n, k in sorted(Counter(c.count for c in changes).items())},
        sentences=sum(len(s.sentences) for s in samples) / len(samples),
        crops={label: len(crops) for label, crops in footage["train"].bank.items()},
        train_cameras=footage["train"].names,
        val_cameras=footage["val"].names,
        seconds=round(seconds, 1),
    )


def _record(folder: Path, options: ComposeOptions, clips: Sequence[Clip], report: ComposeReport) -> None:
    """Write ``compose.json``: what the samples were made of, and how."""
    record = {
        "options": asdict(replace(options, clips=Path(options.clips.name), out=Path(options.out.name))),
        "clips": {str(c.path.relative_to(options.clips)): c.sha256 for c in clips},
        "teacher_sha256": Teacher(options.teacher).sha256,
        "report": asdict(report),
    }
    text = json.dumps(record, indent=1, default=lambda value: Path(value).name)
    (folder / "compose.json").write_text(text + "\n", encoding="utf-8")
