"""Fitting association and decisions to pairs of stills whose changes were labelled, by eye or by tracks.

Labels are JSON Lines, one pair a line: ``id``, ``camera``, ``before`` and ``after`` (``clip``, ``frame``),
``gap_s``, ``changes`` (``type``, ``object``, ``object_alt``, ``count``, ``box_before``, ``box_after`` and
``identity``) and ``ignore``, boxes in which nobody can tell. The weights of matches are learnt through belief
propagation, from 0, and the two logistic regressions after it are convex (`models.grounded.association`), so
that no seed enters.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from torch import Tensor

from models.boxes import Box, box_of, centre, holds, iou
from models.families import OBJECTS, family_of
from models.grounded.association import CHANGE_COLUMNS, LOGIT_MOST, Association, Floats, propagate_beliefs
from models.grounded.grounded import Grounded
from models.grounded.settings import SETTINGS
from pipeline.changes import image_changes
from pipeline.narration.batch import with_views
from pipeline.sources import Image
from train.checkpoints import TrainError, load_grounded, refuse_folder, trained_changes, write_checkpoint
from train.footage.cameras import frames_of

IGNORED, UNKNOWN, NONE = -3, -2, -1
"""In place of a change's number: too small or too crowded for anyone to tell; unknown; no change."""

_MATCH = 0.3  # overlap of an observation with its label
_GROUP = 0.05  # least share of a group's box that one of its members fills
_REGULARISATION = 0.3  # scikit-learn's C
_IGNORED_WEIGHT = 0.1  # as no change that can be told: with more, too little is told

_UNCHANGED_WEIGHT = 0.2  # of what stays at its place: there is much of it
_LEAST = 1e-4  # of a probability that is to rise
_STEPS = 40  # of L-BFGS
_TOO_LITTLE = "the labels must hold changes of every type, and what did not change beside them"

_Labelled = tuple[Floats, NDArray[np.bool_], Floats]
"""Signs ``(N, P)``, whether each is one, and its weight."""


@dataclass(frozen=True, slots=True, eq=False)
class DecisionExample:
    id: str  # the pair's, and its camera's name
    camera: str
    association: Association  # of its two sides
    # of each side int64 ``(N,)``: the number of the change that it belongs to, `NONE`, `UNKNOWN` or `IGNORED`
    labels: tuple[NDArray[np.int64], NDArray[np.int64]]
    moved: tuple[bool | None, ...]  # of each change True, False, or None where it is unknown


@dataclass(frozen=True, slots=True, eq=False)
class DecisionWeights:
    """Weights of the logistic regressions, the constant last; see `models.grounded.association`."""

    match: Floats
    change: Floats
    move: Floats

    def apply_to(self, captioner: Grounded) -> None:
        for name in ("match", "change", "move"):  # a checkpoint keeps float32
            setattr(captioner.weights, name, getattr(self, name).astype(np.float32).astype(np.float64))


def examples(captioner: Grounded, labels: Sequence[Path], footage: Path) -> list[DecisionExample]:
    """Observe labelled pairs as they would be in use.

    Clips lie in the folder `footage` at any depth; of equal names that in ``CAMERA/`` is meant. TrainError
    where the labels or their footage cannot be read, FootageError where a frame cannot be decoded.
    """
    found = []
    options = trained_changes(captioner)
    for pair, before, after in _pairs(labels, footage):
        shift, clusters, _ = image_changes(before, after, options)
        if not clusters:
            continue
        gap_s = np.nan if pair.get("gap_s") is None else float(pair["gap_s"])
        [observed] = captioner.observe([with_views((before, after), shift, clusters, gap_s)])
        if observed:
            association = captioner.associate(observed)
            known = [_label_observations(pair, association, side) for side in (0, 1)]
            moved = tuple(_has_moved(change) for change in pair["changes"])
            found.append(
                DecisionExample(pair["id"], pair["camera"], association, (known[0], known[1]), moved)
            )
    return found


