"""Training the detector on labelled frames, and its average precision; an interrupted run goes on.

Cells are assigned to objects by how well they already answer (Feng et al. 2021, "TOOD: task-aligned
one-stage object detection", equation 3); classes learn by quality focal loss and edges by distribution focal
loss (Li et al. 2020, "Generalized focal loss", equations 3 and 6) and generalised IoU (Rezatofighi et al.
2019). Average precision is that at half overlap against the pseudo-labels: sure candidates are the truth,
all-point interpolated (Everingham et al. 2010); what meets an unsure one is neither right nor wrong.
"""

import json
import math
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from models.detections import Detections, overlaps
from models.detections import Detector as AnyDetector
from models.families import CLASSES, OBJECTS, family_of
from models.grounded.detector import Answer, Detector
from models.grounded.inference import BINS, canvas
from pipeline.sources import Image
from train.footage.labels import LabelledFrame, picture
from train.footage.votes import Vote
from train.grounded.pictures import CANVASES, LabelledPicture, Pictures
from train.grounded.stages import StageOptions, Stateful, load_state, save_state

NEAREST = 10  # cells that one object is assigned to at most
_SCORE, _PLACE = 1.0, 4.0  # exponents of class score and overlap in the alignment
_DOUBT = 0.3  # a cell whose box shares so much with a doubtful object learns no class


@dataclass(frozen=True, slots=True, eq=False)
class Objects:
    box: Tensor  # float32 ``(N, 4)``, left, top, right, bottom in pixels
    label: Tensor  # float32 ``(N, classes)``, 0..1, how much each class is right; the largest of a row is 1
    doubtful: Tensor  # float32 ``(D, 4)``, boxes of what may or may not be there


def detector_loss(answer: Answer, objects: list[Objects], before: Tensor, taught: Tensor) -> Tensor:
    """The loss of a batch of answers to B pictures with these objects, a scalar.

    Of classes ``(classes,)`` that are `taught` the objects are complete; the others keep to `before`, logits
    ``(B, A, classes)`` of the network that training started from, where no object of theirs is known.
    """
    boxes = answer.boxes()
    places, classes, edges, found = [], [], [], answer.label.new_tensor(0.0)
    for b, known in enumerate(objects):
        with torch.no_grad():
            owner, quality = _assign(answer, b, boxes[b], known)
            positive = (owner >= 0).nonzero()[:, 0]
            target = torch.where(taught, torch.zeros_like(before[b]), before[b].sigmoid())
            named = known.label[owner[positive]]
            target[positive] = torch.where(
                taught | (named > 0), named * quality[positive, None], target[positive]
            )
            free = _free(boxes[b], known.doubtful, owner)
        classes.append(_quality_focal(answer.label[b], target, free))
        found = found + quality[positive].sum()
        if len(positive):
            true = known.box[owner[positive]]
            weight = quality[positive]
            places.append((weight * (1 - _generalised_iou(boxes[b, positive], true))).sum())
            edges.append((weight * _distribution_focal(answer, b, positive, true)).sum())
    total = found.clamp(min=1.0)
    zero = answer.edges.sum() * 0
    return (sum(classes, zero) + 2 * sum(places, zero) + 0.25 * sum(edges, zero)) / total


