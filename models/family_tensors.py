"""The table of families as tensors."""

from __future__ import annotations

import torch

from models.families import CLASSES, OBJECTS, family_of, first_of, object_of

GROUPS = torch.tensor([[object_of(label) == name for label in CLASSES] for name in OBJECTS])
"""Bool ``(len(OBJECTS), len(CLASSES))``: which classes an object's name stands for."""

FAMILY = torch.tensor([first_of(family_of(name)) for name in OBJECTS])
"""int64 ``(len(OBJECTS),)``: the first object of each one's family."""
