"""Exchanges: where one vehicle stood another one stands, a minute later or a day.

The teachers of judge and linker see a vehicle on both sides and call it unchanged, so that neither learnt
this. Of one that stays the two pictures correlate whatever the light; the surer it is that both are vehicles,
the more alike two pictures of one must be. Bounds are read off contact sheets of training cameras
(docs/adr/0014).
"""

from __future__ import annotations

import torch
from torch import Tensor

from models.box_tensors import overlaps
from models.families import first_of
from models.family_tensors import FAMILY
from models.grounded.judge import Sides, correlation_at
from models.grounded.linker import Ends

LATER_S = 60.0
"""Sooner, what drives on is told from what came after it by judge and linker."""

ALIKE = 0.6
"""Greatest correlation of the two pictures where two stand: of 34 that stand in validation pairs for ten
seconds and more one is below it, at .55."""

REAL = 0.9
"""How likely both ends of an exchange are changes."""

_PLACE = 0.4  # overlap from which two stand at one place
_LEAST = 0.4  # score of both ends
_LESS = 0.05  # by so much the correlation must be below that score


def exchanged(sides: Sides, before: Ends, after: Ends) -> Tensor:
    """Which two vehicles of S before and T after stand at one place and are not one: bool ``(S, T)``."""
    shares = overlaps(before.box, after.box)
    if not shares.numel() or not float(sides.gap_s) >= LATER_S:
        return torch.zeros_like(shares, dtype=torch.bool)
    scores = [_vehicle_score(side) for side in (before, after)]
    correlations = [correlation_at(sides.pictures, side.box) for side in (before, after)]
    score = torch.minimum(scores[0][:, None], scores[1][None])
    alike = torch.maximum(correlations[0][:, None], correlations[1][None])
    nearest = (shares == shares.amax(1, keepdim=True)) & (shares == shares.amax(0, keepdim=True))
    unlike = alike < (score - _LESS).clamp(max=ALIKE)
    return nearest & (shares >= _PLACE) & (score >= _LEAST) & unlike


def _vehicle_score(side: Ends) -> Tensor:
    """Scores ``(N,)``, 0 of what is not a vehicle."""
    return side.score * (FAMILY.to(side.label.device)[side.label.argmax(-1)] == first_of("vehicle"))
