"""Settings common to labelling and training of the shipped model: its mask, and footage to keep out."""

from __future__ import annotations

from pipeline.changes import ChangeOptions

TEST_FOOTAGE = ("vtest*", "opencv_vtest*")
"""OpenCV's sample clip stays a test scene: it is never trained on."""

GROUNDED = ChangeOptions(
    size=(288, 384),
    max_shift=8,
    delta=38,
    noise_factor=1.0,
    eps=3,
    min_samples=10,
    min_area=0.001,
    light_correlation=0.9,
    max_clusters=16,
)
"""The mask pipeline of the grounded captioner: through it all labels go."""
