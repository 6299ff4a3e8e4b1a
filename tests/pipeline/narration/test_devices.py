"""The path of the daemon leaves nothing on the CPU when its captioner is elsewhere.

Without a GPU `pretend_device` stands for one: a tensor left behind fails there as it would on CUDA.
"""

from itertools import islice

import av
import numpy as np
import pytest
import torch
from pretend_device import pretend_device
from still import shown

from models import load_captioner
from models.captioner import Captioner, Sentence
from pipeline.changes import ChangeOptions, find_changes
from pipeline.narration.narration import Narration, narrate
from pipeline.pairs import FramePair
from pipeline.sources import Frame


@pytest.fixture(scope="module")
def frames(clips) -> list[Frame]:
    """Four of vtest, half a second apart."""
    with av.open(str(clips / "opencv_vtest.avi")) as container:
        images = [frame.to_ndarray(format="rgb24") for frame in islice(container.decode(video=0), 0, 20, 5)]
    return [shown(image, k / 2) for k, image in enumerate(images)]


def told(frames: list[Frame], captioner: Captioner, device: str | None) -> list[Narration]:
    """Two stills."""
    options = ChangeOptions.of(captioner.record.get("changes", {}))
    changes = find_changes([FramePair(frames[0], frames[-1], 10.0)], options, captioner.salience, device)
    return narrate(changes, captioner)


def rounded(narrations: list[Narration]) -> list[object]:
    def numbers(one: Sentence) -> tuple[float, object]:
        return round(one.confidence, 3), one.box and np.round(one.box, 3).tolist()

    return [(n.text, n.event, [numbers(one) for one in n.sentences]) for n in narrations]


@pytest.mark.footage
def test_what_is_told_does_not_depend_on_the_device(frames):
    here = told(frames, load_captioner(), None)
    assert here[0].text
    with pretend_device() as device:
        away = load_captioner(device=str(device))
        assert away.device == "meta"
        elsewhere = told(frames, away, "meta")
    assert rounded(elsewhere) == rounded(here)


@pytest.mark.gpu
@pytest.mark.footage
def test_a_gpu_tells_the_same(frames):
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    here, there = load_captioner(), load_captioner(device="cuda")
    texts = [[n.text for n in told(frames, *where)] for where in ((here, None), (there, "cuda"))]
    assert texts[0] == texts[1]
