"""Samples as the daemon would see them."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from pipeline.distance import l2_luma, l2_rgb
from pipeline.pairs import FramePair
from pipeline.sources import SourceError, SourceOptions, read_still
from pipeline.thresholds import PairThresholds
from train.samples import Sample, SampleError


def frame_pair(sample: Sample) -> FramePair:
    """The pictures of a sample as a frame pair.

    Raises:
        SampleError: one of them cannot be read, or they differ in size.
    """
    try:
        before, after = (
            read_still(p, SourceOptions(), sample.camera or "own") for p in (sample.before, sample.after)
        )
    except SourceError as error:
        raise SampleError(f"sample {sample.id}: {error}") from None
    if before.image.shape != after.image.shape:
        raise SampleError(f"sample {sample.id}: its pictures differ in size; give two of one camera")
    after = replace(after, time=max(after.time, before.time + timedelta(seconds=1)), pts=1)
    beyond = l2_luma(before.luma, after.luma)[0] > PairThresholds().upper
    return FramePair(
        before, after, l2_rgb(before.image, after.image)[0], beyond_upper=beyond, gap_known=False
    )
