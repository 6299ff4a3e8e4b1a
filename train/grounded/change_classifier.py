"""Training the change classifier on pairs of labelled frames.

Pairs come from every camera about equally often, with gaps from half a second to as long as its footage
reaches. Of each observation it is known that it is a change (the teacher is sure of it on this side and sees
nothing like it there on the other), that it is none (the teacher sees nothing here, or the same on both sides
and the pixels agree), or it is left out.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

from models.detections import Detections, overlaps
from models.families import OBJECTS, family_of
from models.grounded.grounded import Grounded
from models.grounded.observations import EVIDENCE, ChangeClassifier, evidence
from models.grounded.settings import SETTINGS
from pipeline.changes import image_changes
from pipeline.narration.batch import with_views
from pipeline.sources.times import moment_in_name
from train.checkpoints import trained_changes
from train.footage.labels import LabelledFrame, by_camera, picture
from train.footage.votes import Vote

UNKNOWN_GAP = 0.3  # share of the pairs whose gap is withheld: of many stills it is unknown
_NOTHING, _MATCH, _THERE, _EXACTLY = 0.2, 0.5, 0.35, 0.9  # overlaps with the teacher's boxes
_UNCHANGED = 0.25  # share of a box that differs
_STRANGE, _DIFFERS, _ALIKE = 0.3, 0.6, 0.75  # correlations of the two pictures
_CHANGED, _CORRELATION = "share of its box that differs", "correlation of the two pictures there"


@dataclass(frozen=True, slots=True, eq=False)
class ChangeLabels:
    evidence: NDArray[np.float32]  # float32 ``(N, len(EVIDENCE))``
    change: NDArray[np.bool_]  # bool ``(N,)``
    camera: NDArray[np.str_]  # str ``(N,)``


class Network(nn.Module):
    """Log odds that an observation is a change: a member of `ChangeClassifier`."""

    def __init__(self, hidden: int = 32) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(len(EVIDENCE)))
        self.register_buffer("deviation", torch.ones(len(EVIDENCE)))
        sizes = (len(EVIDENCE), hidden, hidden, 1)
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(sizes))

    mean: Tensor
    deviation: Tensor

    def fit_scaling(self, evidence: Tensor) -> None:
        self.mean.copy_(evidence.mean(0))
        self.deviation.copy_(evidence.std(0).clamp(min=1e-3))

    def forward(self, evidence: Tensor) -> Tensor:
        """Log odds float32 ``(N,)`` of evidence ``(N, len(EVIDENCE))``."""
        x = ((evidence - self.mean) / self.deviation).clamp(-5, 5)
        for layer in self.layers[:-1]:
            x = layer(x).relu()
        logits: Tensor = self.layers[-1](x)[..., 0]
        return logits


def classifier_of(networks: Sequence[Network]) -> ChangeClassifier:
    weights = [network.state_dict() for network in networks]
    stacked = {name: torch.stack([each[name] for each in weights]).numpy() for name in weights[0]}
    return ChangeClassifier.of({name.removeprefix("layers."): each for name, each in stacked.items()})


def draw_pairs(
    frames: Sequence[LabelledFrame], number: int, seed: int
) -> Iterator[tuple[LabelledFrame, LabelledFrame]]:
    """Frames of one camera, in either order; the same ones from the same seed."""
    rng = np.random.default_rng(seed)
    usable = {name: own for name, own in by_camera(frames).items() if len(own) > 1}
    weight = np.array([len(own) ** 0.4 for own in usable.values()])
    names = list(usable)
    for _ in range(number):
        own = usable[names[rng.choice(len(names), p=weight / weight.sum())]]
        first = own[rng.integers(len(own))]
        clip = [f for f in own if f.file == first.file and f.seconds is not None and f is not first]
        others = [f for f in own if f.file != first.file]
        if clip and (not others or rng.random() < 0.6):  # noqa: PLR2004 - three of five within a clip
            apart = np.array([abs((f.seconds or 0) - (first.seconds or 0)) for f in clip])
            wanted = np.exp(rng.uniform(np.log(0.4), np.log(apart.max() + 0.1)))
            second = clip[int(np.abs(apart - wanted).argmin())]
        else:
            second = others[rng.integers(len(others))] if others else own[0]
        if second is first:
            continue
        if rng.random() < 0.5:  # noqa: PLR2004 - both orders are as good
            first, second = second, first
        yield first, second


def gap_between(one: LabelledFrame, other: LabelledFrame) -> float | None:
    """Seconds between two frames: by their file's clock, of two files by the times in their names."""
    if one.file == other.file:
        return None if one.seconds is None or other.seconds is None else abs(one.seconds - other.seconds)
    moments = [moment_in_name(Path(frame.file)) for frame in (one, other)]
    if moments[0] is None or moments[1] is None:
        return None
    return abs((moments[1] - moments[0]).total_seconds())