def _assign(answer: Answer, b: int, boxes: Tensor, known: Objects) -> tuple[Tensor, Tensor]:
    """The object of each cell, int64 ``(A,)``, -1 for none, and how well it should be answered, 0..1."""
    cells = len(boxes)
    owner = torch.full((cells,), -1, dtype=torch.int64, device=boxes.device)
    quality = torch.zeros(cells, device=boxes.device)
    if not len(known.box):
        return owner, quality
    score = (answer.label[b].sigmoid() @ known.label.T / known.label.sum(1)).T  # (N, A)
    shares = corner_overlaps(known.box, boxes)
    x, y = answer.middle.unbind(1)
    left, top, right, bottom = known.box.T[:, :, None]
    # Small things have no cell's middle inside them: one cell's size of leeway.
    slack = (0.5 * answer.stride * ((right - left) * (bottom - top) < (2 * answer.stride) ** 2)).clamp(max=16)
    inside = (x > left - slack) & (x < right + slack) & (y > top - slack) & (y < bottom + slack)
    aligned = (score.clamp(min=1e-6) ** _SCORE * shares**_PLACE + 1e-9) * inside
    best, cell = aligned.topk(min(NEAREST, cells), dim=1)
    chosen = torch.zeros_like(aligned).scatter_(1, cell, best)
    strongest, who = chosen.max(0)
    taken = strongest > 0
    owner[taken] = who[taken]
    peak = aligned.amax(1).clamp(min=1e-9)
    most = (shares * (chosen > 0)).amax(1)
    rows = taken.nonzero()[:, 0]
    mine = owner[rows]
    quality[rows] = (strongest[rows] / peak[mine] * most[mine].clamp(min=0.1)).clamp(0, 1)
    return owner, quality


def _free(boxes: Tensor, doubtful: Tensor, owner: Tensor) -> Tensor:
    """1 for cells whose class is learnt, 0 where it is unknown, float ``(A, 1)``."""
    if not len(doubtful):
        return torch.ones(len(boxes), 1, device=boxes.device)
    doubt = (corner_overlaps(boxes, doubtful) > _DOUBT).any(1) & (owner < 0)
    return (~doubt).float()[:, None]


def _quality_focal(logits: Tensor, target: Tensor, free: Tensor) -> Tensor:
    apart = (logits.sigmoid() - target).abs() ** 2
    each = binary_cross_entropy_with_logits(logits, target, reduction="none") * apart.detach()
    return (each * free).sum()


def _distribution_focal(answer: Answer, b: int, cells: Tensor, true: Tensor) -> Tensor:
    middle, stride = answer.middle[cells], answer.stride[cells, None]
    far = torch.cat([middle - true[:, :2], true[:, 2:] - middle], dim=1) / stride
    far = far.clamp(0, BINS - 1.01)
    low = far.long()
    share = far - low
    logits = answer.edges[b, cells].flatten(0, 1)
    below = cross_entropy(logits, low.flatten(), reduction="none").view(low.shape)
    above = cross_entropy(logits, low.flatten() + 1, reduction="none").view(low.shape)
    return ((1 - share) * below + share * above).mean(1)


def _generalised_iou(a: Tensor, b: Tensor) -> Tensor:
    """Generalised IoU of boxes by their corners, ``(P, 4)`` each."""
    shared = (torch.minimum(a[:, 2:], b[:, 2:]) - torch.maximum(a[:, :2], b[:, :2])).clamp(min=0).prod(1)
    areas = [(x[:, 2:] - x[:, :2]).clamp(min=0).prod(1) for x in (a, b)]
    union = areas[0] + areas[1] - shared
    hull = (torch.maximum(a[:, 2:], b[:, 2:]) - torch.minimum(a[:, :2], b[:, :2])).clamp(min=0).prod(1)
    return shared / union.clamp(min=1e-6) - (hull - union) / hull.clamp(min=1e-6)


def corners(box: Tensor) -> Tensor:
    return torch.cat([box[:, :2], box[:, :2] + box[:, 2:]], dim=1)


def corner_overlaps(a: Tensor, b: Tensor) -> Tensor:
    """Intersection over union of boxes given by their corners, ``(N, 4)`` and ``(M, 4)``: ``(N, M)``."""
    left, top, right, bottom = a[:, None].unbind(-1)
    others = b[None].unbind(-1)  # one plane after the other: hundreds of boxes take a sixth of the time
    across = (torch.minimum(right, others[2]) - torch.maximum(left, others[0])).clamp(min=0)
    down = (torch.minimum(bottom, others[3]) - torch.maximum(top, others[1])).clamp(min=0)
    shared = across * down
    area_a, area_b = ((x[:, 2:] - x[:, :2]).clamp(min=0).prod(-1) for x in (a, b))
    return shared / (area_a[:, None] + area_b[None] - shared).clamp(min=1e-12)


