"""The detector's training loss.

Cells are assigned to objects by how well they already answer (Feng et al. 2021, "TOOD: task-aligned
one-stage object detection", equation 3); classes learn by quality focal loss and edges by distribution focal
loss (Li et al. 2020, "Generalized focal loss", equations 3 and 6) and generalised IoU (Rezatofighi et al.
2019).
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from models.grounded.detector import Answer
from models.grounded.inference import BINS

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
