"""What fifty corrections teach of a camera, on footage that the captioner did not learn from.

    narrated-train compose --clips cameras/train --labels labels --out frames --frames-only
    python benchmarks/bench_feedback.py --data frames --rows rows.npz [--ship train/grounded/validation.npz]

Sentences about pairs of the validation cameras' frames, those that would be told, with the teachers' word:
that takes half an hour and is kept in --rows. Of each camera fifty sentences of its first three quarters are
corrected as the teachers say, ten times; counted is what is told of its last quarter. Elsewhere means cameras
whose sentences were neither corrected nor learnt beside, had they the same weights; in use they have none.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from models import load_captioner
from models.grounded.grounded import Grounded
from pipeline.changes import image_changes
from pipeline.narration.lessons import SIGNS, log_odds, signs
from train.footage.frames import LabelledFrame, picture, read_frames
from train.footage.recipe import GROUNDED
from train.grounded.adaptation import LAST_PART, parted
from train.grounded.confidence import verdict
from train.grounded.judge import looked
from train.grounded.lessons import fitted, learnt, weighing
from train.grounded.pairs import FramePairing, pairings
from train.grounded.remarks import Remarked

EARLY, LATE = 250, 150
"""Pairs that are drawn of each camera's two parts."""

SEED, DRAWS, FEWEST = 7, 10, 30
SHIPPED = 400
"""Sentences of each camera that ship at most."""


def collected(captioner: Grounded, folder: Path) -> tuple[Remarked, np.ndarray]:
    """The sentences, and which of them are of the last quarter."""
    names = captioner.record["validation_cameras"]
    parts = parted([f for f in read_frames(folder) if f.camera in names], LAST_PART)
    rows, late = [], []
    for name in sorted(names):
        for part, number in zip(parts, (EARLY, LATE), strict=True):
            own = told(captioner, folder, [frame for frame in part if frame.camera == name], number)
            rows += own
            late += [part is parts[1]] * len(own)
        print(f"{name}: {len(rows)} sentences so far", flush=True)
    known = np.array([row[0] for row in rows]).reshape(-1, len(SIGNS))
    odds, right = np.array([row[1] for row in rows]), np.array([row[2] for row in rows], bool)
    return Remarked(known, odds, right, np.array([row[3] for row in rows])), np.array(late)


def told(
    captioner: Grounded, folder: Path, frames: Sequence[LabelledFrame], number: int
) -> list[tuple[np.ndarray, float, bool, str]]:
    """What would be told of pairs of frames where the teachers know whether it is so."""
    if len(frames) < 2:  # a part of a camera may be one picture, or none
        return []
    apart: dict[tuple[str, str], FramePairing] = {}
    for pair in pairings(frames, number, SEED):
        apart.setdefault((pair.before.image, pair.after.image), pair)
    rows = []
    with torch.inference_mode():
        for pair, sides in looked(captioner, folder, list(apart.values()), SEED):
            before, after = (picture(folder, frame) for frame in (pair.before, pair.after))
            _, clusters, _ = image_changes(before, after, GROUNDED)
            changed = np.logical_or.reduce([cluster.mask for cluster in clusters])
            for fact in captioner.facts_of_sides(sides, 0):
                word = verdict(fact, pair)
                known = signs(fact, before, after, changed)
                if word is not None and known is not None and fact.confidence >= captioner.min_confidence:
                    rows.append((known, log_odds(fact.confidence), word, pair.before.camera))
    return rows


def corrected(said: Remarked, late: np.ndarray, number: int, least: float) -> None:
    """Print what so many corrections gain, camera by camera and in the mean."""
    means, written, asked = [], 0, 0
    for camera in np.unique(said.camera):
        early = np.flatnonzero((said.camera == camera) & ~late)
        held = said.rows((said.camera == camera) & late)
        if len(held) < FEWEST or len(early) < 2 * number:
            continue
        names = [name for name in np.unique(said.camera) if name != camera]
        own = []
        for seed in range(DRAWS):
            chosen = np.sort(np.random.default_rng(seed).choice(early, number, replace=False))
            one, two = (said.rows(np.isin(said.camera, names[(seed + n) % 2 :: 2])) for n in (0, 1))
            weights = fitted(said.rows(chosen), one)
            scores = [
                weighing(rows, moved, least) for rows in (held, two) for moved in (None, rows.signs @ weights)
            ]
            own.append([value for s in scores for value in (s.false, s.kept, s.loss)])
            written += bool(learnt(said.rows(chosen), one, least).weights)
            asked += 1
        means.append(np.mean(own, axis=0))
        print(f"| {camera} | {len(held)} | {cells(means[-1])} |")
    print(f"| mean | | {cells(np.mean(means, axis=0))} |\nwritten: {written} of {asked}")


def cells(values: np.ndarray) -> str:
    """False before and after, right kept, log loss before and after; here, then elsewhere."""
    here, else_ = values[:6], values[6:]
    return " | ".join(
        f"{v[0]:.3f} | {v[3]:.3f} | {v[4]:.3f} | {v[2]:.3f} | {v[5]:.3f}" for v in (here, else_)
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, help="labelled frames")
    parser.add_argument("--rows", type=Path, required=True, help="sentences, made where they are not there")
    parser.add_argument("--ship", type=Path, help="write the sentences that ship")
    parser.add_argument("--number", type=int, default=50, help="corrections")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    captioner = load_captioner()
    if not isinstance(captioner, Grounded):
        raise TypeError(f"captioner {captioner.name} links no ends")
    if not asked.rows.exists():
        said, late = collected(captioner, asked.data)
        np.savez_compressed(
            asked.rows, signs=said.signs, odds=said.odds, right=said.right, camera=said.camera, held=late
        )
    with np.load(asked.rows) as kept:
        said = Remarked(
            kept["signs"].astype(float), kept["odds"].astype(float), kept["right"], kept["camera"]
        )
        late = kept["held"]
    if asked.ship:
        shipped(said, late, asked.ship)
    corrected(said, late, asked.number, captioner.min_confidence)


def shipped(said: Remarked, late: np.ndarray, out: Path) -> None:
    """Write some sentences of every camera that has enough."""
    chance, chosen = np.random.default_rng(1), []
    for camera in np.unique(said.camera):
        own = np.flatnonzero(said.camera == camera)
        if len(own) >= FEWEST:
            chosen.append(np.sort(chance.choice(own, min(len(own), SHIPPED), replace=False)))
    rows = np.concatenate(chosen)
    small = said.rows(rows)
    half = {"signs": small.signs.astype(np.float16), "odds": small.odds.astype(np.float16)}
    np.savez_compressed(out, **half, right=small.right, camera=small.camera, held=late[rows])


if __name__ == "__main__":
    main()
