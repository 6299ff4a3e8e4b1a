"""Learning from corrections: weights for the signs of one camera's sentences, few and held small.

Sixteen weights, by logistic regression on top of the confidence with which a sentence was told: a ridge holds
them near zero, and sentences of validation cameras, weighted as a hundred corrections, near what is true
elsewhere. Fifty corrections decide little more; detector, linker and words stay as they are. Each quarter of
the corrections, in the order of their time, is held out once and judged by what the others taught.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models import load_captioner
from models.captioner import Captioner
from pipeline.changes import ChangeOptions
from pipeline.narration.lessons import RECORD, SIGNS
from train.grounded.remarks import Folders, Remarked, remarked
from train.learning.run_state import refuse_folder, written

FEWEST, FEWEST_OF_EACH = 20, 5
"""With fewer corrections of a camera, or fewer right or wrong ones, nothing is learnt of it."""

PARTS = 4
"""So many times a part of the corrections is held out."""

_RIDGE = 5.0
_ANCHOR = 100.0
"""Chosen on validation cameras, see docs/adapting.md."""

_SURE, _SURER = 1.0, 2.0  # standard errors beyond which it is no chance that loss went up
_CONTRADICTS = 0.1  # log loss on validation cameras that fifty corrections made by chance hardly ever cost
_STEPS = 50
_SETTLED = 1e-9


@dataclass(frozen=True, slots=True)
class Weighing:
    """How sentences come out.

    Attributes:
        sentences: how many were told.
        false: share 0..1 of those still told that are wrong; NaN where none is.
        kept: share 0..1 of the right ones that are still told; NaN where there is none.
        loss: mean log loss of their confidence.
    """

    sentences: int
    false: float
    kept: float
    loss: float


@dataclass(frozen=True, slots=True)
class CameraLesson:
    """What came of one camera's corrections.

    Attributes:
        corrections, right: how many can be learnt from, and how many of these say that it was right.
        refused: why nothing is learnt; empty where something is.
        before, after: on the corrections held out.
        elsewhere_before, elsewhere_after: on validation cameras that were not learnt beside, had they these
            weights; they have not, for weights are used for their own camera alone.
        weights: of `SIGNS`; empty where refused.
    """

    corrections: int
    right: int
    refused: str = ""
    before: Weighing | None = None
    after: Weighing | None = None
    elsewhere_before: Weighing | None = None
    elsewhere_after: Weighing | None = None
    weights: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Taught:
    """What came of all corrections.

    Attributes:
        sha256: hex, of the file written; None where nothing was learnt.
        cameras: by name.
        left_out: how many corrections could not be used, by reason.
    """

    sha256: str | None
    cameras: Mapping[str, CameraLesson]
    left_out: Mapping[str, int]

    def plain(self) -> dict[str, Any]:
        """As plain values for JSON."""
        return asdict(self)


def teach(folders: Folders, out: Path, checkpoint: Path | None = None, command: str = "") -> Taught:
    """Learn from what people said, camera by camera, and write the captioner if anything was learnt.

    Args:
        folders: of feedback, journals and pictures.
        out: checkpoint to write.
        checkpoint: to begin with; None takes the packaged one.
        command: the command line, for the record.

    Raises:
        TrainError: it cannot be written.
        CheckpointError, FeedbackError, JournalError: see their modules.
    """
    refuse_folder(out)
    captioner = load_captioner(checkpoint)
    known = dict(captioner.record.get(RECORD, {}))
    changes = ChangeOptions.of(captioner.record.get("changes", {}))
    said, left_out = remarked(folders, changes, known, captioner.sha256)
    least = captioner.min_confidence
    validation = validation_sentences()
    lessons = {
        str(name): learnt(said.rows(said.camera == name), validation, least)
        for name in np.unique(said.camera)
    }
    fresh = {name: list(lesson.weights) for name, lesson in lessons.items() if lesson.weights}
    sha256 = _written(captioner, out, known | fresh, lessons, command) if fresh else None
    return Taught(sha256, lessons, dict(left_out))


def learnt(said: Remarked, validation: Remarked, least: float) -> CameraLesson:
    """What one camera's corrections teach, unless that is worse on those held out, beyond chance.

    Args:
        said: the corrections, in the order of their time.
        validation: sentences of other cameras; half of these cameras hold the weights, half measure them.
        least: confidence from which sentences are told.
    """
    number, right = len(said), int(said.right.sum())
    if number < FEWEST or min(right, number - right) < FEWEST_OF_EACH:
        return CameraLesson(
            number, right, f"at least {FEWEST} corrections, {FEWEST_OF_EACH} right and as many wrong"
        )
    names = np.unique(validation.camera)
    beside = np.isin(validation.camera, names[::2])
    anchor, elsewhere = validation.rows(beside), validation.rows(~beside)
    held = np.zeros(number)
    for part in np.array_split(np.arange(number), PARTS):
        others = np.setdiff1d(np.arange(number), part)
        held[part] = said.signs[part] @ fitted(said.rows(others), anchor)
    weights = fitted(said, anchor)
    moved = elsewhere.signs @ weights
    scores = (
        weighing(said, None, least),
        weighing(said, held, least),
        weighing(elsewhere, None, least),
        weighing(elsewhere, moved, least),
    )
    refused = ""
    if _more_loss(said, held, _SURE) > 0:
        refused = "it is worse on the corrections that were held out"
    elif _more_loss(elsewhere, moved, _SURER) > _CONTRADICTS:
        refused = "it contradicts what is true of other cameras"
    return CameraLesson(
        number, right, refused, *scores, () if refused else tuple(np.round(weights, 6).tolist())
    )


def fitted(said: Remarked, anchor: Remarked) -> NDArray[np.float64]:
    """Weights float64 ``(len(SIGNS),)``: the least of log loss and ridge, by Newton's method."""
    share = np.full(len(anchor), _ANCHOR / max(len(anchor), 1))
    each = np.concatenate([np.ones(len(said)), share])
    known = np.concatenate([said.signs, anchor.signs])
    odds = np.concatenate([said.odds, anchor.odds])
    right = np.concatenate([said.right, anchor.right]).astype(np.float64)
    weights = np.zeros(len(SIGNS))
    for _ in range(_STEPS):
        p = _probability(odds + known @ weights)
        slope = known.T @ (each * (p - right)) + _RIDGE * weights
        curve = (known * (each * p * (1 - p))[:, None]).T @ known + _RIDGE * np.eye(len(SIGNS))
        step = np.linalg.solve(curve, slope)
        weights -= step
        if np.abs(step).max() < _SETTLED:
            break
    return weights


