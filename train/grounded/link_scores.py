"""What a linker is worth on cameras that it has not learnt from."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from models.box_tensors import distances
from models.families import first_of
from models.grounded.linker import LEAST, Linker, assigned, links
from train.grounded.identities import GHOST, UNTRACKED, Snapshot
from train.grounded.link_examples import OTHER, SAME, CameraSnapshots, family, likeness, relations, shares

_GAPS = ((0.0, 2.0, "up to 2 s"), (2.0, 10.0, "2 to 10 s"), (10.0, math.inf, "over 10 s"))
_MOST = 80  # pairs of frames of a camera
_KINDS = {"people": first_of("person"), "vehicles": first_of("vehicle")}
_MOVED = 0.5  # overlap below which something has moved


@dataclass(slots=True)
class _EndScores:
    """Pairs of ends: what each measure gives the same and the others."""

    same: dict[str, list[float]] = field(default_factory=dict)
    other: dict[str, list[float]] = field(default_factory=dict)

    def add(self, name: str, values: Tensor, table: Tensor) -> None:
        self.same.setdefault(name, []).extend(values[table == SAME].tolist())
        self.other.setdefault(name, []).extend(values[table == OTHER].tolist())


@torch.inference_mode()
def link_scores(
    linker: Linker, cameras: Sequence[CameraSnapshots], least: float = LEAST
) -> dict[str, object]:
    """How well the linker tells the same from others.

    Args:
        linker: trained.
        cameras: that it has not learnt from.
        least: least probability of a link.

    Returns:
        ``auc``: by gap and kind of object, for the linker, the linker where the gap is not known, and for
        colour, the teacher and nearness by themselves, with the number of pairs; ``links``: precision and
        recall of the links between real ends by gap, those of what moved apart, and the share of ghosts
        that are linked to something real.
    """
    tallies: dict[str, _EndScores] = {}
    counts: dict[str, np.ndarray] = {}
    for camera in cameras:
        for a, b, gap_s in _pairs(camera):
            table = relations(a, b, flowing=camera.flowing)
            group = (
                next(n for low, high, n in _GAPS if low <= gap_s < high) if not math.isnan(gap_s) else "days"
            )
            for kind, first in _KINDS.items():
                own = (family(a.ends) == first)[:, None] & (family(b.ends) == first)[None]
                own &= (a.track >= UNTRACKED)[:, None] & (b.track >= UNTRACKED)[None]
                for name, measure in _measures(linker, gap_s).items():
                    values = measure(a, b)
                    compared = own & ~values.isnan()
                    tallies.setdefault(f"{kind}, {group}", _EndScores()).add(
                        name, values[compared], table[compared]
                    )
            for known in (True, False):
                row = _links(linker, (a, b), table, gap_s if known else math.nan, least)
                for name in (group, "all"):
                    key = f"{name}, gap {'known' if known else 'not known'}"
                    counts[key] = counts.get(key, np.zeros(8)) + row
    auc = {
        key: {
            name: [_auc(t.same[name], t.other[name]), len(t.same[name]), len(t.other[name])]
            for name in t.same
        }
        for key, t in sorted(tallies.items())
    }
    return {"auc": auc, "links": {key: _rates(row) for key, row in counts.items()}}


def _pairs(camera: CameraSnapshots) -> Iterator[tuple[Snapshot, Snapshot, float]]:
    """Pairs of frames, the same ones every time; NaN for those of different occasions."""
    chance = np.random.default_rng(len(camera))
    plain = [s for own in camera.occasions.values() for s in own if not s.relit]
    chosen = [(i, j) for i in range(len(plain)) for j in range(i + 1, len(plain))]
    for k in chance.permutation(len(chosen))[:_MOST]:
        a, b = (plain[i] for i in chosen[k])
        yield a, b, abs(a.seconds - b.seconds) if a.occasion == b.occasion else math.nan


def _measures(linker: Linker, gap_s: float) -> dict[str, Callable[[Snapshot, Snapshot], Tensor]]:
    long = 7200.0 if math.isnan(gap_s) else gap_s

    def judged(seconds: float) -> Callable[[Snapshot, Snapshot], Tensor]:
        return lambda a, b: linker(a.ends, b.ends, torch.tensor(seconds))

    return {
        "linker": judged(long),
        "gap not known": judged(math.nan),
        "embedding": lambda a, b: linker.embedding(a.ends.feature) @ linker.embedding(b.ends.feature).mT,
        "colour": lambda a, b: a.ends.looks @ b.ends.looks.mT,
        "teacher": likeness,
        "nearness": lambda a, b: -distances(a.ends.box, b.ends.box),
    }


def _links(
    linker: Linker, pair: tuple[Snapshot, Snapshot], table: Tensor, gap_s: float, least: float
) -> np.ndarray:
    """Links right, wrong, and to be found; the same of what moved; ghosts, and those linked to real ones."""
    a, b = pair
    found = torch.zeros(table.shape, dtype=torch.bool)
    for i, j in assigned(links(linker(a.ends, b.ends, torch.tensor(gap_s))).one, least):
        found[i, j] = True
    moved = shares(a, b) < _MOVED
    ghost, spectre = a.track == GHOST, b.track == GHOST
    haunted = found & (ghost[:, None] != spectre[None]) & (table == OTHER)
    wrong = found & (table == OTHER) & ~ghost[:, None] & ~spectre[None]
    row = [(found & (table == SAME)), wrong, (table == SAME)]
    row += [part & moved for part in row]
    return np.array(
        [*(int(part.sum()) for part in row), int(ghost.sum() + spectre.sum()), int(haunted.sum())]
    )


def _rates(row: np.ndarray) -> dict[str, float]:
    right, wrong, there, right_moved, wrong_moved, there_moved, ghosts, haunted = (float(v) for v in row)
    return {
        "precision": round(right / max(1.0, right + wrong), 3),
        "recall": round(right / max(1.0, there), 3),
        "pairs": there,
        "precision of moved": round(right_moved / max(1.0, right_moved + wrong_moved), 3),
        "recall of moved": round(right_moved / max(1.0, there_moved), 3),
        "moved": there_moved,
        "wrong of moved": wrong_moved,
        "ghosts linked": round(haunted / max(1.0, ghosts), 4),
    }


def _auc(same: list[float], other: list[float]) -> float:
    """Probability that one of the same gets more than another one; NaN where either is missing."""
    if not same or not other:
        return math.nan
    values = np.concatenate([same, other])
    _, place, times = np.unique(values, return_inverse=True, return_counts=True)
    rank = (np.cumsum(times) - (times - 1) / 2)[place]
    above = rank[: len(same)].sum() - len(same) * (len(same) + 1) / 2
    return round(float(above / (len(same) * len(other))), 3)