def fit(known: Sequence[DecisionExample]) -> DecisionWeights:
    """The weights that fit labelled pairs best; TrainError if the labels do not hold both of something."""
    match = _fit_matches(known)
    change, move = list[_Labelled](), list[_Labelled]()
    for each in known:
        signs = each.association.outcome_signs(each.association.match(match))
        for side in (0, 1):
            label = each.labels[side]
            rows = label != UNKNOWN
            weight = np.where(label[rows] == IGNORED, _IGNORED_WEIGHT, 1.0)
            change.append((signs[side][rows][:, CHANGE_COLUMNS], label[rows] >= 0, weight))
            told = [each.moved[k] if k >= 0 else None for k in label.tolist()]
            sure = np.array([word is not None for word in told], np.bool_)
            right = np.array([bool(word) for word in told], np.bool_)[sure]
            move.append((signs[side][sure], right, np.ones(len(right))))
    return DecisionWeights(match, _regression(change), _regression(move))


def add_decisions(start: Path, labels: Sequence[Path], footage: Path, out: Path, command: str) -> str:
    """Fit a checkpoint's decisions to labelled pairs, see `examples`; sha256 (hex); raises `TrainError`."""
    refuse_folder(out)
    captioner = load_grounded(start)
    known = examples(captioner, labels, footage)
    fit(known).apply_to(captioner)
    cameras = sorted({each.camera for each in known})
    fitted = {"command": command, "labels": labels_record(labels), "cameras": cameras}
    captioner.record = {**captioner.record, "decisions": fitted}
    return write_checkpoint(captioner, out)


def labels_record(labels: Sequence[Path]) -> list[dict[str, Any]]:
    return [
        {
            "file": path.name,
            "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
            "pairs": len(path.read_text(encoding="utf-8").splitlines()),
        }
        for path in labels
    ]


def _pairs(labels: Sequence[Path], footage: Path) -> Iterator[tuple[Mapping[str, Any], Image, Image]]:
    """Labelled pairs and their pictures; each clip is decoded once."""
    try:
        rows = [json.loads(line) for path in labels for line in path.read_text("utf-8").splitlines() if line]
    except (OSError, ValueError) as error:
        raise TrainError(f"the labels cannot be read ({error}); give JSON Lines of labelled pairs") from error
    paths: dict[str, list[Path]] = {}
    for path in sorted(footage.rglob("*")):
        paths.setdefault(path.name, []).append(path)
    wanted: dict[Path, set[int]] = {}
    sides: list[list[tuple[Path, int]]] = []
    for row in rows:
        sides.append([])
        for clip, number in ((row[side]["clip"], int(row[side]["frame"])) for side in ("before", "after")):
            named = paths.get(clip, [])
            own = [path for path in named if path.parent.name == row["camera"]] or named
            if len(own) != 1:
                raise TrainError(
                    f"{footage} has {len(own)} files {clip} of camera {row['camera']}: give the folder of "
                    "the footage that the labels are of"
                )
            wanted.setdefault(own[0], set()).add(number)
            sides[-1].append((own[0], number))
    images: dict[tuple[Path, int], Image] = {}
    for path, numbers in wanted.items():
        ordered = sorted(numbers)
        images |= {(path, n): image for n, image in zip(ordered, frames_of(path, ordered), strict=True)}
    for row, (before, after) in zip(rows, sides, strict=True):
        yield row, images[before], images[after]


def _has_moved(change: Mapping[str, Any]) -> bool | None:
    return None if change.get("identity") == "unsure" else bool(change["type"] == "moved")


def _label_observations(pair: Mapping[str, Any], association: Association, side: int) -> NDArray[np.int64]:
    """To which change each observation of a side belongs, see `DecisionExample`."""
    own = association.sides[side]
    found = np.full(len(own), NONE)
    key = ("box_before", "box_after")[side]
    for n, row in enumerate(own.box.tolist()):
        box, best = box_of(row), 0.0
        if any(holds(box_of(area), centre(box)) for area in pair.get("ignore", [])):
            found[n] = IGNORED
        for k, change in enumerate(pair["changes"]):
            if not change.get(key):
                continue
            there = box_of(change[key])
            share = max(iou(box, there), _of_group(box, there, change))
            if share < max(_MATCH, best):
                continue
            if family_of(OBJECTS[int(own.family[n])]) in _families(change):
                found[n], best = k, share
            elif found[n] == NONE:
                found[n] = UNKNOWN
    return found


