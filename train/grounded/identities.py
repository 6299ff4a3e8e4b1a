"""Identity labels: objects of training cameras tracked through their clips, and known non-matches.

The detector looks at a clip several times a second and what overlaps from frame to frame is one track, unless
two might be meant: a short track is better than a wrong one. Kept are the observations of the labelled
frames, one `Snapshot` each, half of them once more under another light. What no pseudo-label holds is a false
positive; more of these are made where another frame of the camera has an object and this one has none.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from pathlib import Path

import cv2
import lap
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from models.boxes import Box
from models.detections import Detections, overlaps
from models.embedding import AppearanceEmbedding
from models.families import first_of
from models.grounded.inference import OnnxDetector, decode
from models.grounded.observations import Floats, pool_features
from pipeline.sources import Image
from pipeline.sources.times import stamp_in_name
from train.footage.cameras import STILL_SUFFIXES, FootageError, decoded_frames, rgb_of
from train.footage.labels import LabelledFrame
from train.grounded.stages import kept_rows
from train.samples import image_in

UNTRACKED, UNSURE, FALSE_POSITIVE = -1, -2, -3
"""In place of a track's number: an object without a track, a doubtful detection, a false positive."""

_PER_SECOND = 8.0
_LONGEST_S = 40.0  # of a clip
_CLIPS = 12  # of a camera that are followed; of further ones only the first labelled frame is looked at
_PIXELS = 230_000  # of the picture that the detector sees
_FAINT, _FOLLOWED = 0.12, 0.25  # least scores of an end, and of what a track is made of
_AT_ONCE = 24  # observed of a snapshot
_PLANTED = 4  # false positives made for a snapshot
_HITS = 4  # frames in which a track must be seen
_LOST = 3  # frames for which a track may be missed
_LEAST = 0.3  # how well a box must continue a track, see `_gain`
_CLEAR = 0.15  # by how much a track's best continuation must be better than its second best
_NUMBERED = re.compile(r"^in(\d{6})$")  # a still of a sequence, 25 a second, as some suites name it


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """One frame's N observations, and who they are."""

    occasion: str  # clip, sequence or still, by name; tracks are numbered within it
    seconds: float  # since the occasion's begin
    clock_s: float  # seconds of the wall clock since 1970 at the occasion's begin; NaN where it is not known
    box: Tensor  # float32 ``(N, 4)``, ``x, y, width, height`` in 0..1
    family: Tensor  # int64 ``(N,)``, the first object of each one's family
    feature: Tensor  # float32 ``(N, FEATURES)``, of the detector
    track: Tensor  # int64 ``(N,)``, or one of `UNTRACKED`, `UNSURE`, `FALSE_POSITIVE`
    seen: Tensor  # float32 ``(N, 2)``, from and until which second its track is seen
    reid: Tensor  # float32 ``(N, R)``, the re-identification teacher's vectors, NaN where it was not asked
    relit: bool = False  # whether the light is not the camera's own
    track_mean: Tensor | None = None  # mean of its track's vectors in place of `reid`; None: not yet


@dataclass(slots=True, eq=False)
class _ClipTrack:
    number: int
    family: int
    hits: list[tuple[float, list[float]]]  # seconds and boxes
    missed: int = 0

    def expected(self, seconds: float) -> list[float]:
        (t, box), (t0, box0) = self.hits[-1], self.hits[-2] if len(self.hits) > 1 else self.hits[-1]
        pace = (seconds - t) / (t - t0) if t > t0 else 0.0
        return [*(a + (a - b) * pace for a, b in zip(box[:2], box0[:2], strict=True)), *box[2:]]


class ClipTracker:
    def __init__(self) -> None:
        self.tracks: list[_ClipTrack] = []
        self._open: list[_ClipTrack] = []

    def update(self, seconds: float, seen: Detections) -> list[int]:
        """The track of everything that is seen now, -1 for what is too faint."""
        rows = [i for i in range(len(seen)) if float(seen.score[i]) >= _FOLLOWED]
        boxes, family = seen.box[rows], seen.family[rows]
        gain = _gain([t.expected(seconds) for t in self._open], boxes)
        gain *= np.array([t.family for t in self._open]).reshape(-1, 1) == family
        numbers = [-1] * len(seen)
        likely = np.where(gain >= _LEAST, gain, 0.0)
        matched = {
            int(j): int(i)
            for i, j in zip(*lap.lapjvx(-likely, extend_cost=True, return_cost=False), strict=True)
            if likely[i, j] > 0 and _clear(gain, int(i), int(j))
        }
        for track in self._open:
            track.missed += 1
        for j, row in enumerate(rows):
            if j in matched:
                track = self._open[matched[j]]
            else:
                track = _ClipTrack(len(self.tracks), int(family[j]), [])
                self.tracks.append(track)
                self._open.append(track)
            track.hits.append((seconds, boxes[j].tolist()))
            track.missed = 0
            numbers[row] = track.number
        self._open = [t for t in self._open if t.missed <= _LOST]
        return numbers