def weighing(said: Remarked, moved: NDArray[np.float64] | None, least: float) -> Weighing:
    """How sentences come out whose log odds are moved, float64 ``(N,)``; as they were told with None."""
    told = np.ones(len(said), np.bool_)
    if moved is not None:
        told = _probability(said.odds + moved) >= least
    false = float(1 - said.right[told].mean()) if told.any() else float("nan")
    kept = float(told[said.right].mean()) if said.right.any() else float("nan")
    return Weighing(len(said), round(false, 4), round(kept, 4), round(float(_loss(said, moved).mean()), 4))


def validation_sentences() -> Remarked:
    """Sentences told of pairs of the validation cameras, with their teachers' word; they ship with this."""
    with resources.files(__package__).joinpath("validation.npz").open("rb") as file, np.load(file) as held:
        signs, odds = held["signs"].astype(np.float64), held["odds"].astype(np.float64)
        return Remarked(signs, odds, held["right"], held["camera"])


def _more_loss(said: Remarked, moved: NDArray[np.float64], errors: float) -> float:
    """By how much the log loss rises at least, so many standard errors below the mean."""
    more = _loss(said, moved) - _loss(said, None)
    return float(more.mean() - errors * more.std() / np.sqrt(len(more)))


def _loss(said: Remarked, moved: NDArray[np.float64] | None) -> NDArray[np.float64]:
    odds = said.odds if moved is None else said.odds + moved
    return np.asarray(np.logaddexp(0.0, np.where(said.right, -odds, odds)), np.float64)


def _probability(odds: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(np.exp(-np.logaddexp(0.0, -odds)), np.float64)


def _written(
    captioner: Captioner,
    out: Path,
    weights: Mapping[str, Any],
    lessons: Mapping[str, CameraLesson],
    command: str,
) -> str:
    record = {
        **captioner.record,
        "command": command,
        RECORD: dict(weights),
        "taught": {
            "from": {"sha256": captioner.sha256, "command": captioner.record.get("command", "")},
            "cameras": {name: asdict(each) for name, each in lessons.items() if each.weights},
        },
    }
    for each in record["taught"]["cameras"].values():
        each["weights"] = list(each["weights"])
    captioner.record = record
    return written(captioner, out)
