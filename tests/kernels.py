"""Compiles the numba kernels for the whole test session; what is in the cache already takes a second."""

import numpy as np

from pipeline.changes import ChangeOptions, image_changes
from pipeline.distance import l2_rgb


def compile_kernels() -> None:
    """Look once at two pictures that differ, with the papers' options and with the shipped ones."""
    before = np.random.default_rng(0).integers(90, 110, (240, 320, 3), np.uint8)
    after = before.copy()
    after[60:140, 80:140] = 230
    for options in (ChangeOptions(), ChangeOptions(match_light=False, noise_factor=0.0, eps=3.0)):
        image_changes(before, after, options)
    l2_rgb(before, after)