def _gain(expected: list[list[float]], box: Floats) -> NDArray[np.float64]:
    """Association score of boxes with tracks, 0..1: overlap, or nearness where a fast object has moved on."""
    one = np.array(expected).reshape(-1, 4)
    sizes = one[:, None, 2:], np.maximum(box[:, 2:], 1e-6)
    ratio = np.abs(np.log(sizes[0] / sizes[1])).max(-1)
    middles = [each[:, :2] + each[:, 2:] / 2 for each in (one, box)]
    apart = np.linalg.norm((middles[0][:, None] - middles[1]) / np.sqrt(sizes[0] * sizes[1]), axis=-1)
    near = (1 - apart / 1.2).clip(min=0) * (ratio < 0.4)  # noqa: PLR2004 - by half as large again
    return np.asarray((overlaps(one, box) + near) / 2)


def _clear(gain: NDArray[np.float64], i: int, j: int) -> bool:
    others = np.concatenate([gain[i, :j], gain[i, j + 1 :], gain[:i, j], gain[i + 1 :, j]])
    return not len(others) or float(gain[i, j] - others.max()) >= _CLEAR


class Collector:
    def __init__(self, detector: OnnxDetector, reid: AppearanceEmbedding | None, seed: int) -> None:
        self._detector, self._reid, self._seed = detector, reid, seed

    def collect(self, frames: Sequence[LabelledFrame], footage: Path, kept: Path) -> list[Snapshot]:
        """A camera's snapshots, made once and kept in a folder of one collector and one set of labels."""
        rows = kept_rows(kept / f"{frames[0].camera}.pt", partial(self._camera, frames, footage))
        return [Snapshot(**row) for row in rows]

    def _camera(self, frames: Sequence[LabelledFrame], footage: Path) -> Iterator[Snapshot]:
        chance = np.random.default_rng([self._seed, *frames[0].camera.encode()])
        pool = [(vote.family, vote.box) for frame in frames for vote in frame.votes if vote.sure]
        for number, (occasion, group) in enumerate(groupby(frames, key=_occasion)):
            own = list(group)
            follow = len(own) == 1 or number < _CLIPS
            yield from self._occasion(occasion, own if follow else own[:1], footage, pool, chance)

    def _occasion(
        self,
        occasion: str,
        frames: list[LabelledFrame],
        footage: Path,
        pool: list[tuple[str, Box]],
        chance: np.random.Generator,
    ) -> list[Snapshot]:
        tracker = ClipTracker()
        stamp = stamp_in_name(Path(frames[0].file))
        clock_s = stamp.timestamp() if stamp else float("nan")
        found: list[Snapshot] = []
        for seconds, image, frame in _frames_in_time(frames, footage):
            picture = _picture(image)
            seen, maps = self._detect(picture)
            numbers = tracker.update(seconds, seen)
            if frame is None:
                continue
            track = _label_detections(seen, numbers, frame)[:_AT_ONCE]
            planted = _plant_false_positives(pool, frame, seen, chance)
            box = np.concatenate([seen.box[:_AT_ONCE], planted[0]])
            track = np.append(track, np.full(len(planted[0]), FALSE_POSITIVE))
            one = Snapshot(
                occasion,
                seconds,
                clock_s,
                box=torch.from_numpy(box),
                family=torch.from_numpy(np.concatenate([seen.family[:_AT_ONCE], planted[1]])),
                feature=torch.from_numpy(pool_features(maps, box)),
                track=torch.from_numpy(track),
                seen=torch.zeros(len(box), 2),
                reid=self._embed_crops(image, box, track, every=len(found) % 3 == 0),
            )
            found.append(one)
            if chance.random() < 0.5:  # noqa: PLR2004 - half of them
                dim = self._detect(_relit(picture, chance))[1]
                found.append(replace(one, feature=torch.from_numpy(pool_features(dim, box)), relit=True))
        return [_with_tracks(one, tracker.tracks) for one in found]

    def _detect(self, picture: Image) -> tuple[Detections, tuple[Floats, ...]]:
        answers = self._detector.answers(picture)
        return decode(answers, (picture.shape[0], picture.shape[1]), _FAINT), answers.maps

    def _embed_crops(self, image: Image, box: Floats, track: NDArray[np.int64], *, every: bool) -> Tensor:
        """The teacher's vectors; NaN for false positives, and unless `every` for all."""
        size = 1 if self._reid is None else self._reid.size
        vectors = torch.full((len(box), size), torch.nan)
        asked = track >= UNTRACKED
        if every and self._reid is not None and asked.any():
            vectors[torch.from_numpy(asked)] = torch.from_numpy(self._reid(image, box[asked]))
        return vectors