def _of_group(box: Box, group: Box, change: Mapping[str, Any]) -> float:
    """`_MATCH` for one of a group that is labelled as one change, else 0."""
    share = box[2] * box[3] / max(group[2] * group[3], 1e-9)
    return _MATCH * (change.get("count", 1) > 1 and holds(group, centre(box)) and share >= _GROUP)


def _families(change: Mapping[str, Any]) -> set[str]:
    return {family_of(name) for name in (change["object"], *change.get("object_alt", ()))}


def _fit_matches(known: Sequence[DecisionExample]) -> Floats:
    """The weights by which belief propagation finds the partners that are known, and who has none."""
    pairs = np.concatenate([each.association.signs[each.association.family] for each in known])
    if not len(pairs):
        raise TrainError(_TOO_LITTLE)
    mean, deviation = pairs.mean(0), pairs.std(0) + 1e-6
    signs = [torch.from_numpy((each.association.signs - mean) / deviation) for each in known]
    family = [torch.from_numpy(each.association.family) for each in known]
    partners = [_partners(each) for each in known]
    learnt = torch.zeros(pairs.shape[1] + 1, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS([learnt], max_iter=_STEPS, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimizer.zero_grad()
        total = learnt[:-1].square().sum() / (2 * _REGULARISATION)
        for own, kin, (same, *sides) in zip(signs, family, partners, strict=True):
            odds = (own @ learnt[:-1] + learnt[-1]).clip(-LOGIT_MOST, LOGIT_MOST).exp() * kin
            match = propagate_beliefs(odds)
            for axis, (weight, alone) in zip((1, 0), sides, strict=True):
                right = torch.where(alone, 1 - match.sum(axis), (match * same).sum(axis))
                total = total - (weight * right.clip(_LEAST, 1).log()).sum()
        total.backward()  # type: ignore[no-untyped-call]
        return total

    optimizer.step(loss)  # type: ignore[no-untyped-call]
    weights = learnt.detach().numpy()
    scaled = weights[:-1] / deviation
    return np.append(scaled, weights[-1] - mean @ scaled)


def _partners(known: DecisionExample) -> tuple[Tensor, tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """Which two are one, bool ``(S, T)``; of each side the weight of each observation, and who has none."""
    before, after = known.labels
    unchanged = (before == NONE)[:, None] & (after == NONE)[None]
    there = known.association.apart < SETTINGS.stayed
    same = np.where(unchanged, there, (before[:, None] == after[None]) & (before >= 0)[:, None])
    same &= known.association.family
    moved = np.array([-1 if word is None else int(word) for word in known.moved] + 3 * [-1])
    sides = []
    for axis, label in ((1, before), (0, after)):
        alone = (label >= 0) & (moved[label] == 0)
        weight = np.where(alone | ((moved[label] == 1) & same.any(axis)), 1.0, 0.0)
        weight[(label == NONE) & same.any(axis)] = _UNCHANGED_WEIGHT
        sides.append((torch.from_numpy(weight), torch.from_numpy(alone)))
    return torch.from_numpy(same), sides[0], sides[1]


def _regression(parts: Sequence[_Labelled]) -> Floats:
    """Weights of the signs as they are, the constant last."""
    signs, right, weight = (np.concatenate(column) for column in zip(*parts, strict=True))
    if not len(right) or right.all() or not right.any():
        raise TrainError(_TOO_LITTLE)
    mean, deviation = signs.mean(0), signs.std(0) + 1e-6
    model = LogisticRegression(C=_REGULARISATION, max_iter=3000)
    model.fit((signs - mean) / deviation, right, weight)
    weights = model.coef_[0] / deviation
    return np.append(weights, model.intercept_[0] - mean @ weights)