TAUGHT = ("person", "bicycle", "car", "motorcycle", "bus", "truck", "van")
"""Classes that the teacher looks for in every frame; of the others only what it happens to see is known."""

_UNNAMED = {
    "vehicle": (("car", 1.0), ("truck", 0.5), ("bus", 0.5)),
    "two-wheeler": (("motorcycle", 1.0), ("bicycle", 0.7)),
    "person": (("person", 1.0),),
}


def label_of(vote: Vote) -> Tensor:
    """Soft class label from several detectors' votes, float32 ``(classes,)``; the largest is 1."""
    kinds = dict(vote.kinds) or dict(_UNNAMED.get(vote.family, ((vote.family, 1.0),)))
    label = torch.zeros(len(CLASSES))
    most = max(kinds.values())
    for name, share in kinds.items():
        label[CLASSES.index(name)] = share / most
    return label


def objects_of(picture: LabelledPicture) -> Objects:
    rows = np.flatnonzero(picture.sure)
    label = [label_of(picture.votes[i]) for i in rows]
    return Objects(
        torch.from_numpy(picture.boxes[rows]),
        torch.stack(label) if label else torch.zeros(0, len(CLASSES)),
        torch.from_numpy(picture.boxes[~picture.sure]),
    )


def batches(pictures: Pictures, options: StageOptions, first: int) -> Iterator[tuple[Tensor, list[Objects]]]:
    """Batches from step `first` on, drawn ahead by a thread; step n is the same whenever it is drawn."""

    def make(step: int) -> tuple[Tensor, list[Objects]]:
        rng = np.random.default_rng((options.seed, step))
        canvas = CANVASES[int(rng.integers(len(CANVASES)))]
        drawn = [pictures.draw(rng, canvas) for _ in range(options.batch)]
        stack = torch.from_numpy(np.stack([p.image for p in drawn])).permute(0, 3, 1, 2)
        return stack, [objects_of(p) for p in drawn]

    with ThreadPoolExecutor(1) as pool:
        waiting = [pool.submit(make, first + n) for n in range(3)]
        for step in range(first, options.steps):
            yield waiting.pop(0).result()
            waiting.append(pool.submit(make, step + 3))


def train_detector(
    start: Detector, pictures: Pictures, options: StageOptions, out: Path, *, device: str = "cpu"
) -> Detector:
    """Train from `start`, or go on where an earlier run into `out` stopped; the averaged weights."""
    torch.manual_seed(options.seed)
    original = deepcopy(start).eval().to(device=device, memory_format=torch.channels_last)  # type: ignore[call-overload]
    net = deepcopy(start).train().to(device=device, memory_format=torch.channels_last)  # type: ignore[call-overload]
    average: Detector = deepcopy(net)
    optimizer = torch.optim.AdamW(net.parameters(), lr=options.rate, weight_decay=1e-4)
    parts: dict[str, Stateful] = {"net": net, "average": average, "optimizer": optimizer}
    step = load_state(out / "state.pt", **parts)
    taught = torch.tensor([name in TAUGHT for name in CLASSES], device=device)
    began, losses = time.monotonic(), []
    for shown, objects in batches(pictures, options, step):
        for group in optimizer.param_groups:
            group["lr"] = _rate(step, options)
        images = shown.to(device)
        known = [Objects(o.box.to(device), o.label.to(device), o.doubtful.to(device)) for o in objects]
        with torch.autocast(device, torch.bfloat16):
            with torch.no_grad():
                before = original(images).label
            answer = net(images)
        loss = detector_loss(answer.float(), known, before.float(), taught)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(net.parameters(), options.clip)
        optimizer.step()
        step += 1
        with torch.no_grad():
            keep = min(options.average, step / (step + 10))
            for ours, theirs in zip(average.parameters(), net.parameters(), strict=True):
                ours.lerp_(theirs, 1 - keep)
        losses.append(float(loss.detach()))
        if step % 50 == 0:
            loss_mean, seconds = round(sum(losses) / len(losses), 4), round(time.monotonic() - began)
            line = {"step": step, "loss": loss_mean, "s": seconds}
            with (out / "log.jsonl").open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
            losses = []
        if step % 250 == 0 or step == options.steps:
            save_state(out / "state.pt", step, **parts)
    return average.eval()