def _occasion(frame: LabelledFrame) -> str:
    return "sequence" if _NUMBERED.match(Path(frame.file).stem) else frame.file


def _frames_in_time(
    frames: list[LabelledFrame], footage: Path
) -> Iterator[tuple[float, Image, LabelledFrame | None]]:
    """An occasion's frames in time: second, picture, and its labels where it has some."""
    path = footage / frames[0].file
    last = max(frame.seconds or 0.0 for frame in frames)
    if path.suffix.lower() in STILL_SUFFIXES:
        for frame in frames:
            counted = _NUMBERED.match(Path(frame.file).stem)
            rgb = image_in(footage / frame.file)
            if rgb is None:
                raise FootageError(f"{footage / frame.file} cannot be read")
            yield (int(counted[1]) / 25 if counted else 0.0), rgb, frame
        return
    labelled = {int(Path(frame.image).stem.rsplit("_", 1)[1]): frame for frame in frames}
    due = 0.0
    for number, seconds, shown in decoded_frames(path):
        if seconds is None or seconds > min(_LONGEST_S, last + 0.1):
            return
        if number in labelled or seconds >= due:
            due = seconds + 1 / _PER_SECOND - 1e-3
            yield seconds, rgb_of(shown), labelled.get(number)


def _picture(image: Image) -> Image:
    """A frame at the detector's size: uint8 ``(h, w, 3)``, sides multiples of 32."""
    height, width = image.shape[:2]
    scale = (_PIXELS / (height * width)) ** 0.5
    size = [max(32, round(side * scale / 32) * 32) for side in (width, height)]
    small = cv2.resize(image, size, interpolation=cv2.INTER_AREA if scale < 1 else cv2.INTER_LINEAR)
    return np.asarray(small, np.uint8)


def _relit(picture: Image, chance: np.random.Generator) -> Image:
    gain = chance.uniform(0.55, 1.35) * chance.uniform(0.88, 1.12, 3)
    curve = float(chance.uniform(0.7, 1.5))
    bright = (picture / np.float32(255)) ** curve * gain * 255 + float(chance.uniform(-15, 25))
    return np.asarray(bright.clip(0, 255), np.uint8)


def _label_detections(seen: Detections, numbers: list[int], frame: LabelledFrame) -> NDArray[np.int64]:
    """Track, or what else is known of everything that is seen."""
    sure = np.array([vote.sure for vote in frame.votes], np.bool_)
    family = np.array([first_of(vote.family) for vote in frame.votes], np.int64)
    shares = overlaps(seen.box, [vote.box for vote in frame.votes])
    own = seen.family[:, None] == family
    real = ((shares >= 0.5) & own & sure).any(1)  # noqa: PLR2004
    nothing = ~(shares >= 0.1).any(1)  # noqa: PLR2004
    track = np.array(numbers, np.int64)
    track[track < 0] = UNTRACKED
    track[~real & (track < 0)] = UNSURE
    track[nothing & (seen.score < 0.5)] = FALSE_POSITIVE  # noqa: PLR2004
    track[~real & ~nothing & (seen.score < _FOLLOWED + 0.1)] = UNSURE
    return track


def _plant_false_positives(
    pool: list[tuple[str, Box]], frame: LabelledFrame, seen: Detections, chance: np.random.Generator
) -> tuple[Floats, NDArray[np.int64]]:
    """Boxes and families of false positives, where another frame has an object and this one nothing."""
    voted = np.array([vote.box for vote in frame.votes], np.float32).reshape(-1, 4)
    taken = np.concatenate([voted, seen.box])
    boxes, families = list[Floats](), list[int]()
    for i in chance.permutation(len(pool))[: 4 * _PLANTED]:
        family, (x, y, w, h) = pool[i]
        dx, dy = chance.uniform(-0.1, 0.1, 2)
        box = np.array([[max(x + dx * w, 0.0), max(y + dy * h, 0.0), w, h]], np.float32)
        if len(boxes) < _PLANTED and not (overlaps(box, taken) > 0.05).any():  # noqa: PLR2004
            boxes.append(box)
            families.append(first_of(family))
    chance.random(len(boxes))  # drawn for nothing, so that a seed gives what it gave when these had scores
    return np.concatenate([np.zeros((0, 4), np.float32), *boxes]), np.array(families, np.int64)


def _with_tracks(one: Snapshot, tracks: list[_ClipTrack]) -> Snapshot:
    """The same, tracks too short believed no more, and all with their times."""
    track, seen = one.track.clone(), one.seen.clone()
    for i, number in enumerate(track.tolist()):
        if number >= 0:
            hits = tracks[number].hits
            if len(hits) < _HITS:
                track[i] = UNTRACKED
            seen[i] = torch.tensor([hits[0][0], hits[-1][0]])
    return replace(one, track=track, seen=seen)