def verdicts(
    observed: Detections,
    here: Sequence[Vote],
    there: Sequence[Vote],
    seen: NDArray[np.float32],
    *,
    apart: bool,
) -> NDArray[np.int8]:
    """1 for an observation that is a change, 0 for one that is none, -1 where it is unknown: int8 ``(N,)``.

    What the teacher sees on one side alone is a change unless the pictures are alike there (it was overlooked
    on the other side), and what it sees on both sides is none if they are alike there, however much the light
    has changed. Two objects at about one place whose pictures have nothing in common are two, on two
    occasions (`apart`). `here` and `there` are the teacher's candidates on this side and on the other, `seen`
    the classifier's evidence of the observed, float32 ``(N, len(EVIDENCE))``.
    """
    result = np.full(len(observed.box), -1, np.int8)
    on_this, on_that = (overlaps(observed.box, [v.box for v in votes]) for votes in (here, there))
    changed, alike = (seen[:, EVIDENCE.index(name)].tolist() for name in (_CHANGED, _CORRELATION))
    taken: set[int] = set()
    for n in np.argsort(-observed.score).tolist():
        family = family_of(OBJECTS[int(observed.label[n].argmax())])
        if family not in ("person", "vehicle", "two-wheeler"):
            continue
        own = [m for m, v in enumerate(here) if v.family == family]
        best = max(own, key=lambda m: on_this[n, m], default=None)
        across = max((on_that[n, m] for m, v in enumerate(there) if v.family == family), default=0.0)
        if best is None or on_this[n, best] < _NOTHING:
            result[n] = 0
        elif on_this[n, best] < _MATCH:
            continue
        elif best in taken:
            result[n] = 0 if here[best].sure else -1
        elif here[best].sure:
            taken.add(best)
            result[n] = _changes(across, changed[n], alike[n], apart=apart)
    return result


def _changes(across: float, changed: float, alike: float, *, apart: bool) -> int:
    if across < _THERE:
        return 1 if alike < _DIFFERS else 0 if alike > _ALIKE and changed < _UNCHANGED else -1
    if changed < _UNCHANGED or alike > _ALIKE:
        return 0
    return 1 if apart and alike < _STRANGE and across < _EXACTLY else -1


def change_labels(
    captioner: Grounded, folder: Path, frames: Sequence[LabelledFrame], number: int, seed: int
) -> ChangeLabels:
    """Labels of the observations of drawn pairs, observed as they would be in use."""
    rng, options = np.random.default_rng(seed), trained_changes(captioner)
    rows, change, camera = [], [], []
    for first, second in draw_pairs(frames, number, seed):
        before, after = picture(folder, first), picture(folder, second)
        if before.shape != after.shape:
            continue
        shift, clusters, _ = image_changes(before, after, options)
        if not clusters:
            continue
        gap_s = gap_between(first, second)
        if gap_s is None or rng.random() < UNKNOWN_GAP:
            gap_s = np.nan
        [observed] = captioner.observe([with_views((before, after), shift, clusters, gap_s)])
        assert observed is not None  # noqa: S101 - there are clusters
        votes, apart = (first.votes, second.votes), first.file != second.file
        for side in (0, 1):
            seen = evidence(observed, side)
            known = verdicts(observed.sides[side], votes[side], votes[1 - side], seen, apart=apart)
            keep = (known >= 0) & (observed.sides[side].score >= SETTINGS.proposed_score)
            rows.append(seen[keep])
            change.append(known[keep] > 0)
            camera += [first.camera] * int(keep.sum())
    none = np.zeros((0, len(EVIDENCE)), np.float32), np.zeros(0, np.bool_)
    return ChangeLabels(
        np.concatenate([none[0], *rows]), np.concatenate([none[1], *change]), np.array(camera)
    )


def train_classifier(known: ChangeLabels, seed: int, steps: int = 3000) -> Network:
    """Train on labels, every camera weighing about as much."""
    torch.manual_seed(seed)
    classifier = Network()
    shown, change = torch.from_numpy(known.evidence), torch.from_numpy(known.change).float()
    classifier.fit_scaling(shown)
    _, of, counts = np.unique(known.camera, return_inverse=True, return_counts=True)
    weight = torch.from_numpy((counts[of] ** -0.5).astype(np.float32))
    weight = weight / weight.mean()
    optimizer = torch.optim.AdamW(classifier.parameters(), lr=3e-3, weight_decay=1e-2)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    chance = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        rows = torch.randint(len(shown), (512,), generator=chance)
        loss = binary_cross_entropy_with_logits(classifier(shown[rows]), change[rows], weight=weight[rows])
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        schedule.step()
    return classifier.eval()