def _rate(step: int, options: StageOptions) -> float:
    warm = min(1.0, (step + 1) / options.warm_up)
    return options.rate * warm * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * step / options.steps)))


MEASURED = ("person", "vehicle", "two-wheeler")  # the families that are measured

FEWEST = 15  # with fewer sure candidates of a family on a camera, nothing is measured there
_RIGHT, _DOUBTFUL = 0.5, 0.4  # overlaps with a candidate


def average_precision(
    detector: AnyDetector, folder: Path, frames: Sequence[LabelledFrame], every: int = 1
) -> dict[str, float]:
    """Average precision 0..1 by ``CAMERA FAMILY``."""
    answers: dict[str, list[tuple[float, bool]]] = {}
    true: dict[str, int] = {}
    for frame in frames[::every]:
        (found,) = detector.detect([fit_canvas(picture(folder, frame))])
        for family in MEASURED:
            key = f"{frame.camera} {family}"
            votes = [vote for vote in frame.votes if vote.family == family]
            true[key] = true.get(key, 0) + sum(vote.sure for vote in votes)
            answers.setdefault(key, []).extend(_answers(found, family, votes))
    return {key: area_under_curve(answers[key], n) for key, n in true.items() if n >= FEWEST}


def mean(scores: dict[str, float]) -> float:
    """Mean over cameras and families, 0..1; 0 where nothing could be measured."""
    return sum(scores.values()) / max(len(scores), 1)


def fit_canvas(image: Image) -> Image:
    high, wide = canvas(*image.shape[:2])
    way = cv2.INTER_AREA if image.shape[1] > wide else cv2.INTER_LINEAR
    return np.asarray(cv2.resize(image, (wide, high), interpolation=way), np.uint8)


def _answers(found: Detections, family: str, votes: Sequence[Vote]) -> list[tuple[float, bool]]:
    """Score of each detection of a family, and whether it is right; doubtful ones are left out."""
    rows = [i for i, best in enumerate(found.label.argmax(1).tolist()) if family_of(OBJECTS[best]) == family]
    boxes = [tuple(box) for box in found.box[rows].tolist()]
    shares = overlaps(boxes, [vote.box for vote in votes]) if boxes else np.zeros((0, len(votes)))
    taken: set[int] = set()
    judged = []
    for n, row in enumerate(rows):
        there = [m for m, vote in enumerate(votes) if vote.sure and m not in taken and shares[n, m] >= _RIGHT]
        doubtful = any(not vote.sure and shares[n, m] >= _DOUBTFUL for m, vote in enumerate(votes))
        if there:
            taken.add(max(there, key=lambda m: shares[n, m]))
        if there or not doubtful:
            judged.append((float(found.score[row]), bool(there)))
    return judged


def area_under_curve(answers: list[tuple[float, bool]], true: int) -> float:
    right = np.cumsum([good for _, good in sorted(answers, key=lambda each: -each[0])], dtype=np.float64)
    if not len(right):
        return 0.0
    precision = np.maximum.accumulate((right / np.arange(1, len(right) + 1))[::-1])[::-1]
    return float((np.diff(right / true, prepend=0.0) * precision).sum())
