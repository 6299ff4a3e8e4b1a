"""Adapting a trained captioner to a user's own cameras: some hundred gentle steps of its detector on them.

Only the detector learns: words, association and decisions stay as they are. What it must not do is forget
the rest, of which nothing is at hand here; so the rate is small, the weights are averaged over the steps, and
classes that the teachers do not look for keep to what the detector answered before
(`train.grounded.detector`). From the last part of the footage, in time, nothing is learnt: on it both
detectors are measured, and only a better one is written.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Self

from models.grounded.detector import detector_of
from models.grounded.grounded import Grounded
from train import Progress
from train.checkpoints import TrainError, camera_record, load_grounded, refuse_folder, write_checkpoint
from train.footage.labels import (
    LabelledFrame,
    LabelOptions,
    by_camera,
    label_frames,
    read_frames,
    read_source,
)
from train.footage.teachers import TeacherFile
from train.grounded.chain import accuracy
from train.grounded.change_classifier import change_labels
from train.grounded.detector import average_precision, mean, train_detector
from train.grounded.detector_weights import export_onnx
from train.grounded.pictures import Pictures
from train.grounded.stages import Result, StageOptions, Stages

LAST_PART = 0.25  # share of each camera's footage that is held out
FEWEST = 20  # with fewer sure objects in either part, nothing is adapted
_GAP_S = 2.0  # between the two parts of one clip: nearer frames show much the same
_SEVERAL = 4  # of so many files of a camera whole ones are held out; of fewer each clip is parted
_WORSE = 0.005  # share of observations classified right that chance alone may cost
_MEASURED = 150  # frames, at most, and twice as many pairs


@dataclass(frozen=True, slots=True)
class AdaptOptions:
    clips: Path  # folder of footage, see `train.footage.cameras.cameras_in`; one camera is enough
    teachers: tuple[TeacherFile, ...]  # detectors that label it
    out: Path  # checkpoint to write; what is done on the way is kept in ``<out without suffix>.run``
    checkpoint: Path | None = None  # of a grounded captioner; None takes the packaged one
    labels: Path | None = None  # see `train.footage.labels.LabelOptions`
    steps: int = 300  # batches of the detector
    rate: float = 5e-5  # its largest learning rate
    batch: int = 8  # pictures of one batch
    avoid: Path | None = None  # JSON Lines naming clips and seconds near which nothing is learnt
    seed: int = 1  # of what is drawn

    def plain(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("steps", "rate", "batch", "seed")}


@dataclass(frozen=True, slots=True)
class Score:
    # agreement of its detector with the teachers, average precision at half overlap, 0..1; the mean over
    # cameras and families
    ap50: float
    right: float  # share 0..1 of observations that it classifies as the teachers do
    observations: int  # how many these are

    def better_than(self, other: Self) -> bool:
        return self.ap50 > other.ap50 and self.right >= other.right - _WORSE


@dataclass(frozen=True, slots=True)
class Adapted:
    sha256: str | None  # hex, of the file written; None where nothing was, since it would not be better
    before: Score  # of the captioner of before and the adapted one, on the held-out footage
    after: Score
    notes: tuple[str, ...]  # what was left out, and why


def adapt(
    options: AdaptOptions,
    *,
    command: str = "",
    progress: Progress = lambda _what, _done, _whole: None,
    note: Callable[[str], None] = lambda _line: None,
) -> Adapted:
    refuse_folder(options.out)
    captioner = load_grounded(options.checkpoint)
    stages = Stages(options.out.with_suffix(".run"), note)
    folder = stages.folder / "frames"
    labelling = LabelOptions(options.clips, folder, options.teachers, options.labels, options.avoid)
    labelled = label_frames(labelling, progress)
    for line in labelled.notes:
        stages.log(line)
    learn, held = split_by_time(read_frames(folder), LAST_PART)
    _check(options, learn, held)
    inputs = {"checkpoint": captioner.sha256, **options.plain()}
    inputs["made_of"] = [source["made_of"] for source in _sources(folder, learn)]
    trained = stages.run("detector", inputs, partial(_train_detector, captioner, options, folder, learn))
    before = measure(captioner, folder, held, options.seed)
    captioner.take_detector(trained.result["graph"])
    after = measure(captioner, folder, held, options.seed)
    sha256 = None
    if after.better_than(before):
        record = _record(options, captioner, folder, command)
        captioner.record = {**record, "held out": {"before": asdict(before), "after": asdict(after)}}
        sha256 = write_checkpoint(captioner, options.out)
    return Adapted(sha256, before, after, labelled.notes)


def split_by_time(
    frames: Sequence[LabelledFrame], share: float
) -> tuple[list[LabelledFrame], list[LabelledFrame]]:
    """Frames to learn from, and those of about the last `share` 0..1 of each camera, in time.

    Whole files are held out where a camera has four or more (their names must sort by time); else the end of
    every clip, two seconds after what is learnt from.
    """
    learn: list[LabelledFrame] = []
    held: list[LabelledFrame] = []
    for _, own in sorted(by_camera(frames).items()):
        files = sorted({frame.file for frame in own})
        if len(files) >= _SEVERAL:
            last = set(files[-max(1, round(share * len(files))) :])
            learn += [frame for frame in own if frame.file not in last]
            held += [frame for frame in own if frame.file in last]
            continue
        for file in files:
            clip = [frame for frame in own if frame.file == file]
            times = [frame.seconds or 0.0 for frame in clip]
            at = max(times) - share * (max(times) - min(times))
            learn += [frame for frame, time in zip(clip, times, strict=True) if time < at - _GAP_S]
            held += [frame for frame, time in zip(clip, times, strict=True) if time >= at]
    return learn, held


def measure(captioner: Grounded, folder: Path, frames: Sequence[LabelledFrame], seed: int) -> Score:
    every = max(1, round(len(frames) / _MEASURED))
    precision = mean(average_precision(captioner.detector, folder, frames, every))
    known = change_labels(captioner, folder, frames, 2 * _MEASURED, seed)
    right = accuracy(captioner.weights.classifier, known)
    return Score(round(precision, 4), round(right, 4), len(known.change))


def _train_detector(
    captioner: Grounded, options: AdaptOptions, folder: Path, learn: Sequence[LabelledFrame], scratch: Path
) -> Result:
    detecting = StageOptions(**options.plain(), warm_up=max(1, options.steps // 6), average=0.99)
    start = detector_of(captioner.graphs["detector"])
    return {"graph": export_onnx(train_detector(start, Pictures(folder, learn), detecting, scratch))}


def _sources(folder: Path, frames: Sequence[LabelledFrame]) -> list[dict[str, Any]]:
    names = sorted({frame.camera for frame in frames})
    return [source for name in names if (source := read_source(folder, name)) is not None]


def _check(options: AdaptOptions, learn: Sequence[LabelledFrame], held: Sequence[LabelledFrame]) -> None:
    for frames, part in ((learn, "learn from"), (held, "measure it by")):
        sure = sum(vote.sure for frame in frames for vote in frame.votes)
        if sure < FEWEST:
            raise TrainError(
                f"there is too little in {options.clips} to {part}: the teachers are sure of an object only "
                f"{sure} times, and {FEWEST} are the least; give footage in which people or vehicles pass by"
            )


def _record(options: AdaptOptions, captioner: Grounded, folder: Path, command: str) -> dict[str, Any]:
    return {
        **captioner.record,
        "command": command,
        "adapted": {
            "from": {"sha256": captioner.sha256, "command": captioner.record.get("command", "")},
            "cameras": [camera_record(each, held=False) for each in _sources(folder, read_frames(folder))],
            "held out": f"the last {LAST_PART:.0%} of each",
            "teachers": [file.plain() for file in options.teachers],
            **options.plain(),
        },
    }
